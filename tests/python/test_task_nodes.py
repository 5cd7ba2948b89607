"""Values of tasks on another machine: they get there once (far_executors.py, adr/0041)."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import rt as ray
from far_executors import FarExecutors
from rt.core import _dial, _schedule, _session
from task_session import hub, session_of, until

MB = 1_000_000


@pytest.fixture(scope="module")
def far() -> Iterator[FarExecutors]:
    """Four cpus of another machine, for the tests of this file."""
    with session_of(FarExecutors(4)) as found:
        yield found


@pytest.mark.usefixtures("far")
def test_a_large_value_comes_back_from_another_machine() -> None:
    @ray.remote(max_retries=0)
    def make(size: int) -> bytes:
        return b"y" * size

    assert ray.get(make.remote(MB)) == b"y" * MB


@pytest.fixture
def there(far: FarExecutors) -> FarExecutors:
    """The same, with no value there and no bytes counted."""
    until(lambda: not memory_files(far))
    far.bytes_there = far.bytes_back = 0
    return far


def processes(far: FarExecutors) -> list[int]:
    """The executors there and their children."""
    executors = [each.pid for each in far.processes.values() if each.poll() is None]
    found = list(executors)
    for pid in executors:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{pid}/children") as file:
            found += map(int, file.read().split())
    return found


def memory_files(far: FarExecutors) -> dict[str, int]:
    """The large values in the memory of that machine: inode -> bytes."""
    found = {}
    for pid in processes(far):
        with contextlib.suppress(OSError):
            for fd in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    path = f"/proc/{pid}/fd/{fd}"
                    if "memfd:rt-value" in os.readlink(path):
                        info = os.stat(path)
                        found[str(info.st_ino)] = info.st_blocks * 512
    return found


@pytest.fixture
def stays(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Executors, and so the keeper, are given back at the end of the test, and not before."""
    monkeypatch.setattr(_schedule, "IDLE_S", 60.0)
    yield
    monkeypatch.setattr(_schedule, "IDLE_S", 0.0)
    until(lambda: not any(pool.slots for pool in hub().schedule.pools.values()))


def keeper() -> Any:
    """The one keeper of the session."""
    (found,) = hub().keepers._by_node.values()
    return found


def keeper_pid() -> int:
    """The process of the keeper, once it is connected."""
    until(lambda: bool(keeper().pid))
    return int(keeper().pid)


@ray.remote
def meet(value: bytes, folder: str, count: int) -> tuple[int, int]:
    """(its process, the last byte), once `count` such tasks run at a time."""
    Path(folder, str(os.getpid())).touch()
    until(lambda: len(os.listdir(folder)) >= count)
    return os.getpid(), value[-1]


@pytest.mark.usefixtures("stays")
def test_executors_of_a_node_share_one_copy_that_is_sent_once(
    there: FarExecutors, tmp_path: Path
) -> None:
    value = ray.put(b"z" * (20 * MB))
    found = ray.get([meet.remote(value, str(tmp_path), 4) for _ in range(4)])
    assert len({pid for pid, _ in found}) == 4 and {last for _, last in found} == {ord("z")}
    assert 20 * MB < there.bytes_there < 24 * MB
    assert sum(memory_files(there).values()) < 24 * MB

    @ray.remote
    def nested(refs: list[Any]) -> int:
        return len(ray.get(refs[0]))

    @ray.remote
    class Plain:
        def __init__(self, value: bytes) -> None:
            self.size = len(value)

        def sizes(self, value: bytes) -> tuple[int, int]:
            return self.size, len(value)

    @ray.remote
    class Async:
        async def size(self, value: bytes) -> int:
            return len(value)

    assert ray.get(nested.remote([value])) == 20 * MB
    plain, with_loop = Plain.remote(value), Async.remote()
    assert ray.get(plain.sizes.remote(value)) == (20 * MB, 20 * MB)
    assert ray.get([with_loop.size.remote(value) for _ in range(3)]) == [20 * MB] * 3
    assert there.bytes_there < 26 * MB
    del value, plain, with_loop  # An actor's arguments stay as long as it.
    until(lambda: not memory_files(there))


