"""Actors that have cpus and wait for tasks that need some."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import rt as ray
from local_executors import LocalExecutors
from rt import exceptions
from task_session import DEADLINE_S, hub, session_of, until


@ray.remote
def one() -> int:
    """A task that needs a cpu."""
    return 1


@ray.remote(num_cpus=1)
class Waiting:
    """An actor that has a cpu, and waits for tasks that need one."""

    async def awaits(self, count: int) -> int:
        return sum(await asyncio.gather(*[one.remote() for _ in range(count)]))

    async def gets(self) -> int:
        return ray.get(one.remote())

    async def holds(self, gate: str) -> bool:
        while not Path(gate).exists():
            await asyncio.sleep(0.001)
        return True


@ray.remote(num_cpus=1)
class WaitingInTurn:
    """The same without coroutines."""

    def gets(self) -> int:
        return ray.get(one.remote())

    def dies(self) -> None:
        ray.get(kill.remote(os.getpid()))


@ray.remote
def kill(pid: int) -> None:
    """Needs a cpu as well."""
    os.kill(pid, signal.SIGKILL)


def slots() -> list[Any]:
    """The executors of the driver."""
    return [slot for pool in hub().schedule.pools.values() for slot in pool.slots.values()]


def test_an_actor_that_waits_lends_its_cpu(tmp_path: Path) -> None:
    with session_of(LocalExecutors(1)):
        actor = Waiting.remote()
        assert ray.get(actor.awaits.remote(3), timeout=DEADLINE_S) == 3
        assert ray.get(actor.gets.remote(), timeout=DEADLINE_S) == 1
        several = [actor.awaits.remote(2) for _ in range(4)]
        assert ray.get(several, timeout=DEADLINE_S) == [2] * 4
        until(lambda: [(slot.running, slot.blocked) for slot in slots()] == [(1, 0)])
        held = actor.holds.remote(str(tmp_path / "gate"))
        waits = one.remote()  # The actor does not wait: the task has no cpu.
        assert ray.wait([waits], timeout=0.1) == ([], [waits])
        (tmp_path / "gate").touch()
        assert ray.get(held, timeout=DEADLINE_S)
        del actor
        assert ray.get(waits, timeout=DEADLINE_S) == 1


def test_an_actor_that_ends_while_it_waits_gives_its_cpu_back() -> None:
    with session_of(LocalExecutors(1)):
        actor = WaitingInTurn.remote()
        assert ray.get(actor.gets.remote(), timeout=DEADLINE_S) == 1
        with pytest.raises(exceptions.ActorDiedError):
            ray.get(actor.dies.remote(), timeout=DEADLINE_S)
        assert ray.get(one.remote(), timeout=DEADLINE_S) == 1
        assert all((slot.running, slot.blocked) == (0, 0) for slot in slots())
