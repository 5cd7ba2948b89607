"""report() and what the trial's side decides by itself."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from fake_worker import FakeWorker, wait_until
from rt import _barrier, _session, train, tune
from rt._session import Session, TrialStopped


def open_session(tmp_path: Path, **hello: Any) -> tuple[FakeWorker, Session]:
    worker = FakeWorker(str(tmp_path), **hello)
    session = Session(worker.path, worker.token, deadline_s=10)
    _session.current = session
    return worker, session


def test_a_report_carries_the_counters(tmp_path: Path) -> None:
    worker, session = open_session(tmp_path, iteration_base=3, time_total_base_s=10.0)
    tune.report({"acc": 0.5})
    tune.report(acc=0.6, mean_loss=2.0)
    session.barrier()
    rows = [report["metrics"] for report in worker.reports]
    assert [row["training_iteration"] for row in rows] == [4, 5]
    assert [row["iterations_since_restore"] for row in rows] == [1, 2]
    assert rows[0]["time_total_s"] > 10.0
    assert rows[1]["acc"] == 0.6 and rows[1]["neg_mean_loss"] == -2.0
    assert rows[1]["done"] is False


def test_the_end_needs_no_second_hello_where_the_acknowledgements_tell(tmp_path: Path) -> None:
    worker, session = open_session(tmp_path)
    tune.report({"acc": 0.5})
    session.barrier()
    assert (len(worker.reports), worker.hellos) == (1, 1)
    session.send_error("ValueError", "no", "")  # It has no acknowledgement of its own.
    session.barrier()
    assert (len(worker.errors), worker.hellos) == (1, 2)


def test_numbers_that_json_lacks_are_strings(tmp_path: Path) -> None:
    import numpy

    worker, session = open_session(tmp_path)
    tune.report({"a": math.nan, "b": -math.inf, "c": numpy.float32(0.5), "d": numpy.int64(3)})
    session.barrier()
    row = worker.reports[0]["metrics"]
    assert (row["a"], row["b"], row["c"], row["d"]) == ("NaN", "-Infinity", 0.5, 3)


def test_only_a_milestone_waits_and_a_stop_verdict_ends_the_trial(tmp_path: Path) -> None:
    control = {"time_attr": "training_iteration", "milestones": [1, 3], "max_t": None, "stop": []}
    worker, _ = open_session(tmp_path, control=control)
    worker.verdict = lambda seq: "stop" if seq == 3 else "continue"
    tune.report({"acc": 1})
    tune.report({"acc": 2})
    with pytest.raises(TrialStopped):
        tune.report({"acc": 3})
    assert [report["wait"] for report in worker.reports] == [True, False, True]
    with pytest.raises(TrialStopped):
        tune.report({"acc": 4})
    assert len(worker.reports) == 3


def test_a_skipped_milestone_counts_at_the_next_report(tmp_path: Path) -> None:
    control = {"time_attr": "t", "milestones": [1, 3, 9], "max_t": None, "stop": []}
    worker, session = open_session(tmp_path, control=control)
    for t in (4, 5, 6):
        tune.report({"t": t})
    session.barrier()
    assert [report["wait"] for report in worker.reports] == [True, True, False]


@pytest.mark.parametrize(
    ("control", "last"),
    [
        ({"stop": [{"key": "training_iteration", "at_most": False, "threshold": 4}]}, 4),
        ({"stop": [{"key": "nested/loss", "at_most": True, "threshold": 7}]}, 3),
        ({"max_t": 5}, 5),
    ],
)
def test_a_local_rule_ends_the_trial_exactly_there(
    tmp_path: Path, control: dict[str, Any], last: int
) -> None:
    worker, session = open_session(tmp_path, control=control)
    with pytest.raises(TrialStopped):
        for i in range(1, 100):
            tune.report({"nested": {"loss": 10 - i}})
    session.barrier()
    assert worker.spooled == last
    assert worker.reports[-1]["metrics"]["done"] is True


def test_a_lost_connection_loses_and_repeats_nothing(tmp_path: Path) -> None:
    worker, session = open_session(tmp_path)
    worker.drop_at = {3, 7, 20}
    for i in range(30):
        tune.report({"i": i})
    session.barrier()
    assert [report["metrics"]["i"] for report in worker.reports] == list(range(30))
    assert worker.hellos >= 2


def test_a_worker_that_is_killed_before_it_answers_the_hello_is_greeted_again(
    tmp_path: Path,
) -> None:
    worker = FakeWorker(str(tmp_path), params={"x": 3})
    worker.drop_hellos = 2
    session = Session(worker.path, worker.token, deadline_s=20)
    assert (session.params, worker.hellos) == ({"x": 3}, 3)


def test_a_verdict_lost_with_its_connection_is_asked_for_again(tmp_path: Path) -> None:
    control = {"milestones": [1], "time_attr": "training_iteration"}
    worker, _ = open_session(tmp_path, control=control)
    worker.drop_at = {1}
    worker.verdict = lambda seq: "stop"
    with pytest.raises(TrialStopped):
        tune.report({"acc": 1})
    assert worker.spooled == 1


def test_a_report_with_a_checkpoint_returns_once_it_is_taken(tmp_path: Path) -> None:
    worker, _ = open_session(tmp_path)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "weights").write_text("w")
    tune.report({"acc": 1}, checkpoint=tune.Checkpoint.from_directory(tmp_path / "model"))
    assert [list(each) for each in worker.checkpoints] == [["weights"]]


def test_a_wrong_token_is_refused_in_one_sentence(tmp_path: Path) -> None:
    worker = FakeWorker(str(tmp_path))
    with pytest.raises(RuntimeError, match="wrong token"):
        Session(worker.path, "other", deadline_s=5)


def test_what_is_no_dict_is_refused(tmp_path: Path) -> None:
    open_session(tmp_path)
    with pytest.raises(ValueError, match="dict of metrics"):
        tune.report(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Checkpoint"):
        tune.report({"a": 1}, checkpoint="path")  # type: ignore[arg-type]


def test_a_refused_report_raises_what_is_wrong_with_it_once(tmp_path: Path) -> None:
    worker, session = open_session(tmp_path)
    error = {"code": "INVALID_ARGUMENT", "message": "5001 metrics", "hint": "drop some"}
    worker.refused[1] = error
    with pytest.raises(ValueError, match="refused the report: 5001 metrics; drop some"):
        tune.report({"a": 1})  # The answer may be here already.
        session.barrier()
    session.send_error("ValueError", "5001 metrics", "")
    session.barrier()
    assert worker.spooled == 0
    assert [each["kind"] for each in worker.errors] == ["ValueError"]


def test_a_dropped_profile_line_is_said_and_ends_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    worker, session = open_session(tmp_path)
    worker.dropped = "a profile line was dropped: a profile needs 1 to 32 'points'"
    session.tell({"op": "profile", "seq": 1, "elastic": {}})
    tune.report({"a": 1})
    session.barrier()
    assert worker.spooled == 1
    assert capsys.readouterr().err == f"rt: {worker.dropped}\n"


def test_report_outside_a_trial_warns() -> None:
    with pytest.warns(UserWarning, match="outside a trial"):
        tune.report({"a": 1})


def test_the_worker_may_say_stop_at_any_time(tmp_path: Path) -> None:
    worker, session = open_session(tmp_path)
    session._handle({"op": "stop", "reason": "a person"})
    with pytest.raises(TrialStopped):
        tune.report({"a": 1})
    wait_until(lambda: worker.spooled == 1)


def test_sigterm_ends_a_function_once_and_leaves_its_cleaning_up_alone(tmp_path: Path) -> None:
    _, session = open_session(tmp_path)
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGUSR2)
    try:
        session.handle_signals(raises=True)
        with pytest.raises(TrialStopped):
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(10)  # Cut short.
        os.kill(os.getpid(), signal.SIGTERM)  # Nothing is raised any more.
        assert session.terminated
    finally:
        signal.signal(signal.SIGTERM, before[0])
        signal.signal(signal.SIGUSR2, before[1])


def test_a_child_of_the_trial_ends_by_sigterm_as_usual(tmp_path: Path) -> None:
    _, session = open_session(tmp_path)
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGUSR2)
    try:
        session.handle_signals(raises=True)
        ready, told = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(told, b"!")  # Python forgets what came while it forked.
            while True:  # A single pause() could begin just after the signal came.
                time.sleep(0.01)
        os.read(ready, 1)
        os.close(ready)
        os.close(told)
        os.kill(child, signal.SIGTERM)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGTERM
    finally:
        signal.signal(signal.SIGTERM, before[0])
        signal.signal(signal.SIGUSR2, before[1])


def test_train_report_is_of_all_ranks_and_tune_report_of_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    (tmp_path / "saved").mkdir()
    checkpoint = tune.Checkpoint.from_directory(tmp_path / "saved")
    worker, _ = open_session(tmp_path)
    train.report({"a": 1}, checkpoint=checkpoint)
    train.report({"a": 2})
    tune.report({"a": 3}, checkpoint=checkpoint)
    assert [report.get("together") for report in worker.reports] == [True, None, None]


def test_train_report_waits_for_the_other_ranks_and_says_for_whom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr(_barrier, "WARN_S", 0.0)
    worker, _ = open_session(tmp_path)
    asked: list[dict[str, Any]] = []

    def barrier(message: dict[str, Any]) -> list[Any]:
        asked.append(message)
        if len(asked) < 4:
            return [{"op": "missing", "number": 1, "missing": [{"rank": 1, "node": 7}]}]
        return [{"op": "passed", "number": 1}]

    worker.barrier = barrier
    train.report({"a": 1})
    assert [message["op"] for message in asked[:4]] == ["arrive", "missing", "missing", "missing"]
    assert "at its call 1 for rank 1 (node 7)" in capfd.readouterr().err


def test_a_barrier_that_is_never_passed_raises(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    worker, _ = open_session(tmp_path)
    ended = {"op": "missing", "number": 1, "missing": [{"rank": 1}], "ended": [{"rank": 1}]}
    worker.barrier = lambda message: [ended]
    with pytest.raises(RuntimeError, match="called 1 times here, and rank 1 has ended"):
        train.report({"a": 1})
    monkeypatch.setenv("RT_TRAIN_BARRIER_TIMEOUT_S", "0.01")
    worker.barrier = lambda message: [
        {"op": "missing", "number": 1, "missing": [{"rank": 2}]},  # Too late.
        {"op": "missing", "number": message["number"], "missing": [{"rank": 1, "stack": "in f"}]},
    ]
    expected = "for rank 1: longer than RT_TRAIN_BARRIER_TIMEOUT_S\nrank 1 is here:\nin f"
    with pytest.raises(RuntimeError, match=expected):
        train.report({"a": 2})
    monkeypatch.setenv("RT_TRAIN_BARRIER_TIMEOUT_S", "soon")
    with pytest.raises(ValueError, match="must be a number of seconds, not 'soon'"):
        train.report({"a": 3})


def test_a_rank_that_waits_arrives_again_over_a_new_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    worker, _ = open_session(tmp_path)
    asked: list[int] = []

    def barrier(message: dict[str, Any]) -> list[Any]:
        asked.append(message["number"])
        return [None] if len(asked) == 1 else [{"op": "passed", "number": 1}]

    worker.barrier = barrier
    train.report({"a": 1})
    assert asked == [1, 1] and worker.hellos == 2


def test_a_rank_that_has_saved_waits_for_the_others_to_pause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    (tmp_path / "saved").mkdir()
    checkpoint = tune.Checkpoint.from_directory(tmp_path / "saved")
    for rank, wait_s in (("0", 0.2), ("1", 0.2)):
        monkeypatch.setenv("RANK", rank)
        monkeypatch.setattr(_session, "RANKS_WAIT_S", wait_s)
        folder = tmp_path / rank
        folder.mkdir()
        worker, session = open_session(folder)
        session._handle({"op": "pause", "deadline_s": 30})
        began = time.monotonic()
        with pytest.raises(TrialStopped):  # In vain, here: then it ends all the same.
            train.report({"a": 1}, checkpoint=checkpoint)
        assert time.monotonic() - began >= wait_s
        wait_until(lambda worker=worker: worker.paused)


def test_a_rank_that_never_saves_goes_on_until_it_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    worker, session = open_session(tmp_path)
    session._handle({"op": "pause", "deadline_s": 30})
    for step in range(3):
        train.report({"a": step})
    session.barrier()
    assert len(worker.reports) == 3 and not worker.paused


def test_a_trial_that_hangs_shows_its_stacks(tmp_path: Path) -> None:
    script = tmp_path / "hang.py"
    script.write_text(
        "import os, signal\n"
        "from rt._session import Session\n"
        "Session(os.environ['RT_SOCKET'], 'secret').handle_signals(raises=True)\n"
        "def here_it_hangs():\n"
        "    os.kill(os.getpid(), signal.SIGQUIT)\n"
        "here_it_hangs()\n"
    )
    worker = FakeWorker(str(tmp_path))
    done = subprocess.run(
        [sys.executable, str(script)], env={**os.environ, **worker.env()}, capture_output=True,
        text=True, timeout=30, check=True,
    )
    assert "in here_it_hangs" in done.stderr
