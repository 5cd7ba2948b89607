"""Actors with real processes, without a head (local_executors.py)."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import rt as ray
from rt import exceptions
from rt.core import _remote
from task_session import DEADLINE_S, hub, until

pytestmark = pytest.mark.usefixtures("executors")


@ray.remote
class Counter:
    def __init__(self, start: int = 0) -> None:
        self.value = start

    def add(self, n: int = 1) -> int:
        self.value += n
        return self.value

    def pid(self) -> int:
        return os.getpid()

    def die(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def fail(self) -> None:
        raise KeyError("k")

    @ray.method(num_returns=2)
    def pair(self) -> tuple[int, int]:
        return self.value, -self.value


@ray.remote
def use(counter: Any, times: int) -> list[int]:
    return ray.get([counter.add.remote() for _ in range(times)])


@ray.remote
def waits(path: str) -> int:
    """Returns 100 once the file is there."""
    while not os.path.exists(path):
        time.sleep(0.002)
    return 100


def test_calls_of_one_caller_arrive_in_order_and_keep_the_state() -> None:
    counter = Counter.remote(10)
    assert ray.get([counter.add.remote() for _ in range(500)]) == list(range(11, 511))
    with pytest.raises(KeyError):
        ray.get(counter.fail.remote())
    assert ray.get(counter.pair.remote()) == [510, -510]
    assert ray.get(counter.add.remote(ray.put(5))) == 515


def test_a_handle_that_is_passed_to_tasks_is_the_same_actor() -> None:
    counter = Counter.remote()
    found = ray.get([use.remote(counter, 20) for _ in range(3)])
    assert all(each == sorted(each) for each in found)
    assert sorted(number for each in found for number in each) == list(range(1, 61))

    @ray.remote
    class Owner:
        def __init__(self) -> None:
            self.inner = Counter.remote(100)

        def add(self) -> int:
            return int(ray.get(self.inner.add.remote()))

        def give(self) -> Any:
            return self.inner

    owner = Owner.remote()
    assert ray.get(owner.add.remote()) == 101
    inner = ray.get(owner.give.remote())
    assert ray.get(inner.add.remote()) == 102


def test_a_call_waits_for_its_argument_and_later_calls_for_it(tmp_path: Path) -> None:
    counter = Counter.remote()
    late = waits.remote(str(tmp_path / "gate"))
    refs = [counter.add.remote(late), counter.add.remote(1)]
    assert ray.wait(refs, timeout=0.05)[0] == []
    (tmp_path / "gate").touch()
    assert ray.get(refs) == [100, 101]


def test_an_actor_that_dies_fails_its_calls_and_later_ones() -> None:
    counter = Counter.remote()
    assert ray.get(counter.add.remote()) == 1
    refs = [counter.die.remote(), counter.add.remote()]
    for each in refs:
        with pytest.raises(exceptions.RayActorError, match="SIGKILL"):
            ray.get(each)
    with pytest.raises(exceptions.ActorDiedError):
        ray.get(counter.add.remote())


def test_a_restarted_actor_runs_its_constructor_anew() -> None:
    counter = Counter.options(max_restarts=1).remote(5)
    first = ray.get(counter.pid.remote())
    assert ray.get(counter.add.remote()) == 6
    with pytest.raises(exceptions.ActorUnavailableError):
        ray.get(counter.die.remote())
    assert ray.get(counter.add.remote()) == 6
    assert ray.get(counter.pid.remote()) != first
    with pytest.raises(exceptions.ActorDiedError):
        ray.get(counter.die.remote())


def test_calls_are_tried_again_if_asked(tmp_path: Path) -> None:
    @ray.remote(max_restarts=2, max_task_retries=2)
    class Flaky:
        def once(self, path: str) -> str:
            if not os.path.exists(path):
                with open(path, "w"):
                    pass
                os.kill(os.getpid(), signal.SIGKILL)
            return "done"

    flaky = Flaky.remote()
    refs = [flaky.once.remote(str(tmp_path / name)) for name in "ab"]
    assert ray.get(refs) == ["done", "done"]


def test_a_constructor_that_raises_is_the_error_of_every_call() -> None:
    @ray.remote
    class Broken:
        def __init__(self) -> None:
            raise ValueError("no such thing")

        def f(self) -> None:
            pass

    broken = Broken.remote()
    with pytest.raises(exceptions.ActorDiedError, match="no such thing"):
        ray.get(broken.f.remote())


def test_named_actors_are_found_and_their_names_are_free_again() -> None:
    first = Counter.options(name="one").remote()
    assert ray.get(ray.get_actor("one").add.remote()) == 1
    with pytest.raises(ValueError, match="'one' exists"):
        Counter.options(name="one").remote()
    same = Counter.options(name="one", get_if_exists=True).remote()
    assert ray.get(same.add.remote()) == 2

    @ray.remote
    def finds() -> int:
        return int(ray.get(ray.get_actor("one").add.remote()))

    assert ray.get(finds.remote()) == 3
    ray.kill(first)
    with pytest.raises(exceptions.ActorDiedError, match=r"rt\.kill"):
        ray.get(same.add.remote())
    with pytest.raises(ValueError, match="'one'"):
        ray.get_actor("one")
    assert ray.get(Counter.options(name="one").remote().add.remote()) == 1


def _others_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next get_actor comes before another task or thread has made the actor."""
    find, calls = _remote.get_actor, []

    def late(*args: Any) -> Any:
        calls.append(args)
        if len(calls) == 1:
            raise ValueError("not yet")
        return find(*args)

    monkeypatch.setattr(_remote, "get_actor", late)


