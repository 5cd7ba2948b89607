"""Tasks that wait for tasks of another shape lend what they hold."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import rt as ray
from local_executors import LocalExecutors
from task_session import DEADLINE_S, hub, session_of


@ray.remote(num_cpus=1)
def one(depth: int = 0) -> int:
    """A task of one cpu, which waits for others of its shape."""
    return 1 + sum(ray.get([one.remote(depth - 1)])) if depth else 1


@ray.remote(num_cpus=2)
def two(count: int) -> int:
    """A task of two cpus that waits for smaller ones."""
    return sum(ray.get([one.remote() for _ in range(count)]))


@ray.remote(num_cpus=1)
def waits_for_two(count: int) -> int:
    """A task of one cpu that waits for a larger one."""
    return int(ray.get(two.remote(count)))


@ray.remote(num_cpus=1)
class Counter:
    """An actor of one cpu."""

    def __init__(self) -> None:
        self.count = 0

    def add(self) -> int:
        self.count += 1
        return self.count


@ray.remote(num_cpus=2)
def counts(times: int) -> int:
    """A task of two cpus that waits for an actor of its own."""
    counter = Counter.remote()
    return max(ray.get([counter.add.remote() for _ in range(times)]))


def test_a_task_waits_for_smaller_ones_while_it_has_all_cpus() -> None:
    with session_of(LocalExecutors(2)):
        assert ray.get([two.remote(20) for _ in range(3)], timeout=DEADLINE_S) == [20] * 3


def test_tasks_that_have_all_cpus_wait_for_a_larger_one() -> None:
    with session_of(LocalExecutors(2)):
        several = [waits_for_two.remote(3) for _ in range(2)]
        assert ray.get(several, timeout=DEADLINE_S) == [3, 3]


def test_a_task_that_has_all_cpus_waits_for_an_actor() -> None:
    with session_of(LocalExecutors(2)):
        assert ray.get(counts.remote(5), timeout=DEADLINE_S) == 5


def test_nothing_is_lent_for_ever() -> None:
    with session_of(LocalExecutors(2)):
        assert ray.get(two.remote(4), timeout=DEADLINE_S) == 4
        assert ray.get(one.remote(3), timeout=DEADLINE_S) == 4
        slots = [slot for pool in hub().schedule.pools.values() for slot in pool.slots.values()]
        assert all((slot.running, slot.blocked) == (0, 0) for slot in slots)
