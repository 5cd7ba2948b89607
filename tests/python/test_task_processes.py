"""What becomes of tasks whose processes die, wait or are given back (local_executors.py)."""

from __future__ import annotations

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
from local_executors import LocalExecutors
from rt import exceptions
from rt.core import _dial, _near, _schedule, _session, _store, _stuck
from task_session import DEADLINE_S, add, conns, hub, until

pytestmark = pytest.mark.usefixtures("executors")


def test_a_task_whose_process_dies_is_tried_again(tmp_path: Path) -> None:
    @ray.remote
    def dies(path: str, times: int) -> int:
        with open(path, "a") as file:
            file.write("x")
        count = os.path.getsize(path)
        if count <= times:
            os.kill(os.getpid(), signal.SIGKILL)
        return count

    assert ray.get(dies.remote(str(tmp_path / "a"), 2)) == 3
    once = dies.options(max_retries=0)
    others = [add.remote(i, i) for i in range(20)]
    with pytest.raises(exceptions.WorkerCrashedError, match="SIGKILL") as found:
        ray.get(once.remote(str(tmp_path / "b"), 1))
    assert "dies" in str(found.value) and (tmp_path / "b").read_text() == "x"
    assert ray.get(others) == [2 * i for i in range(20)]


def test_exceptions_are_retried_only_if_asked(tmp_path: Path) -> None:
    @ray.remote
    def flaky(path: str) -> int:
        with open(path, "a") as file:
            file.write("x")
        if os.path.getsize(path) < 3:
            raise OSError("again")
        return os.path.getsize(path)

    with pytest.raises(OSError):
        ray.get(flaky.remote(str(tmp_path / "a")))
    assert ray.get(flaky.options(retry_exceptions=True).remote(str(tmp_path / "b"))) == 3
    assert ray.get(flaky.options(retry_exceptions=[OSError]).remote(str(tmp_path / "c"))) == 3
    with pytest.raises(OSError):
        ray.get(flaky.options(retry_exceptions=[KeyError]).remote(str(tmp_path / "d")))


def test_cancel_reaches_tasks_that_wait_run_or_were_sent_ahead(tmp_path: Path) -> None:
    @ray.remote
    def sleeps(path: str) -> None:
        with open(path, "w"):
            pass
        time.sleep(DEADLINE_S)

    refs = [sleeps.remote(str(tmp_path / str(i))) for i in range(4)]
    until(lambda: len(list(tmp_path.iterdir())) == 2)
    for each in reversed(refs):
        ray.cancel(each)
    for each in refs:
        with pytest.raises(exceptions.TaskCancelledError):
            ray.get(each, timeout=DEADLINE_S)
    assert ray.get(add.remote(1, 1)) == 2
    with pytest.raises(TypeError):
        ray.cancel("x")


def test_idle_executors_are_given_back(executors: LocalExecutors) -> None:
    ray.get(add.remote(1, 2))
    until(lambda: not conns())
    until(lambda: all(item["state"] == "ENDED" for item in executors.executors.values()))
    assert ray.get(add.remote(1, 2)) == 3


def test_an_executor_is_given_back_between_tasks_when_others_wait(
    executors: LocalExecutors,
) -> None:
    @ray.remote
    def busy(n: int) -> Any:
        time.sleep(0.0005)  # So short that others are queued behind it.
        return [n, ray.put(n)]

    def ended() -> int:
        return sum(item["state"] == "ENDED" for item in executors.executors.values())

    refs = [busy.remote(n) for n in range(4000)]
    ray.get(refs[0])
    before = ended()
    executors.let_others_wait(True)
    until(lambda: ended() > before)
    executors.let_others_wait(False)
    found = ray.get(refs)
    assert [n for n, _ in found] == list(range(4000))
    assert ray.get([ref for _, ref in found]) == list(range(4000))


def test_a_small_task_waits_for_no_stream_of_large_ones(tmp_path: Path) -> None:
    @ray.remote(num_cpus=2)
    def large(path: str) -> str:
        if not os.path.exists(path):
            time.sleep(0.05)
        return path

    gate = tmp_path / "gate"
    stream = [large.remote(str(gate)) for _ in range(2000)]
    ray.get(stream[0])
    assert ray.get(add.remote(1, 2), timeout=DEADLINE_S) == 3
    assert not ray.wait([stream[-1]], timeout=0)[0]
    gate.touch()
    assert len(ray.get(stream, timeout=DEADLINE_S)) == 2000


def test_a_lost_executor_is_replaced(executors: LocalExecutors, tmp_path: Path) -> None:
    @ray.remote
    def waits(path: str) -> int:
        with open(path + str(os.getpid()), "w"):
            pass
        while not os.path.exists(path):
            time.sleep(0.002)
        return 7

    ref = waits.remote(str(tmp_path / "gate"))
    until(lambda: bool(list(tmp_path.iterdir())))
    running = [n for n, item in executors.executors.items() if item["state"] == "RUNNING"]
    for number in running:
        executors.processes[number].kill()
    until(lambda: len(list(tmp_path.iterdir())) == 2)
    (tmp_path / "gate").touch()
    assert ray.get(ref) == 7


