"""The process of an executor by itself: who may connect to it."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from rt import _executor
from rt.core import _dial


def test_an_executor_ends_connections_that_do_not_greet_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_executor, "_GREETING_S", 0.05)
    monkeypatch.setattr(_executor, "_GREETINGS_MAX", 2)
    monkeypatch.setattr(_executor, "_IDLE_S", 0.5)
    before = signal.getsignal(signal.SIGTERM)
    executor = _executor.Executor(str(tmp_path), "0" * 32)
    silent = [_dial.dial(str(tmp_path)) for _ in range(4)]
    silent[0].sendall(b"rt-tasks")
    assert executor.run() == 0  # Nothing of them keeps it alive.
    signal.signal(signal.SIGTERM, before)
    assert not executor._greetings
    for sock in silent:
        assert sock.recv(1) == b""
        sock.close()
