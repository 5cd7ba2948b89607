"""Python's collector of reference cycles, while modules are imported."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

RARELY = 50_000  # New objects before it looks; by default 700.


@contextlib.contextmanager
def rarely_collecting() -> Iterator[None]:
    """The collector looks through the newest objects less often.

    An import makes many objects and leaves few behind, so that there is little to find: with
    PyTorch, the collector takes a fifth of the time. What the imported code sets itself is kept.
    """
    before = gc.get_threshold()
    gc.set_threshold(RARELY, *before[1:])
    try:
        yield
    finally:
        if gc.get_threshold() == (RARELY, *before[1:]):
            gc.set_threshold(*before)
