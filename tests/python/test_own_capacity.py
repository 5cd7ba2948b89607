"""Tasks in the capacity of the driver while it waits, when the cluster has no room for them."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any, Iterator

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import rt as ray
from local_executors import LocalExecutors
from rt import exceptions
from rt.core._assigned import assigned
from rt.core._own import width_of
from task_session import add, hub, until


@ray.remote
def place() -> tuple[int, Any]:
    """Its parent's parent, and what it has."""
    with open(f"/proc/{os.getppid()}/stat", encoding="ascii") as file:
        return int(file.read().rpartition(")")[2].split()[1]), assigned()


@ray.remote
def nested(depth: int) -> int:
    return ray.get(nested.remote(depth - 1)) + 1 if depth else 0


@pytest.fixture
def own(
    executors: LocalExecutors, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Any]:
    """The driver is a trial of one cpu, and the cluster is full."""
    found = hub().schedule.places._own
    monkeypatch.setattr(found, "_capacity", {"cpu": 1.0})
    monkeypatch.setenv("RT_TRIAL_DIR", str(tmp_path / "trial"))
    monkeypatch.setenv("RT_TRIAL_ID", "7")
    monkeypatch.setattr(executors, "cpus", 1)  # Another request is an error, this one waits.
    monkeypatch.setattr(executors, "_used", lambda: 1.0)
    yield found
    until(lambda: not found._slots and not found._processes)
    assert os.listdir(tmp_path) == []


def test_tasks_run_while_the_driver_waits(own: Any) -> None:
    assert ray.get([add.remote(i, 1) for i in range(50)]) == list(range(1, 51))
    assert ray.get(nested.remote(3)) == 3
    grandparent, given = ray.get(place.remote())
    assert (grandparent, given) == (os.getpid(), {"cpu": 1.0})
    ready, left = ray.wait([add.remote(i, 1) for i in range(3)], num_returns=3)
    assert len(ready) == 3 and not left


def test_nothing_is_lent_while_the_driver_works(own: Any) -> None:
    ref = add.remote(1, 2)
    end = time.monotonic() + 1.0
    while time.monotonic() < end:  # The driver computes.
        assert not own._processes
    assert ray.get(ref) == 3


def test_an_executor_that_is_killed_is_replaced(own: Any) -> None:
    assert ray.get(add.remote(1, 2)) == 3
    for process in list(own._processes.values()):
        process.kill()
    assert ray.get([add.remote(i, 1) for i in range(9)]) == list(range(1, 10))


def test_actors_and_tasks_that_do_not_fit_wait_for_the_cluster(own: Any) -> None:
    class Counter:
        def count(self) -> int:
            return 1

    counter = ray.remote(num_cpus=1)(Counter).remote()
    with pytest.raises(exceptions.GetTimeoutError):
        ray.get(counter.count.remote(), timeout=1)
    ray.kill(counter)


def test_a_process_knows_what_it_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    text = '{"cpu": 4, "gpu": 0.5, "memory_bytes": 0, "custom": {"license": 2}}'
    monkeypatch.setenv("RT_ASSIGNED", text)
    assert assigned() == {"cpu": 4.0, "gpu": 0.5, "license": 2.0}
    assert ray.get_runtime_context().get_assigned_resources() == {
        "CPU": 4.0, "GPU": 0.5, "license": 2.0
    }  # fmt: skip
    for broken in ("", "no json", "[1]", '{"cpu": "many"}'):
        monkeypatch.setenv("RT_ASSIGNED", broken)
        assert assigned() == {}


def test_the_width_follows_from_the_scarcest_resource() -> None:
    capacity = {"cpu": 4.0, "license": 2.0}
    assert width_of(capacity, (("cpu", 1.0),)) == 4
    assert width_of(capacity, (("cpu", 1.0), ("license", 1.0))) == 2
    assert width_of(capacity, (("cpu", 0.5), ("gpu", 1.0))) == 0
    assert width_of(capacity, ()) == 0
