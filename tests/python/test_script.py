"""report() in a program that is a trial without a trainable, such as a script for torchrun."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from fake_worker import FakeWorker, wait_until
from rt._pack import PACKAGE_PARENT


def start(
    tmp_path: Path, text: str, leads: bool = True
) -> tuple[FakeWorker, subprocess.Popen[str]]:
    """Runs the script as rt-shim would: as the leader of a process group, if `leads`."""
    worker = FakeWorker(str(tmp_path))
    script = tmp_path / "script.py"
    script.write_text("from rt import train\n" + text)
    child = subprocess.Popen(
        [sys.executable, str(script)],
        env={**os.environ, **worker.env(), "PYTHONPATH": PACKAGE_PARENT},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=leads,
    )
    return worker, child


def test_a_script_reports_and_its_end_waits_for_the_acknowledgements(tmp_path: Path) -> None:
    worker, child = start(tmp_path, "train.report({'loss': 1})\ntrain.report({'loss': 2})\n")
    _, errors = child.communicate(timeout=60)
    assert child.returncode == 0, errors
    assert [each["metrics"]["loss"] for each in worker.reports] == [1, 2]


def test_an_error_of_a_script_is_sent_and_printed(tmp_path: Path) -> None:
    worker, child = start(tmp_path, "train.report({'loss': 1})\nraise KeyError('nothing here')\n")
    _, errors = child.communicate(timeout=60)
    assert child.returncode == 1
    assert errors.count("KeyError: 'nothing here'") == 1
    assert [each["kind"] for each in worker.errors] == ["KeyError"]
    assert "script.py" in worker.errors[0]["traceback"]


def test_a_script_that_is_asked_to_stop_ends_at_its_next_report(tmp_path: Path) -> None:
    worker, child = start(
        tmp_path,
        "print('ready', flush=True)\n"
        "try:\n    while True:\n        train.report({'loss': 1})\n"
        "finally:\n    print('cleaned', flush=True)\n",
    )
    assert child.stdout is not None and child.stdout.readline() == "ready\n"
    wait_until(lambda: len(worker.reports) > 0)
    child.send_signal(signal.SIGTERM)
    out, errors = child.communicate(timeout=60)
    assert (child.returncode, out, errors) == (143, "cleaned\n", "")


def test_a_child_process_of_a_trial_reports_nothing(tmp_path: Path) -> None:
    worker, child = start(tmp_path, "train.report({'loss': 1})\n", leads=False)
    _, errors = child.communicate(timeout=60)
    assert child.returncode == 0
    assert "report() does nothing outside a trial" in errors
    assert worker.hellos == 0
