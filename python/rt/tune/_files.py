"""Reads searches and trials from results directories on this machine, without a cluster.

A search of an embedded cluster leaves SEARCH_FILE next to its trials' directories. All other data
come from files that every trial's directory has. CHECKPOINTS_FILE in such a directory maps the
copied checkpoints to their rows.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import time
from typing import Any, Optional

from rt._checkpoint import Checkpoint
from rt._errors import TrialError
from rt._json import clean, numbers
from rt._values import restore_values
from rt.tune._trial_base import AnyTrial
from rt.tune._trials import TrialSet, saved_iterations

SEARCH_FILE = ".rt-search.json"
RUNNING_FILE = ".rt-running"  # The driver of the search, and the directory of its private cluster.
_LEFT_WITHIN_S = 60.0


class FileTrial(AnyTrial):
    """A trial that is read from result.json, params.json and error.txt.

    `unpickle`: also the values that JSON cannot hold, which runs code of whoever wrote them.
    """

    def __init__(
        self, path: str, known: Optional[dict[str, Any]] = None, unpickle: bool = False
    ) -> None:
        self.path = os.path.abspath(os.path.expanduser(os.fspath(path)))
        if not _holds_trial(self.path):
            raise ValueError(f"{self.path} is not the results directory of a trial")
        with open(os.path.join(self.path, "params.json"), encoding="utf-8") as file:
            params = json.load(file)
        self._params = json.dumps(params, sort_keys=True)
        self.config = restore_values(numbers(params), {}, unpickle=unpickle)
        self._rows: Optional[list[dict[str, Any]]] = None
        known = known or {}
        self._has_row: Optional[bool] = known.get("has_row")  # None: nobody has said it.
        self.space = known.get("space") or {}
        self.trainable_name = str(known.get("trainable") or "")
        self.trial_name = os.path.basename(self.path)
        self.trial_id = known.get("id") or self._told_id() or self.trial_name
        self.num_failures = int(known.get("failures") or 0)
        failed = os.path.exists(os.path.join(self.path, "error.txt"))
        self.state = str(known.get("state") or ("FAILED" if failed else "COMPLETED"))

    def _told_id(self) -> Any:
        return self.rows[-1].get("trial_id") if self.rows else None

    @property
    def rows(self) -> list[dict[str, Any]]:
        """All rows of result.json."""
        if self._rows is None:
            self._rows = []
            path = os.path.join(self.path, "result.json")
            if os.path.exists(path):
                with open(path, encoding="utf-8") as file:
                    self._rows = [numbers(json.loads(line)) for line in file if line.strip()]
        return self._rows

    @property
    def last_metrics(self) -> dict[str, Any]:
        """The newest row; empty when there was no report with the configuration that it has."""
        if self._has_row is None:
            self._has_row = bool(self.rows) and self._is_of_params(self.rows[-1])
        return self.rows[-1] if self.rows and self._has_row else {}

    def _is_of_params(self, row: dict[str, Any]) -> bool:
        """Whether the trial has not been cloned since. A program may have its own "config"."""
        config = row.get("config")
        same_keys = isinstance(config, dict) and config.keys() == json.loads(self._params).keys()
        return not same_keys or json.dumps(clean(config), sort_keys=True) == self._params

    def _row_before_clone(self) -> dict[str, Any]:
        return dict(self.rows[-1]) if self.is_finished() and self.rows else {}

    @property
    def error(self) -> Optional[TrialError]:
        """The error in error.txt, if the file exists."""
        try:
            with open(os.path.join(self.path, "error.txt"), encoding="utf-8") as file:
                return TrialError(self.trial_id, "TrialError", "", file.read())
        except FileNotFoundError:
            return None

    @property
    def checkpoints(self) -> list[tuple[Checkpoint, dict[str, Any]]]:
        """The directories checkpoint_000000 and so on, with their rows if these are known."""
        rows = {row.get("training_iteration"): row for row in self.rows}
        saved_at = saved_iterations(self.path)
        found = []
        for path in sorted(glob.glob(glob.escape(self.path) + "/checkpoint_*")):
            name = os.path.basename(path)
            row = rows.get(saved_at.get(name), {})
            found.append((Checkpoint(path), {**row, "checkpoint_dir_name": name}))
        return found


def _holds_trial(path: str) -> bool:
    return os.path.isfile(os.path.join(path, "params.json"))


def write_search(trials: TrialSet) -> None:
    """Writes the file for read_search into the search's results directory, atomically.

    Trials that never started, and therefore have no directory, are left out.
    """
    items = [
        {
            "directory": os.path.relpath(trial.path, trials.path),
            "id": trial.trial_id,
            "state": trial.state,
            "failures": trial.num_failures,
            "has_row": bool(trial.last_metrics),
        }
        for trial in trials
        if _holds_trial(trial.path)
    ]
    experiment = trials.experiment
    found = {
        "state": experiment.get("state"),
        "metric": trials.metric,
        "mode": trials.mode,
        "objectives": experiment.get("objectives"),
        "constraints": experiment.get("constraints"),
        "trainable": (experiment.get("spec") or {}).get("trainable"),
        "space": experiment.get("space"),
        "trials": items,
    }
    path = os.path.join(trials.path, SEARCH_FILE)
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(found, file)
    os.replace(path + ".new", path)


def holds_search(path: str) -> bool:
    """Whether read_search would find a search there."""
    return os.path.isfile(os.path.join(path, SEARCH_FILE))


def read_search(path: str, unpickle: bool) -> TrialSet:
    """The search in a results directory, which may have been moved here.

    `unpickle`: see FileTrial. Raises ValueError when a trial's directory is gone.
    """
    with open(os.path.join(path, SEARCH_FILE), encoding="utf-8") as file:
        found = json.load(file)
    shared = {key: found.get(key) for key in ("trainable", "space")}
    trials = [
        FileTrial(os.path.join(path, item["directory"]), {**shared, **item}, unpickle)
        for item in found["trials"]
    ]
    experiment = {"state": found["state"], "results_dir": path}
    experiment.update((key, found.get(key)) for key in ("objectives", "constraints"))
    return TrialSet(experiment, trials, found["metric"], found["mode"])


def write_running(path: str, cluster: str) -> None:
    """Marks the search as running: a later process then waits until its state is saved."""
    with contextlib.suppress(OSError):  # Unwritable results are reported elsewhere.
        os.makedirs(path, exist_ok=True)
        with open(os.path.join(path, RUNNING_FILE), "w", encoding="utf-8") as file:
            json.dump({"pid": os.getpid(), "cluster": cluster}, file)


def remove_running(path: str) -> None:
    """Removes the mark: the search has ended, and has nothing to resume."""
    with contextlib.suppress(OSError):
        os.unlink(os.path.join(path, RUNNING_FILE))


def wait_left(path: str) -> None:
    """Returns when the private cluster of a driver that ended has saved its state.

    Returns at once if the driver lives, or if there is none.
    """
    try:
        with open(os.path.join(path, RUNNING_FILE), encoding="utf-8") as file:
            known = json.load(file)
        pid, cluster = int(known["pid"]), str(known["cluster"])
    except (OSError, ValueError, KeyError, TypeError):
        return
    deadline = time.monotonic() + _LEFT_WITHIN_S
    while os.path.isdir(cluster) and not _lives(pid) and time.monotonic() < deadline:
        time.sleep(0.02)


def _lives(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] not in ("Z", "X")
    except (OSError, IndexError):
        return False