def test_of_two_that_make_an_actor_at_once_both_get_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = Counter.options(name="race").remote()
    assert ray.get(first.add.remote()) == 1

    @ray.remote
    def second() -> int:
        with pytest.MonkeyPatch.context() as patch:
            _others_first(patch)
            same = Counter.options(name="race", get_if_exists=True).remote()
        return int(ray.get(same.add.remote()))

    assert ray.get(second.remote()) == 2
    _others_first(monkeypatch)
    assert ray.get(Counter.options(name="race", get_if_exists=True).remote().add.remote()) == 3
    ray.kill(first)


def test_an_actor_ends_with_its_last_handle() -> None:
    counter = Counter.remote()
    number = ray.get(counter.pid.remote())
    last = counter.add.remote()
    del counter
    gc.collect()
    assert ray.get(last) == 1
    until(lambda: not os.path.exists(f"/proc/{number}"))


def test_coroutines_run_together() -> None:
    @ray.remote
    class Meeting:
        def __init__(self) -> None:
            self.event = asyncio.Event()

        async def wait(self) -> str:
            await self.event.wait()
            return "met"

        async def open(self) -> None:
            self.event.set()

        async def ask(self, counter: Any) -> int:
            return int(await counter.add.remote())

        async def count(self, n: int) -> Any:
            for i in range(n):
                yield i

    meeting = Meeting.remote()
    waiting = [meeting.wait.remote() for _ in range(5)]
    assert ray.wait(waiting, timeout=0.05)[0] == []
    ray.get(meeting.open.remote())
    assert ray.get(waiting) == ["met"] * 5
    assert ray.get(meeting.ask.remote(Counter.remote(7))) == 8
    assert [ray.get(each) for each in meeting.count.remote(3)] == [0, 1, 2]


def test_threads_of_an_actor_run_together() -> None:
    @ray.remote(max_concurrency=2)
    class Threads:
        def __init__(self) -> None:
            self.barrier = threading.Barrier(2)

        def meet(self) -> bool:
            self.barrier.wait(DEADLINE_S)
            return True

        def nested(self, counter: Any) -> int:
            self.barrier.wait(DEADLINE_S)
            return int(ray.get(counter.add.remote()))

    threads = Threads.remote()
    assert ray.get([threads.meet.remote(), threads.meet.remote()]) == [True, True]
    counter = Counter.remote()
    assert sorted(ray.get([threads.nested.remote(counter) for _ in range(2)])) == [1, 2]


