"""Small values between ranks: `allreduce` and `broadcast`, over the store of torch.distributed.

Values travel as JSON, so a rank never unpickles what another one sent: None, bools, numbers, texts,
bytes, lists, tuples and dicts of these. Every rank must make the same calls in the same order. A
process without a store (a single rank) is its own world.
"""

from __future__ import annotations

import base64
import json
import operator
from typing import Any, Callable, Optional, Protocol

from rt.elastic import env

Reduce = Callable[[Any, Any], Any]
default_reduce_fn: Reduce = operator.add
_TAG = "__rt__"


class Store(Protocol):
    """What is used of torch.distributed.Store."""

    def set(self, key: str, value: Any, /) -> None:
        """Sets a value."""

    def get(self, key: str, /) -> bytes:
        """The value, once it is set."""

    def delete_key(self, key: str, /) -> bool:
        """Removes a value."""


ACKNOWLEDGED = 32  # Every so many broadcasts in a row, rank 0 learns that all have read them.


class _World:
    """The ranks that talk, the number of the next call, and what rank 0 has to remove."""

    def __init__(self, store: Optional[Store], rank: int, size: int) -> None:
        self.store = store
        self.rank = rank
        self.size = size
        self.calls = 0
        self.broadcasts = 0  # Since the last call in which rank 0 heard of all.
        self.unread: list[str] = []  # Of rank 0: calls whose keys it has not removed yet.


_world: Optional[_World] = None


def initialize(
    store: Optional[Store] = None, rank: Optional[int] = None, size: Optional[int] = None
) -> None:
    """Called by init_process_group. Raises ValueError for several ranks without a store."""
    global _world
    size = env.num_replicas() if size is None else size
    if size > 1 and store is None:
        raise ValueError("several ranks need a store: call rt.elastic.torch.init_process_group()")
    _world = _World(store, env.replica_rank() if rank is None else rank, size)


def teardown() -> None:
    """Forgets the other ranks."""
    global _world
    _world = None


def allreduce(value: Any, reduce_fn: Reduce = default_reduce_fn) -> Any:
    """The values of all ranks, reduced in the order of the ranks; the same on every rank.

    Raises TypeError for a value that JSON cannot hold.
    """
    values = gather(value)
    result = values[0]
    for each in values[1:]:
        result = reduce_fn(result, each)
    return result


class _Done:
    """The result of allreduce_async."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def result(self) -> Any:
        """The reduced value."""
        return self._value


def allreduce_async(value: Any, reduce_fn: Reduce = default_reduce_fn) -> Any:
    """An object whose `result()` is that of allreduce. (It is computed at once.)"""
    return _Done(allreduce(value, reduce_fn))


def broadcast(value: Any) -> Any:
    """The value of rank 0, on every rank."""
    world = _current()
    if world.store is None or world.size == 1:
        return decode(encode(value))
    world.broadcasts += 1
    if world.broadcasts >= ACKNOWLEDGED:
        return gather(value if world.rank == 0 else None)[0]
    key = _next_key(world)
    if world.rank == 0:
        world.unread.append(key)
        world.store.set(f"{key}/all", encode(value))
    return decode(world.store.get(f"{key}/all"))


def gather(value: Any) -> list[Any]:
    """The values of all ranks, by rank; the same list on every rank."""
    world = _current()
    if world.store is None or world.size == 1:
        return [decode(encode(value))]
    key, world.broadcasts = _next_key(world), 0
    if world.rank > 0:
        world.store.set(f"{key}/{world.rank}", encode(value))
        return list(decode(world.store.get(f"{key}/all")))
    values = [decode(encode(value))]
    values += [decode(world.store.get(f"{key}/{rank}")) for rank in range(1, world.size)]
    # All ranks have come here, so nobody reads what earlier calls left.
    for old in world.unread:
        for name in ["all", *map(str, range(1, world.size))]:
            world.store.delete_key(f"{old}/{name}")
    world.unread = [key]
    world.store.set(f"{key}/all", encode(values))
    return values


def _next_key(world: _World) -> str:
    key = f"rt.elastic/{world.calls}"
    world.calls += 1
    return key


def _current() -> _World:
    if _world is not None:
        return _world
    if env.num_replicas() > 1:
        raise RuntimeError("there are other ranks: call init_process_group() first")
    return _World(None, 0, 1)


def encode(value: Any) -> bytes:
    """The value as JSON. Raises TypeError for what cannot travel."""
    return json.dumps(_to_json(value), separators=(",", ":")).encode()


def decode(text: bytes) -> Any:
    """The value of `encode`. Raises ValueError for what is not such a text."""
    return _from_json(json.loads(bytes(text)))


def _to_json(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, list):
        return [_to_json(each) for each in value]
    if isinstance(value, tuple):
        return {_TAG: "tuple", "items": [_to_json(each) for each in value]}
    if isinstance(value, bytes):
        return {_TAG: "bytes", "text": base64.b64encode(value).decode()}
    if isinstance(value, dict):
        if all(isinstance(key, str) and key != _TAG for key in value):
            return {key: _to_json(each) for key, each in value.items()}
        pairs = [[_to_json(key), _to_json(each)] for key, each in value.items()]
        return {_TAG: "dict", "items": pairs}
    item = getattr(value, "item", None)  # A number of numpy or torch.
    if item is not None and getattr(value, "shape", None) == ():
        return _to_json(item())
    raise TypeError(
        f"a {type(value).__name__} cannot travel between ranks: it must be made of numbers, texts, "
        "bytes, lists, tuples and dicts"
    )


def _from_json(value: Any) -> Any:
    if isinstance(value, list):
        return [_from_json(each) for each in value]
    if not isinstance(value, dict):
        return value
    kind = value.get(_TAG)
    if kind is None:
        return {key: _from_json(each) for key, each in value.items()}
    if kind == "tuple":
        return tuple(_from_json(each) for each in value["items"])
    if kind == "bytes":
        return base64.b64decode(value["text"])
    if kind == "dict":
        return {_from_json(key): _from_json(each) for key, each in value["items"]}
    raise ValueError(f"a value of the unknown kind {kind!r}")