def test_connections_without_a_greeting_hold_up_nobody(executors: LocalExecutors) -> None:
    @ray.remote
    def nested(depth: int) -> int:
        return ray.get(nested.remote(depth - 1)) + 1 if depth else 0

    ray.get(add.remote(1, 2))
    number = max(n for n, item in executors.executors.items() if item["state"] == "RUNNING")
    directory = f"{executors.directory}/{number}/trial"
    until(lambda: os.path.exists(f"{directory}/{_dial.SOCKET_NAME}"))
    silent = [_dial.dial(directory) for _ in range(3)]
    silent[1].sendall(b"rt-tasks")
    for bad in (b"x" * 1000, _dial.GREETING.pack(b"rt-tasks", b"0" * 32, _dial.TASKS, 1)):
        with _dial.dial(directory) as sock:
            sock.sendall(bad)
            with contextlib.suppress(ConnectionResetError):
                assert sock.recv(1) == b""
    begun = time.monotonic()
    assert ray.get(nested.remote(8)) == 8  # With new processes of the executor.
    assert time.monotonic() - begun < 4
    for sock in silent:
        sock.close()


def test_nothing_waits_for_an_executor_or_the_disk_with_the_lock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: list[str] = []
    client = hub()

    def watch(module: Any, name: str) -> None:
        whole = getattr(module, name)

        def watched(*args: Any, **kwargs: Any) -> Any:
            if client.lock._is_owned():
                found.append(name)
            return whole(*args, **kwargs)

        monkeypatch.setattr(module, name, watched)

    for module, name in ((_near, "dial"), (_session, "dial"), (_near, "read_sources"),
                         (_near, "kill_near"), (_store, "spill")):  # fmt: skip
        watch(module, name)
    monkeypatch.setattr(client.store_of, "_bound", 500_000)

    @ray.remote
    class Large:
        def make(self) -> bytes:
            return b"x" * 300_000

    @ray.remote
    def nested(depth: int) -> int:
        return ray.get(nested.remote(depth - 1)) + 1 if depth else 0

    large = Large.remote()
    refs = [large.make.remote() for _ in range(3)] + [ray.put(b"y" * 300_000) for _ in range(3)]
    monkeypatch.setitem(sys.modules, "rt_one_more", sys)  # The sources are read again.
    assert ray.get(nested.remote(3)) == 3
    assert [len(each) for each in ray.get(refs)] == [300_000] * 6
    until(lambda: not client.store_of.is_over)
    ray.kill(large)
    assert found == []


def test_a_disk_that_cannot_be_written_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    numpy = pytest.importorskip("numpy")
    session, told = hub(), []
    before = session.store_of._bound

    def fails(_packed: Any) -> Any:
        raise OSError("the disk is broken")

    monkeypatch.setattr(session.store_of, "spill", fails)
    monkeypatch.setattr(session, "print_out", lambda _stream, text: told.append(text))
    session.store_of.set_bound(1_000_000)
    try:
        refs = [ray.put(numpy.full(200_000, i)) for i in range(3)]
        assert [int(ray.get(each)[7]) for each in refs] == [0, 1, 2]
        assert told == ["rt: large values stay in memory: the disk is broken\n"]
    finally:
        session.store_of.set_bound(before)


def test_tasks_that_find_no_place_to_wait_keep_their_slot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_schedule, "BLOCKED_MAX", 2)

    @ray.remote
    def gate(path: str) -> int:
        while not os.path.exists(path):
            time.sleep(0.005)
        return 7

    @ray.remote
    def outer(refs: list[Any]) -> int:
        return int(ray.get(refs[0]))

    @ray.remote
    def deep(n: int) -> int:
        return n if n == 0 else 1 + int(ray.get(deep.remote(n - 1)))

    opens = gate.remote(str(tmp_path / "open"))
    until(lambda: any(conn.inflight for conn in conns()))
    refs = [outer.remote([opens]) for _ in range(6)]
    until(lambda: bool(hub().stuck._conns))
    ready, _ = ray.wait(refs, timeout=2 * _stuck.STUCK_S)  # They do not fail while the gate runs.
    assert not ready
    (tmp_path / "open").touch()
    assert ray.get(refs, timeout=DEADLINE_S) == [7] * 6
    with pytest.raises(exceptions.RayError, match="tasks of one slot wait"):
        ray.get(deep.remote(30), timeout=DEADLINE_S)
    assert ray.get(add.remote(1, 2)) == 3


def test_a_new_function_that_is_queued_behind_a_task_is_sent() -> None:
    @ray.remote
    def short() -> int:
        time.sleep(0.0005)
        return 0

    ray.get([each.remote(*args) for _ in range(50) for each, args in ((short, ()), (add, (1, 2)))])
    for _ in range(5):
        with hub().lock:  # No task ends before all are submitted.
            idle = [conn for conn in conns() if not conn.inflight]
            for conn in idle:
                conn.known.clear()  # As a process that has not run `add` yet.
            ahead = [short.remote() for _ in idle]
            hub().pump.flush()
            last = add.remote(1, 2)
        assert ray.get(last, timeout=5) == 3
        ray.get(ahead)