def test_exit_actor_ends_it_after_what_it_did() -> None:
    @ray.remote
    class Leaves:
        def work(self) -> int:
            return 1

        def leave(self) -> None:
            ray.actor.exit_actor()

    leaves = Leaves.remote()
    work, leave = leaves.work.remote(), leaves.leave.remote()
    assert ray.get(work) == 1
    with pytest.raises(exceptions.ActorDiedError, match="exit_actor"):
        ray.get(leave)
    with pytest.raises(TypeError):
        ray.actor.exit_actor()


def test_the_context_names_what_runs() -> None:
    @ray.remote
    class Where:
        def here(self) -> Any:
            context = ray.get_runtime_context()
            return context.get_actor_id(), context.get_task_id(), context.get_job_id()

    one = Where.options(name="where").remote()
    actor, task, job = ray.get(one.here.remote())
    assert actor == one._actor_id and task and job == ray.get_runtime_context().get_job_id()
    assert ray.get_runtime_context().get_actor_id() is None


def test_a_call_that_is_cancelled_holds_up_no_other() -> None:
    @ray.remote
    def never() -> None:
        time.sleep(DEADLINE_S)

    counter, argument = Counter.remote(), never.remote()
    waits = counter.add.remote(argument)
    later = counter.add.remote(2)
    assert ray.wait([later], timeout=0.05)[0] == []
    ray.cancel(waits)
    assert ray.get(later, timeout=DEADLINE_S) == 2
    ray.cancel(argument, force=True)


def test_a_coroutine_that_waits_in_get_misses_no_call() -> None:
    @ray.remote
    class Asks:
        async def ask(self, counter: Any) -> int:
            return int(ray.get(counter.add.remote()))

        async def ping(self) -> int:
            return 1

    asks, counter = Asks.remote(), Counter.remote()
    refs = [asks.ask.remote(counter) if n % 2 else asks.ping.remote() for n in range(100)]
    assert sorted(ray.get(refs[1::2], timeout=DEADLINE_S)) == list(range(1, 51))
    assert ray.get(refs[::2], timeout=DEADLINE_S) == [1] * 50


def test_pending_calls_have_a_limit() -> None:
    @ray.remote(max_pending_calls=3)
    class Slow:
        def wait(self, path: str) -> None:
            while not os.path.exists(path):
                time.sleep(0.005)

    slow = Slow.remote()
    refs = [slow.wait.remote("/nonexistent/rt") for _ in range(3)]
    with pytest.raises(exceptions.PendingCallsLimitExceeded):
        slow.wait.remote("/nonexistent/rt")
    ray.kill(slow)
    for each in refs:
        with pytest.raises(exceptions.ActorDiedError):
            ray.get(each)


def test_actors_with_cpus_take_their_place() -> None:
    with pytest.raises(exceptions.RayError, match="cpus"):
        ray.get(Counter.options(num_cpus=99).remote().add.remote())
    two = Counter.options(num_cpus=2).remote()
    assert ray.get(two.add.remote()) == 1

    @ray.remote
    def f() -> int:
        return 1

    assert ray.get([two.add.remote() for _ in range(20)])[-1] == 21  # Its calls free no place.
    waiting, late = f.remote(), Counter.options(num_cpus=2).remote(5)
    assert ray.wait([waiting, late.add.remote()], timeout=0.3)[0] == []
    del two
    gc.collect()
    assert ray.get(waiting, timeout=DEADLINE_S) == 1
    assert ray.get(late.add.remote(), timeout=DEADLINE_S) == 7
    ended = Counter.options(num_cpus=2).remote()
    del ended, late
    gc.collect()  # Its handle was dropped before it was made.
    assert ray.get(f.options(num_cpus=2).remote(), timeout=DEADLINE_S) == 1


def test_prints_still_work_after_stdout_was_closed(tmp_path: Path) -> None:
    @ray.remote
    class Closes:
        def close(self) -> None:
            sys.stdout.close()
            os.close(1)
            self.file = (tmp_path / "file").open("w")  # It may get the number.

        def shout(self) -> str:
            print("after all")
            self.file.flush()
            return (tmp_path / "file").read_text()

    told: list[str] = []
    session = hub()
    print_out, session.print_out = session.print_out, lambda _stream, text: told.append(text)
    actor = Closes.remote()
    ray.get(actor.close.remote())
    assert ray.get(actor.shout.remote()) == ""
    until(lambda: bool(told))
    session.print_out = print_out
    assert told[0].endswith("after all\n")


