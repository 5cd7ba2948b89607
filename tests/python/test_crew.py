"""Executors on other machines are reached one beside the other (rt/core/_crew.py)."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import rt as ray
from far_executors import FarExecutors
from rt.core._crew import Crew
from task_session import DEADLINE_S, session_of, until


def test_an_executor_that_does_not_answer_holds_up_no_other() -> None:
    with session_of(Awaited(2)) as far:

        @ray.remote
        def work(n: int) -> int:
            return n * n

        found = ray.get([work.remote(n) for n in range(8)], timeout=DEADLINE_S)
        assert found == [n * n for n in range(8)]
        assert far.silent_dials == 1  # Its first dial has not been given up yet.


class Awaited(FarExecutors):
    """The first executor is silent; others are dialled once it has been."""

    def __init__(self, cpus: int) -> None:
        super().__init__(cpus)
        self.silent = 1

    def executor_dial(self, id: int) -> Any:
        """As there."""
        if id != self.silent:
            until(lambda: self.silent_dials > 0)
        return super().executor_dial(id)


class Gate:
    """Work that waits until it may end; says who began."""

    def __init__(self, crew: Crew) -> None:
        self.crew = crew
        self.began: list[str] = []
        self._opened: dict[str, threading.Event] = {}

    def put(self, key: str, name: str) -> None:
        """Queues work of this name."""
        self._opened[name] = threading.Event()

        def work() -> None:
            self.began.append(name)
            self._opened[name].wait(DEADLINE_S)

        self.crew.put(key, work)

    def open(self, *names: str) -> None:
        """Lets it end."""
        for name in names:
            self._opened[name].set()


@pytest.fixture
def gate() -> Gate:
    """Three threads, two of them for one node."""
    return Gate(Crew("test", most=3, most_of_one=2))


def wait_began(gate: Gate, *names: str) -> None:
    """Until these have begun, and no other."""
    until(lambda: len(gate.began) >= len(names))
    assert sorted(gate.began) == sorted(names)


def test_a_node_takes_no_more_threads_than_its_share(gate: Gate) -> None:
    for name in ("a1", "a2", "a3"):
        gate.put("a", name)
    gate.put("b", "b1")
    wait_began(gate, "a1", "a2", "b1")
    gate.put("c", "c1")
    gate.open("b1")  # Its thread takes c1: a3 would be a third one for its node.
    wait_began(gate, "a1", "a2", "b1", "c1")
    gate.open("a1")
    wait_began(gate, "a1", "a2", "a3", "b1", "c1")
    gate.open("a2", "a3", "c1")


def test_what_fails_ends_no_thread_and_what_is_left_is_dropped_at_the_end(
    gate: Gate, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails() -> None:
        raise ValueError("no such way")

    gate.crew.put("a", fails)
    for name in ("a1", "a2", "a3"):
        gate.put("a", name)
    wait_began(gate, "a1", "a2")
    assert "ValueError: no such way" in capsys.readouterr().err
    gate.crew.close()
    gate.open("a1", "a2")
    until(lambda: not any(each.name == "test" for each in threading.enumerate()))
    assert sorted(gate.began) == ["a1", "a2"]
