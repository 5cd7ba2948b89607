"""What a trial does when it is to be frozen, and hears that it continues."""

from __future__ import annotations

import socket
import time
from pathlib import Path

from fake_worker import FakeWorker
from rt import _session, tune
from rt._freeze import FreezeNotice
from rt._session import Session


def open_session(tmp_path: Path) -> tuple[FakeWorker, Session]:
    worker = FakeWorker(str(tmp_path))
    session = Session(worker.path, worker.token, deadline_s=10)
    _session.current = session
    return worker, session


def test_a_trial_that_never_saves_says_so_once() -> None:
    notice = FreezeNotice()
    assert not notice.has_nothing(saved=False, saves=False)
    assert notice.take({"op": "save", "deadline_s": 30}) == 0
    assert notice.has_nothing(saved=False, saves=False)
    assert not notice.has_nothing(saved=False, saves=False)


def test_a_trial_that_saves_is_waited_for() -> None:
    notice = FreezeNotice()
    notice.take({"op": "save", "deadline_s": 30})
    assert not notice.has_nothing(saved=False, saves=True)
    assert not notice.has_nothing(saved=True, saves=True)


def test_each_second_of_a_freeze_is_told_once() -> None:
    notice = FreezeNotice()
    assert notice.take({"op": "thawed", "frozen_for_s": 5.0}) == 5.0
    assert notice.take({"op": "thawed", "frozen_for_s": 5.0}) == 0
    assert notice.take({"op": "thawed", "frozen_for_s": 7.5}) == 2.5


def test_the_time_of_a_freeze_is_no_time_of_the_trial(tmp_path: Path) -> None:
    worker, session = open_session(tmp_path)
    tune.report({"acc": 0.5})
    session._last -= 100.0  # As if it had been stopped for so long.
    session._handle({"op": "thawed", "frozen_for_s": 100.0})
    tune.report({"acc": 0.6})
    session.barrier()
    times = [report["metrics"]["time_total_s"] for report in worker.reports]
    assert times[1] - times[0] < 50


def test_a_wish_to_save_asks_for_a_checkpoint_and_ends_nothing(tmp_path: Path) -> None:
    _, session = open_session(tmp_path)
    session._handle({"op": "save", "deadline_s": 30})
    left_s = tune.checkpoint_requested()
    assert left_s is not None and 0 < left_s <= 30
    session._handle({"op": "thawed", "frozen_for_s": 1.0})
    assert tune.checkpoint_requested() is None
    session._handle({"op": "save", "deadline_s": 30})
    end = time.monotonic() + 60
    path = tmp_path / "saved"
    path.mkdir()
    tune.report({"acc": 1}, checkpoint=tune.Checkpoint(str(path)))
    assert tune.checkpoint_requested() is None and time.monotonic() < end
    tune.report({"acc": 2})  # It goes on.


def test_a_trial_whose_daemon_was_restarted_meanwhile_hears_it_with_its_hello(
    tmp_path: Path,
) -> None:
    worker, session = open_session(tmp_path)
    tune.report({"acc": 0.5})
    session._wire._socket.shutdown(socket.SHUT_RDWR)
    session._last -= 100.0  # As if it had been stopped for so long, until the new daemon is there.
    worker.hello = {"frozen_for_s": 100.0}
    tune.report({"acc": 0.6})
    tune.report({"acc": 0.7})
    session.barrier()
    assert worker.hellos == 2
    times = [report["metrics"]["time_total_s"] for report in worker.reports]
    assert len(times) == 3 and max(times) - times[0] < 50
