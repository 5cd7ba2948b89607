"""Functions and actors that do what a process must not do (local_executors.py)."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import rt as ray
from rt import exceptions
from task_session import DEADLINE_S, add, conns, hub, until

pytestmark = pytest.mark.usefixtures("executors")


def is_there(pid: int) -> bool:
    """Whether the process runs."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", encoding="ascii") as file:
        return file.read().rpartition(")")[2].split()[0] not in "ZX"
    return False


def wait_forever(path: str) -> None:
    """Says its process, and does not end."""
    with open(f"{path}.new", "w", encoding="ascii") as file:
        file.write(str(os.getpid()))
    os.rename(f"{path}.new", path)
    time.sleep(10 * DEADLINE_S)


@pytest.mark.parametrize("code", [0, 3])
def test_a_process_that_ends_by_itself_is_named_with_its_exit_code(code: int) -> None:
    @ray.remote(max_retries=0)
    def ends() -> None:
        os._exit(code)

    with pytest.raises(exceptions.WorkerCrashedError, match=f"ended: exit code {code}$"):
        ray.get(ends.remote(), timeout=DEADLINE_S)


def test_a_forked_copy_of_a_task_that_comes_back_is_ended(tmp_path: Path) -> None:
    @ray.remote(max_retries=0)
    def forks(path: str) -> int:
        pid = os.fork()
        if pid:
            return pid
        with open(path, "w"):
            pass
        return 0

    @ray.remote
    class Forks:
        def forks(self) -> int:
            return os.fork()

    actor = Forks.remote()
    copies = [
        ray.get(forks.remote(str(tmp_path / "a")), timeout=DEADLINE_S),
        ray.get(actor.forks.remote(), timeout=DEADLINE_S),
    ]
    assert all(copies)
    until((tmp_path / "a").exists)
    until(lambda: not any(map(is_there, copies)))
    assert ray.get([add.remote(i, i) for i in range(50)]) == [2 * i for i in range(50)]


def test_a_task_that_ignores_interrupts_does_so_for_no_later_one(tmp_path: Path) -> None:
    @ray.remote
    def ignores() -> int:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        return os.getpid()

    @ray.remote
    def waits(path: str) -> None:
        wait_forever(path)

    # One slot is held, so that the other task follows in the same process.
    holder = waits.remote(str(tmp_path / "holder"))
    until((tmp_path / "holder").exists)
    pid = ray.get(ignores.remote())
    later = waits.remote(str(tmp_path / "later"))
    until((tmp_path / "later").exists)
    assert (tmp_path / "later").read_text() == str(pid)
    for each in (later, holder):
        ray.cancel(each)
        with pytest.raises(exceptions.TaskCancelledError):
            ray.get(each, timeout=DEADLINE_S)


def test_a_task_is_interrupted_before_it_gets_the_errors_of_what_it_waits_for(
    tmp_path: Path,
) -> None:
    @ray.remote
    class Never:
        async def comes(self, path: str) -> None:
            with open(path, "w"):
                pass
            await asyncio.Event().wait()

    @ray.remote
    def waits(never: Any, path: str) -> str:
        try:
            ray.get(never.comes.remote(path))
        except KeyboardInterrupt:
            return f"cancelled: {ray.get_runtime_context().is_canceled()}"
        return "not cancelled"

    for each in range(5):
        path = tmp_path / str(each)
        ref = waits.remote(Never.remote(), str(path))
        until(path.exists)
        ray.cancel(ref)
        assert ray.get(ref, timeout=DEADLINE_S) == "cancelled: True"


def test_a_constructor_that_hangs_ends_with_its_connection(tmp_path: Path) -> None:
    @ray.remote
    class Hangs:
        def __init__(self, path: str) -> None:
            wait_forever(path)

    actor = Hangs.remote(str(tmp_path / "pid"))
    until((tmp_path / "pid").exists)
    pid = int((tmp_path / "pid").read_text())
    assert is_there(pid)
    with hub().lock:
        (conn,) = [each for each in conns() if each.pid == pid]
        hub().pump.remove(conn)
        conn.channel.close()  # As when the driver is killed.
    until(lambda: not is_there(pid))
    with hub().lock:
        hub().actors.lost(conn.actor, conn, "the test")
    del actor


def test_exit_actor_runs_what_atexit_has(tmp_path: Path) -> None:
    @ray.remote
    class Ends:
        def __init__(self, path: str, at_once: bool) -> None:
            atexit.register(Path(path).touch)
            if at_once:
                ray.actor.exit_actor()

        def end(self) -> None:
            ray.actor.exit_actor()

        def end_unseen(self) -> str:
            with contextlib.suppress(BaseException):
                ray.actor.exit_actor()
            return "still there"

    @ray.remote
    class EndsLater:
        def __init__(self, path: str, at_once: bool) -> None:
            atexit.register(Path(path).touch)
            if at_once:
                self.ends = asyncio.create_task(self._end())

        async def waits(self) -> None:
            await asyncio.Event().wait()

        async def end(self) -> None:
            await asyncio.gather(self._end(), return_exceptions=True)
            await asyncio.Event().wait()

        async def _end(self) -> None:
            ray.actor.exit_actor()

    paths = [tmp_path / str(each) for each in range(5)]
    ended, unseen = (Ends.remote(str(path), False) for path in paths[:2])
    in_constructor, later = Ends.remote(str(paths[2]), True), EndsLater.remote(str(paths[3]), False)
    from_task = EndsLater.remote(str(paths[4]), True)
    for ref in (
        ended.end.remote(), unseen.end_unseen.remote(), in_constructor.end.remote(),
        later.end.remote(), from_task.waits.remote(),
    ):  # fmt: skip
        with pytest.raises(exceptions.ActorDiedError, match="exit_actor"):
            ray.get(ref, timeout=DEADLINE_S)
    until(lambda: all(path.exists() for path in paths))


def test_a_call_that_runs_again_is_not_held_up_by_one_that_waits_for_it() -> None:
    @ray.remote(max_restarts=1)
    class Twice:
        def __init__(self) -> None:
            self.tries = 0

        @ray.method(max_task_retries=1, retry_exceptions=[ValueError])
        def first(self, gate: int) -> int:
            self.tries += 1
            if self.tries == 1:
                raise ValueError("once")
            return self.tries

        def second(self, value: int) -> int:
            return value + 1

    @ray.remote
    def slow() -> int:
        time.sleep(0.1)
        return 1

    actor = Twice.remote()
    first = actor.first.remote(slow.remote())
    second = actor.second.remote(first)
    assert ray.get([first, second], timeout=DEADLINE_S) == [2, 3]
    other = Twice.remote()
    first = other.first.remote(1)
    assert ray.get(other.second.remote(first), timeout=DEADLINE_S) == 3
