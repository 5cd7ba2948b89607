"""Rows per block that one rank counts for all ranks, through the store of torch.distributed.

Counting costs one run of the plan. Whichever rank needs the counts first runs it; the others wait
for what it finds. Without a store every rank counts for itself.
"""

from __future__ import annotations

import time
from typing import Any, Callable, Optional, Protocol

from rt.data._arrow import np

_LOOK_S = 0.02
_FAILED = b"failed"


class Store(Protocol):
    """What is used of torch.distributed.Store."""

    def add(self, key: str, amount: int, /) -> int:
        """Adds to a number, which is 0 at first; the sum."""

    def set(self, key: str, value: Any, /) -> None:
        """Sets a value."""

    def get(self, key: str, /) -> bytes:
        """A value that is set."""

    def check(self, keys: list[str], /) -> bool:
        """Whether all of them are set."""


_store: Optional[Store] = None


def share_counts(store: Optional[Store]) -> None:
    """From now on this process shares counts with the others that have the same store."""
    global _store
    _store = store


def counted_once(key: str, count: Callable[[], Any]) -> Any:
    """What `count` returns (int64), in this process or in the one that asked first under `key`.

    Raises what `count` raises. Where it failed elsewhere it is called here.
    """
    store = _store
    if store is None:
        return count()
    name = f"rt.data/{key}"
    if store.add(f"{name}/asked", 1) > 1:
        while not store.check([name]):  # `wait` would keep other threads from using the store.
            time.sleep(_LOOK_S)
        found = store.get(name)
        return count() if found == _FAILED else np.frombuffer(found, dtype=np.int64)
    try:
        counts = count()
    except BaseException:
        store.set(name, _FAILED)
        raise
    store.set(name, np.asarray(counts, dtype=np.int64).tobytes())
    return counts