@pytest.mark.usefixtures("stays")
def test_the_value_is_sent_again_when_its_keeper_was_killed(
    there: FarExecutors, tmp_path: Path
) -> None:
    value = ray.put(b"z" * MB)
    assert ray.get(ray.remote(len).remote(value)) == MB
    until(lambda: len(memory_files(there)) == 1)
    os.kill(keeper_pid(), signal.SIGKILL)
    found = ray.get([meet.remote(value, str(tmp_path), 4) for _ in range(4)])
    assert {last for _, last in found} == {ord("z")}
    assert there.bytes_there < 7 * MB
    with hub().lock:
        lost = keeper()
    pid = keeper_pid()
    os.kill(pid, signal.SIGSTOP)  # It is lost with work under way.
    refs = [ray.remote(len).remote(ray.put(b"a" * MB)) for _ in range(8)]
    until(lambda: any(each.running for pool in hub().schedule.pools.values()
                      for each in pool.slots.values()))  # fmt: skip
    os.kill(pid, signal.SIGKILL)
    assert ray.get(refs) == [MB] * 8
    until(lambda: bool(lost.is_over))


def test_connections_may_break_while_a_value_is_sent(there: FarExecutors, tmp_path: Path) -> None:
    value = ray.put(b"z" * (20 * MB))
    task = meet.options(max_retries=-1)
    there.cuts = [2 * MB, 15 * MB, 24 * MB]
    refs = [task.remote(value, str(tmp_path), 1) for _ in range(4)]
    assert {last for _, last in ray.get(refs)} == {ord("z")}
    assert not there.cuts and there.bytes_there > 35 * MB


@pytest.mark.usefixtures("stays")
def test_a_node_keeps_no_more_than_its_bound(there: FarExecutors) -> None:
    first = ray.put(b"0" * MB)
    assert ray.get(ray.remote(len).remote(first)) == MB
    until(lambda: keeper()._bound is not None)
    keeper()._bound = 3 * MB
    values = [ray.put(bytes([n]) * MB) for n in range(8)]
    last = ray.remote(lambda value: value[-1])
    assert ray.get([last.remote(each) for each in values]) == list(range(8))
    assert ray.get(last.remote(ray.put(b"x" * (4 * MB)))) == ord("x")
    until(lambda: sum(memory_files(there).values()) <= 3 * MB)
    assert ray.get(last.remote(first)) == ord("0")


def test_what_a_task_with_a_memory_limit_gets_is_not_kept_there(there: FarExecutors) -> None:
    value = ray.put(b"z" * MB)
    assert ray.get(ray.remote(len).options(memory=1 << 30).remote(value)) == MB
    assert not hub().keepers._by_node or not keeper()._values


@pytest.mark.usefixtures("stays")
def test_a_value_is_given_only_to_who_knows_the_secret(there: FarExecutors) -> None:
    value = ray.put(b"z" * MB)
    assert ray.get(ray.remote(len).remote(value)) == MB
    ((serial, _),) = keeper()._values.values()
    directory = keeper().slot.trial_dir
    for secret, count in (("0" * 32, 0), (hub().schedule.places._secret, 1)):
        with _dial.dial(directory) as sock:
            _dial.greet(sock, secret, _dial.TAKE, serial)
            fds: list[int] = []
            with contextlib.suppress(ConnectionError):
                _, fds, _, _ = socket.recv_fds(sock, 1, 1)
            assert len(fds) == count
            for fd in fds:
                os.close(fd)


def test_without_a_keeper_a_value_goes_to_each_process(
    there: FarExecutors, monkeypatch: pytest.MonkeyPatch
) -> None:
    until(lambda: not any(pool.slots for pool in hub().schedule.pools.values()))
    monkeypatch.setattr(_session.Places, "dial_keeper", lambda _, keeper: keeper.came(None))
    value = ray.put(b"z" * MB)
    assert ray.get([ray.remote(len).remote(value) for _ in range(4)]) == [MB] * 4
    assert not hub().keepers._by_node
