"""What a call takes, what it says when it fails, and how it is cancelled (local_executors.py)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import rt as ray
from rt import exceptions
from task_session import DEADLINE_S, conns, hub, until

pytestmark = pytest.mark.usefixtures("executors")


@ray.remote
def takes(first: int, second: int = 2, *, named: int = 3) -> tuple[int, int, int]:
    return first, second, named


@ray.remote
def counts_down(left: int, step: int = 1) -> int:
    return 0 if left <= 0 else 1 + ray.get(counts_down.remote(left - step))


@ray.remote
class Methods:
    def takes(self, first: int, second: int = 2) -> tuple[int, int]:
        return first, second

    @staticmethod
    def static(first: int) -> int:
        return first

    @classmethod
    def of_class(cls, first: int) -> int:
        return first

    def raises(self, count: int) -> Iterator[int]:
        yield from range(count)
        raise ValueError("after them")


def test_arguments_that_do_not_fit_are_refused_at_the_call() -> None:
    assert ray.get(takes.remote(1, named=4)) == (1, 2, 4)
    assert ray.get(takes.options(name="other").remote(1, 5)) == (1, 5, 3)
    assert ray.get(counts_down.remote(3)) == 3
    for args, kwargs, why in (
        ((), {}, "first"), ((1, 2, 3), {}, "too many"), ((1,), {"other": 1}, "other"),
    ):  # fmt: skip
        with pytest.raises(TypeError, match=rf"takes\.remote\(\): .*{why}"):
            takes.remote(*args, **kwargs)
    actor = Methods.remote()
    assert ray.get(actor.takes.remote(1)) == (1, 2)
    assert ray.get([actor.static.remote(3), actor.of_class.remote(4)]) == [3, 4]
    for refused in (
        actor.takes.remote, lambda: actor.takes.remote(1, 2, 3),
        actor.static.remote, lambda: actor.of_class.remote(1, 2),
    ):  # fmt: skip
        with pytest.raises(TypeError, match=r"\.remote\(\): "):
            refused()

    @ray.remote
    def calls(handle: Any) -> str:
        try:
            handle.takes.remote()
        except TypeError as error:
            return str(error)
        return ""

    assert "first" in ray.get(calls.remote(actor))


class Coded(Exception):
    """An exception with attributes of its own."""

    def __init__(self, code: int) -> None:
        super().__init__("coded")
        self.code = code


@ray.remote
def raises(what: str) -> None:
    if what == "code":
        raise Coded(7)
    if what == "file":
        raise FileNotFoundError(2, "no such file", "a.txt")
    if what == "memory":
        raise MemoryError("too much")
    if what == "several":
        raise ExceptionGroup("several", [ValueError("one")])  # noqa: F821 - Python 3.11.


def test_an_error_has_what_the_users_exception_has() -> None:
    with pytest.raises(Coded) as coded:
        ray.get(raises.remote("code"))
    assert coded.value.code == 7
    with pytest.raises(FileNotFoundError) as lost:
        ray.get(raises.remote("file"))
    assert (lost.value.errno, lost.value.filename) == (2, "a.txt")
    with pytest.raises(MemoryError, match="too much") as full:
        ray.get(raises.remote("memory"))
    assert isinstance(full.value, exceptions.TaskError)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="ExceptionGroup came with Python 3.11")
def test_a_group_of_exceptions_is_one() -> None:
    with pytest.raises(ExceptionGroup) as found:  # noqa: F821
        ray.get(raises.remote("several"))
    assert [str(each) for each in found.value.exceptions] == ["one"]


def test_a_function_that_cannot_be_sent_says_why() -> None:
    lock = threading.Lock()

    @ray.remote
    def uses() -> None:
        with lock:
            pass

    with pytest.raises(TypeError, match=r"uses cannot be sent to other processes: .*lock"):
        uses.remote()
    large = os.urandom(96 << 20)

    @ray.remote
    def has() -> int:
        return len(large)

    with pytest.raises(ValueError, match=r"has is too large: 96 MiB .*rt\.put"):
        has.remote()


def test_what_was_yielded_before_an_error_is_kept() -> None:
    @ray.remote
    def yields(count: int) -> Iterator[int]:
        yield from range(count)
        raise ValueError("after them")

    actor = Methods.remote()
    (item, error) = actor.raises.options(num_returns=None).remote(1)  # As many as there are.
    assert ray.get(item) == 0
    with pytest.raises(ValueError, match="after them"):
        ray.get(error)
    for call in (yields, actor.raises):
        first, second, third = call.options(num_returns=3).remote(2)
        assert ray.get([first, second]) == [0, 1]
        with pytest.raises(ValueError, match="after them"):
            ray.get(third)
        assert ray.get(call.options(num_returns=1).remote(1)) == 0
        assert ray.get(call.options(num_returns=2).remote(2)) == [0, 1]

    @ray.remote(num_returns=2)
    def too_few() -> Iterator[int]:
        yield 1

    first, second = too_few.remote()
    assert ray.get(first) == 1
    with pytest.raises(ValueError, match="yielded 1 values"):
        ray.get(second)


def test_wait_takes_generators(tmp_path: Path) -> None:
    @ray.remote
    def yields(path: str) -> Iterator[int]:
        yield 1
        while not os.path.exists(path):
            time.sleep(0.01)
        yield 2

    @ray.remote
    def waits(path: str) -> tuple[int, int, list[int]]:
        mine, found = yields.remote(path), []
        begun, _ = ray.wait([mine], timeout=DEADLINE_S)
        found.append(ray.get(next(mine)))
        early, _ = ray.wait([mine], timeout=0)
        with open(path, "w"):
            pass
        return len(begun), len(early), found + [ray.get(each) for each in mine]

    path = tmp_path / "more"
    generator, other = yields.remote(str(path)), ray.put(3)
    ready, rest = ray.wait([generator, other], num_returns=2, timeout=DEADLINE_S)
    assert ready == [generator, other] and rest == []
    assert ray.get(next(generator)) == 1
    assert ray.wait([generator, other], num_returns=2, timeout=0) == ([other], [generator])
    path.touch()
    assert ray.wait([generator], timeout=DEADLINE_S) == ([generator], [])
    assert [ray.get(each) for each in generator] == [2]
    assert ray.wait([generator], timeout=DEADLINE_S) == ([generator], [])  # At its end.
    assert ray.get(waits.remote(str(tmp_path / "in-task"))) == (1, 0, [1, 2])


@ray.remote(max_retries=0)
def stubborn(path: str, times: int) -> int:
    """Goes on after so many interrupts."""
    for count in range(times + 1):
        with contextlib.suppress(KeyboardInterrupt):
            with open(f"{path}.{count}", "w"):
                pass
            time.sleep(DEADLINE_S)
            return -1
    return times


def test_what_went_on_after_a_cancel_is_cancelled_again(tmp_path: Path) -> None:
    path = str(tmp_path / "a")
    ref = stubborn.remote(path, 5)
    until(lambda: os.path.exists(f"{path}.0"))
    ray.cancel(ref)
    until(lambda: os.path.exists(f"{path}.1"))
    ray.cancel(ref)
    until(lambda: os.path.exists(f"{path}.2"))
    ray.cancel(ref, force=True)
    with pytest.raises(exceptions.TaskCancelledError):
        ray.get(ref, timeout=DEADLINE_S)


def test_a_cancel_that_comes_with_its_task_is_not_lost() -> None:
    @ray.remote
    def sleeps() -> None:
        time.sleep(DEADLINE_S)

    sent = 0
    for _ in range(5):
        ray.get(takes.remote(1))  # There is an executor.
        with hub().lock:
            for each in conns():
                if each.actor is None:
                    hub().schedule.close_conn(each)
            refs = [sleeps.remote() for _ in range(2)]  # In processes that begin to be.
            sent += sum(hub().tasks[each._id].conn is not None for each in refs)
            for each in refs:
                ray.cancel(each)
        for each in refs:
            with pytest.raises(exceptions.TaskCancelledError):
                ray.get(each, timeout=DEADLINE_S)
    assert sent


def test_a_task_that_was_given_back_and_cancelled_ends(tmp_path: Path) -> None:
    @ray.remote
    def waits(path: str) -> None:
        while path and not os.path.exists(path):
            time.sleep(0.01)

    ray.get([waits.remote("") for _ in range(50)])  # Cheap, so that they are sent ahead.
    go = tmp_path / "go"
    refs = [waits.remote(str(go)) for _ in range(12)]
    with hub().lock:
        behind = [
            each for each in refs
            if (conn := hub().tasks[each._id].conn) and next(iter(conn.inflight)) != each._id
        ]  # fmt: skip
        assert behind
        for each in {hub().tasks[one._id].conn for one in behind}:
            each.post(("g",))
        for one in behind:
            hub().cancel(one._id, False, True)
    go.touch()
    for each in behind:
        with pytest.raises(exceptions.TaskCancelledError):
            ray.get(each, timeout=DEADLINE_S)
    ray.get([each for each in refs if each not in behind], timeout=DEADLINE_S)


def test_a_call_in_a_thread_can_ask_whether_it_was_cancelled(tmp_path: Path) -> None:
    @ray.remote(max_concurrency=2)
    class Threads:
        def looks(self, path: str) -> bool:
            with open(path, "w"):
                pass
            end = time.monotonic() + DEADLINE_S
            while not ray.get_runtime_context().is_canceled() and time.monotonic() < end:
                time.sleep(0.01)
            with open(f"{path}.end", "w") as file:
                file.write(str(ray.get_runtime_context().is_canceled()))
            return True

        def is_canceled(self) -> bool:
            return ray.get_runtime_context().is_canceled()

    actor = Threads.remote()
    path = str(tmp_path / "a")
    ref = actor.looks.remote(path)
    until(lambda: os.path.exists(path))
    assert not ray.get(actor.is_canceled.remote())
    ray.cancel(ref)
    with pytest.raises(exceptions.TaskCancelledError):
        ray.get(ref, timeout=DEADLINE_S)
    assert Path(f"{path}.end").read_text() == "True"


def test_a_script_that_ends_with_open_futures_says_nothing() -> None:
    script = """
import atexit, time
import rt
from local_executors import LocalExecutors
from rt import _driver

@rt.remote
def sleeps():
    time.sleep(60)

_driver._current = LocalExecutors(1)
atexit.register(_driver._current.close)
future = sleeps.remote().future()
"""
    here = Path(__file__).resolve()
    env = {**os.environ, "PYTHONPATH": f"{here.parents[2] / 'python'}:{here.parent}"}
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True,
                          check=False, timeout=DEADLINE_S)  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_a_future_ends_with_its_value() -> None:
    async def all_of() -> list[Any]:
        return list(await asyncio.gather(*(takes.remote(each) for each in range(3))))

    assert takes.remote(1).future().result(DEADLINE_S) == (1, 2, 3)
    assert [each[0] for each in asyncio.run(all_of())] == [0, 1, 2]


def test_a_resource_may_be_called_custom() -> None:
    from rt.core._spec import _request

    assert _request((("cpu", 1), ("custom", 2))) == {"cpu": 1, "custom": {"custom": 2}}
    assert _request((("memory", 5),)) == {"memory": 5}
