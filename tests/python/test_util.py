"""rt.util: a pool of actors, and a queue that is one, without a head (local_executors.py)."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import rt as ray
from rt.util import ActorPool
from rt.util.queue import Empty, Full, Queue
from task_session import DEADLINE_S

pytestmark = pytest.mark.usefixtures("executors")


@ray.remote
class Doubler:
    def double(self, n: int) -> int:
        if n < 0:
            raise ValueError("negative")
        return 2 * n

    @ray.method(num_returns=2)
    def pair(self, n: int) -> Any:
        return n, -n

    def after(self, path: str) -> str:
        while path and not Path(path).exists():
            time.sleep(0.002)
        return path


def test_a_pool_maps_in_order_and_as_results_come(tmp_path: Path) -> None:
    pool = ActorPool([Doubler.remote() for _ in range(2)])
    assert list(pool.map(lambda actor, n: actor.double.remote(n), range(20))) == [
        2 * n for n in range(20)
    ]
    gate = str(tmp_path / "gate")
    found = pool.map_unordered(lambda actor, each: actor.after.remote(each), [gate, "", ""])
    assert [next(found), next(found)] == ["", ""]
    with pytest.raises(TimeoutError):
        pool.get_next(timeout=0.01)
    Path(gate).touch()
    assert list(found) == [gate]
    with pytest.raises(StopIteration):
        pool.get_next()
    pool.submit(lambda actor, n: actor.double.remote(n), -1)
    pool.submit(lambda actor, n: actor.double.remote(n), 4)
    with pytest.raises(ValueError, match="negative"):
        pool.get_next()
    assert pool.get_next_unordered() == 8


def test_a_pool_takes_calls_with_several_results() -> None:
    pool = ActorPool([Doubler.remote()])
    pair = [(lambda actor, n: actor.pair.remote(n))] * 3
    for n, call in enumerate(pair):
        pool.submit(call, n)
    assert [pool.get_next() for _ in pair] == [[0, 0], [1, -1], [2, -2]]


def test_a_pool_lends_actors_and_takes_each_once() -> None:
    first, second = Doubler.remote(), Doubler.remote()
    pool = ActorPool([first])
    pool.submit(lambda actor, n: actor.double.remote(n), 1)
    pool.submit(lambda actor, n: actor.double.remote(n), 2)
    assert pool.pop_idle() is None and not pool.has_free()
    with pytest.raises(ValueError, match="in this pool"):
        pool.push(first)
    pool.push(second)  # It runs what waits.
    assert sorted([pool.get_next(), pool.get_next()]) == [2, 4]
    assert {pool.pop_idle(), pool.pop_idle()} == {first, second}


def test_a_queue_is_shared_by_tasks() -> None:
    queue = Queue(maxsize=3)

    @ray.remote
    def produce(to: Any, count: int) -> None:
        for n in range(count):
            to.put(n)

    done = produce.remote(queue, 10)
    assert [queue.get(timeout=DEADLINE_S) for _ in range(10)] == list(range(10))
    ray.get(done)
    assert queue.empty() and len(queue) == 0
    with pytest.raises(Empty):
        queue.get_nowait()
    with pytest.raises(Empty):
        queue.get(timeout=0.01)
    queue.put_nowait_batch([1, 2])
    with pytest.raises(Full):
        queue.put_nowait_batch([3, 4])
    queue.put(3)
    assert queue.full()
    with pytest.raises(Full):
        queue.put(4, timeout=0.01)
    with pytest.raises(Empty):
        queue.get_nowait_batch(4)
    assert queue.get_nowait_batch(2) == [1, 2]

    async def both() -> Any:
        await queue.put_async("x")
        return [await queue.get_async(), await queue.get_async(block=False)]

    assert asyncio.run(both()) == [3, "x"]
    with pytest.raises(ValueError):
        queue.get(timeout=-1)
    queue.shutdown()