def test_a_reference_that_is_gone_is_an_error_that_says_so() -> None:
    ref = ray.put(1)
    ref.__del__()
    hub().drain()
    with pytest.raises(exceptions.ObjectLostError, match="dropped"):
        ray.get(ref)
    with pytest.raises(exceptions.ObjectLostError, match="dropped"):
        ray.wait([ref])


def test_what_a_class_has_is_reached_through_its_actor_class() -> None:
    @ray.remote
    class Made:
        kind = "made"

        def __init__(self, x: int, *, y: int = 0) -> None:
            self.x = x

        @classmethod
        def twice(cls, x: int) -> Any:
            return cls(2 * x)

        def get(self) -> Any:
            return self.x, Made.kind, Made.twice(4).x

    assert Made.kind == "made" and Made.twice(3).x == 6
    assert Made.get is not Made._class.get  # Or it would be pickled by reference.
    assert ray.get(Made.remote(1).get.remote()) == (1, "made", 8)
    for args, kwargs in (((), {}), ((1, 2), {}), ((1,), {"x": 1}), ((1,), {"z": 1})):
        with pytest.raises(TypeError, match="Made"):
            Made.remote(*args, **kwargs)
    with pytest.raises(AttributeError):
        _ = Made.nothing
    with pytest.raises(TypeError, match="cannot be inherited"):

        class _Derived(Made):
            pass


def test_calls_that_wait_for_arguments_are_overtaken_where_there_is_no_order() -> None:
    @ray.remote(num_cpus=0)
    class Gate:
        def __init__(self) -> None:
            self.event = asyncio.Event()

        async def passes(self) -> int:
            await self.event.wait()
            return 1

        async def opens(self) -> None:
            self.event.set()

        async def echo(self, x: int) -> int:
            return x

    @ray.remote(num_cpus=0, max_concurrency=2)
    class Threads:
        def echo(self, x: int) -> int:
            return x

    gate, threads = Gate.remote(), Threads.remote()
    late = gate.passes.remote()
    behind = [each.echo.remote(late) for each in (gate, threads)]
    dropped = gate.echo.remote(late)
    assert ray.get([each.echo.remote(2) for each in (gate, threads)], timeout=DEADLINE_S) == [2, 2]
    ray.cancel(dropped)
    with pytest.raises(exceptions.TaskCancelledError):
        ray.get(dropped, timeout=DEADLINE_S)
    ray.get(gate.opens.remote())
    assert ray.get(behind, timeout=DEADLINE_S) == [1, 1]
    never = Gate.remote()
    lost = threads.echo.remote(never.passes.remote())
    ray.kill(threads)
    with pytest.raises(exceptions.ActorDiedError):
        ray.get(lost, timeout=DEADLINE_S)


def test_what_an_actor_said_last_counts_though_it_cannot_be_written_to() -> None:
    @ray.remote(num_cpus=0, max_concurrency=2)
    class Leaves:
        def leave(self) -> None:
            ray.actor.exit_actor()

        def take(self, _: bytes) -> None:
            pass

    for _ in range(15):
        actor = Leaves.remote()
        ray.get(actor.take.remote(b""))
        actor.leave.remote()
        for call in [actor.take.remote(b"x" * 50_000) for _ in range(200)][-3:]:
            with pytest.raises(exceptions.ActorDiedError, match="exit_actor"):
                ray.get(call, timeout=DEADLINE_S)


def test_a_late_argument_holds_up_no_other_caller(tmp_path: Path) -> None:
    counter = Counter.remote()
    late = waits.remote(str(tmp_path / "gate"))
    mine = [counter.add.remote(late), counter.add.remote(1)]
    assert ray.get(use.remote(counter, 3), timeout=DEADLINE_S) == [1, 2, 3]
    again = [counter.add.remote(late) for _ in range(2)]
    ray.cancel(again[0])
    assert ray.wait([*mine, again[1]], timeout=0.05)[0] == []
    (tmp_path / "gate").touch()
    assert ray.get([*mine, again[1]]) == [103, 104, 204]
