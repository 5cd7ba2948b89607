"""Methods of actors: generators, and which attributes are methods (local_executors.py)."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import rt as ray
from task_session import until

pytestmark = pytest.mark.usefixtures("executors")


def test_an_async_generator_waits_until_its_items_are_taken() -> None:
    @ray.remote
    class Source:
        def __init__(self) -> None:
            self.made = 0

        @ray.method(_generator_backpressure_num_objects=3)
        async def count(self, count: int) -> Any:
            for n in range(count):
                self.made += 1
                yield n

        async def get_made(self) -> int:
            return self.made

    source = Source.remote()
    items = source.count.remote(10)
    until(lambda: ray.get(source.get_made.remote()) == 3)
    assert [ray.get(ref) for ref in items] == list(range(10))


def test_an_attribute_may_have_the_name_of_a_method(tmp_path: Path) -> None:
    @ray.remote
    class Named:
        def __init__(self) -> None:
            self.value = 3

        def value(self) -> int:  # type: ignore[no-redef]
            return self.value  # type: ignore[return-value]

        @staticmethod
        def plain(n: int) -> int:
            return n

        @classmethod
        def name(cls) -> str:
            return cls.__name__

        def waits(self, gate: Path) -> None:
            while not gate.exists():
                time.sleep(0.001)

    named = Named.remote()
    assert ray.get([named.value.remote(), named.plain.remote(2)]) == [3, 2]
    assert ray.get(named.name.remote()) == "Named"
    with pytest.raises(ValueError, match="force"):
        ray.cancel(named.waits.remote(tmp_path / "gate"), force=True)
    (tmp_path / "gate").touch()


def test_sys_exit_in_a_method_fails_the_process_which_restarts() -> None:
    class Leaves:
        def __init__(self) -> None:
            self.calls = 0

        def leave(self, code: Any) -> None:
            sys.exit(code)

        def count(self) -> int:
            self.calls += 1
            return self.calls

    class Awaits(Leaves):
        async def leave_later(self) -> None:
            sys.exit(3)

    leaves = ray.remote(max_restarts=2)(Leaves).remote()
    for code in (1, None):
        assert ray.get(leaves.count.remote()) == 1
        with pytest.raises(ray.exceptions.ActorUnavailableError):
            ray.get(leaves.leave.remote(code))
    with pytest.raises(ray.exceptions.ActorDiedError, match="exit code 1"):
        ray.get(leaves.leave.remote("said"))
    awaits = ray.remote(max_restarts=-1)(Awaits).remote()
    with pytest.raises(ray.exceptions.ActorUnavailableError, match="exit code 3"):
        ray.get(awaits.leave_later.remote())
    assert ray.get(awaits.count.remote()) == 1


def test_a_generator_that_fails_after_it_has_yielded_is_tried_again(tmp_path: Path) -> None:
    def numbers(path: str, count: int, fault: str) -> Any:
        with open(path, "a") as file:
            file.write("x")
        tries = len(Path(path).read_text())
        for n in range(count):
            yield ray.put(n) if n == 1 else n
            if n == 2 and tries < 3:
                if fault == "dies":
                    os._exit(1)
                raise KeyError(tries)

    @ray.remote(max_task_retries=2, max_restarts=2)
    class Source:
        @ray.method(retry_exceptions=True)
        def run(self, *arguments: Any) -> Any:
            yield from numbers(*arguments)

        @ray.method(retry_exceptions=True)
        async def run_later(self, *arguments: Any) -> Any:
            for each in numbers(*arguments):
                yield each

    task = ray.remote(max_retries=2, retry_exceptions=[KeyError])(numbers)
    bounded = task.options(_generator_backpressure_num_objects=2)
    source = Source.remote()
    for index, (call, fault) in enumerate([
        (task.remote, "dies"), (task.remote, "raises"), (bounded.remote, "raises"),
        (bounded.remote, "dies"), (source.run.remote, "raises"),
        (source.run_later.remote, "raises"), (source.run.remote, "dies"),
    ]):  # fmt: skip
        path = tmp_path / str(index)
        found = [ray.get(each) for each in call(str(path), 20, fault)]
        assert (found[0], ray.get(found[1]), found[2:]) == (0, 1, list(range(2, 20))), index
        assert path.read_text() == "xxx", index


def test_pending_calls_are_limited_for_each_caller() -> None:
    @ray.remote
    class Gate:
        def __init__(self) -> None:
            self.open = asyncio.Event()

        async def wait(self) -> None:
            await self.open.wait()

        async def pass_all(self) -> int:
            self.open.set()
            return 1

    @ray.remote
    def passes(gate: Any) -> int:
        return int(ray.get(gate.pass_all.remote()))

    gate = Gate.options(max_pending_calls=3).remote()
    waiting = [gate.wait.remote() for _ in range(3)]
    with pytest.raises(ray.exceptions.PendingCallsLimitExceeded):
        gate.wait.remote()
    assert ray.get(passes.remote(gate)) == 1
    ray.get(waiting)


def test_as_many_calls_run_together_as_max_concurrency_says() -> None:
    count = 1500

    @ray.remote
    class Meets:
        def __init__(self) -> None:
            self.here = 0
            self.all = asyncio.Event()

        async def meet(self) -> int:
            self.here += 1
            if self.here == count:
                self.all.set()
            await self.all.wait()
            return self.here

    meets = Meets.options(max_concurrency=count).remote()
    assert ray.get([meets.meet.remote() for _ in range(count)], timeout=60) == [count] * count


def test_a_task_hears_at_once_that_the_name_of_its_actor_is_taken() -> None:
    @ray.remote
    class Named:
        def ping(self) -> str:
            return "ok"

    @ray.remote
    def takes(name: str) -> str:
        try:
            named = Named.options(name=name).remote()
        except ValueError as error:
            return str(error)
        return str(ray.get(named.ping.remote()))

    kept = Named.options(name="taken").remote()
    assert "'taken' exists" in ray.get(takes.remote("taken"))
    assert ray.get(takes.remote("free")) == "ok"
    assert ray.get(kept.ping.remote()) == "ok"
