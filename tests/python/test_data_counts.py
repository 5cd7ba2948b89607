"""Counts of blocks that one rank finds for all."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import cloudpickle
import pytest
import rt.data
from rt.data import _shared_counts


class DictStore:
    """What is used of torch.distributed.Store, for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers: dict[str, int] = {}
        self.values: dict[str, bytes] = {}

    def add(self, key: str, amount: int, /) -> int:
        with self._lock:
            self._numbers[key] = self._numbers.get(key, 0) + amount
            return self._numbers[key]

    def set(self, key: str, value: Any, /) -> None:
        self.values[key] = bytes(value)

    def get(self, key: str, /) -> bytes:
        return self.values[key]

    def check(self, keys: list[str], /) -> bool:
        return all(key in self.values for key in keys)


@pytest.fixture
def store() -> Iterator[DictStore]:
    made = DictStore()
    _shared_counts.share_counts(made)
    yield made
    _shared_counts.share_counts(None)


calls: list[int] = []


def is_even(row: dict[str, Any]) -> bool:
    calls.append(row["id"])
    return bool(row["id"] % 2 == 0)


def shards_of(data: rt.data.Dataset) -> list[rt.data.DataIterator]:
    """As the ranks get them: each from a plan of its own."""
    return [rt.data.shard(cloudpickle.loads(cloudpickle.dumps(data)), r, 3) for r in range(3)]


def test_one_rank_counts_for_all(store: DictStore) -> None:
    calls.clear()
    shards = shards_of(rt.data.range(90).filter(is_even))
    with ThreadPoolExecutor(3) as pool:
        rows = list(pool.map(lambda one: [row["id"] for row in one.iter_rows()], shards))
    assert sorted(row for share in rows for row in share) == list(range(0, 90, 2))
    assert len(store.values) == 1
    assert len(calls) == 4 * 90  # One pass to count, and each rank reads the only block.


def test_other_plans_and_other_seeds_are_counted_apart(store: DictStore) -> None:
    plain = rt.data.range(20)
    for data in (plain.filter(is_even), plain.random_shuffle(seed=1).filter(is_even),
                 plain.random_shuffle(seed=2).filter(is_even)):
        list(rt.data.shard(data, 0, 2).iter_rows())
    assert len(store.values) == 3


def test_where_the_first_rank_fails_the_others_count_themselves(store: DictStore) -> None:
    failures = [True]

    def fails_once() -> Any:
        if failures.pop() if failures else False:
            raise KeyError("no")
        return _shared_counts.np.array([4, 5])

    with pytest.raises(KeyError):
        _shared_counts.counted_once("x", fails_once)
    assert _shared_counts.counted_once("x", fails_once).tolist() == [4, 5]
