"""A finished (or interrupted) search as its driver sees it: trials that read through the head.

The result of `trial_list` is kept. Rows and checkpoints are fetched when they are first used.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any, Optional

from rt import _driver
from rt._checkpoint import Checkpoint
from rt._errors import RtError, TrialError
from rt._json import flatten, numbers
from rt._logs import names_of, save_logs
from rt._slips import nearest
from rt._values import ValueTable, restore_values
from rt.tune._outputs import save_outputs
from rt.tune._pareto import dominates
from rt.tune._trial_base import AnyTrial, as_number

CHECKPOINTS_FILE = ".rt-checkpoints.json"
STORED_WITHIN_S = 600.0
SCOPES = ("last", "all", "avg", "last-5-avg", "last-10-avg")
_NEVER_METRICS = {
    "done", "config", "trial_id", "date", "hostname", "node_ip", "pid", "timestamp",
    "experiment_tag", "checkpoint_dir_name", "should_checkpoint",
}  # fmt: skip
FILLED_IN = {
    "training_iteration", "time_this_iter_s", "time_total_s", "time_since_restore",
    "iterations_since_restore", "timesteps_since_restore",
}  # fmt: skip


class Trial(AnyTrial):
    """A trial that is read through its head."""

    def __init__(
        self,
        item: dict[str, Any],
        experiment: dict[str, Any],
        table: ValueTable,
        unpickle: bool = True,
    ) -> None:
        self._item = item
        self._rows: Optional[list[dict[str, Any]]] = None
        self._last: Optional[dict[str, Any]] = None
        self._detail: Optional[dict[str, Any]] = None
        self._checkpoints: Optional[list[tuple[Checkpoint, dict[str, Any]]]] = None
        self.trial_id = str(item.get("id"))
        self.trial_name = str(item.get("name") or self.trial_id.replace("/", "_"))
        self.state = str(item.get("state"))
        params = numbers(item.get("params") or {})
        self.config: dict[str, Any] = restore_values(params, table, unpickle=unpickle)
        self.num_failures = int(item.get("failures") or 0)
        self.space = experiment.get("space") or {}
        self.trainable_name = str((experiment.get("spec") or {}).get("trainable") or "")
        own, root = item.get("results_dir"), experiment.get("results_dir")
        self.path = str(own or (os.path.join(root, self.trial_name) if root else ""))

    @property
    def reported(self) -> int:
        """The number of rows that the trial reported."""
        return int(self._item.get("reports") or 0)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """All rows, oldest first, with the fields that rt adds."""
        if self._rows is None:
            self._rows = [self._with_config(row) for row in self._read_rows()]
        return self._rows

    def _read_rows(self) -> list[dict[str, Any]]:
        """All pages of rows."""
        rows: list[dict[str, Any]] = []
        after: Any = -1
        following: Any = ""
        while True:
            reply = _driver.get().call(
                "trial_rows", trial_id=self.trial_id, after_iteration=after, after=following
            )
            rows += reply.get("rows") or []
            if not reply.get("more") or not reply.get("rows"):
                return rows
            following = reply.get("next") or ""
            if not following:  # A head of an older release.
                after = rows[-1]["training_iteration"]

    def _with_config(self, row: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = numbers(row)
        if "config" in found:
            found["config"] = self.config
        return found

    def load(self) -> None:
        """Reads all data that may be used later."""
        if self.reported:
            _ = self.rows
        _ = self.detail

    @property
    def detail(self) -> dict[str, Any]:
        """The data of `rt trial show`."""
        if self._detail is None:
            self._detail = dict(_driver.get().call("trial_get", trial_id=self.trial_id))
        return self._detail

    @property
    def last_metrics(self) -> dict[str, Any]:
        """The newest row with the fields that rt adds; empty when there was no report."""
        if self._last is None:
            self._last = self._with_config(self._item.get("metrics") or {})
            if self._last and self.state in ("COMPLETED", "STOPPED"):
                # A function's return and a scheduler's decision come after the last row.
                self._last["done"] = True
        return self._last

    def _row_before_clone(self) -> dict[str, Any]:
        is_over = self.state in ("COMPLETED", "STOPPED", "FAILED")
        return dict(self.rows[-1]) if is_over and self.reported and self.rows else {}

    @property
    def error(self) -> Optional[TrialError]:
        """The error that ended the trial, if it failed."""
        if self.state != "FAILED":
            return None
        error = self.detail.get("error") or {}
        kind = str(error.get("class") or error.get("kind") or "TrialError")
        message = str(error.get("message") or self._item.get("reason") or "it failed")
        return TrialError(self.trial_id, kind, message, str(error.get("traceback") or ""))

    @property
    def checkpoints(self) -> list[tuple[Checkpoint, dict[str, Any]]]:
        """Committed checkpoints, oldest first, each with its row."""
        if self._checkpoints is None:
            self._checkpoints = self._list_checkpoints()
        return list(self._checkpoints)

    def _list_checkpoints(self) -> list[tuple[Checkpoint, dict[str, Any]]]:
        found = []
        for item in self.detail.get("checkpoints") or []:
            if str(item.get("state") or "COMMITTED").upper() not in ("COMMITTED", "KEPT"):
                continue
            manifest = str(item.get("manifest") or item.get("id"))
            row = self._with_config(item.get("metrics") or {})
            row.setdefault("training_iteration", item.get("step"))
            # The head counts all committed checkpoints, from 1.
            row["checkpoint_dir_name"] = f"checkpoint_{int(item['id']) - 1:06d}"
            parts = item.get("parts") or ()
            found.append((remote_checkpoint(self.trial_id, manifest, parts), row))
        return found


def save_checkpoints(trial: AnyTrial) -> None:
    """Copies the trial's checkpoints into its directory, and records the row of each."""
    saved_at = saved_iterations(trial.path)
    kept = {row["checkpoint_dir_name"]: (one, row) for one, row in trial.checkpoints}
    if not saved_at and not kept:
        return
    try:
        for name, (checkpoint, row) in kept.items():
            checkpoint._fetch_to(os.path.join(trial.path, name))
            saved_at[name] = row.get("training_iteration")
        for name in saved_at.keys() - kept:
            shutil.rmtree(os.path.join(trial.path, name), ignore_errors=True)
            del saved_at[name]
    finally:
        with open(os.path.join(trial.path, CHECKPOINTS_FILE), "w", encoding="utf-8") as file:
            json.dump(saved_at, file)


def saved_iterations(path: str) -> dict[str, Any]:
    """Directory -> training_iteration of its row, of the checkpoints copied to a trial's `path`."""
    try:
        with open(os.path.join(path, CHECKPOINTS_FILE), encoding="utf-8") as file:
            return dict(json.load(file))
    except FileNotFoundError:
        return {}


def remote_checkpoint(trial_id: str, manifest: str, parts: Sequence[str] = ()) -> Checkpoint:
    """The trial's checkpoint with that manifest; its files are fetched when they are used.

    `parts`: manifests of the shards of ranks other than 0. If two shards have a file of the same
    name, rank 0's file is used. If only replicas on nodes exist (durable_after), this waits until
    the store has the checkpoint.
    """

    def fetch(target: str) -> None:
        _await_stored(trial_id, manifest)
        for each in (*parts, manifest):
            _driver.get().call("blob_pull_dir", manifest=each, target=target)

    return Checkpoint._remote(fetch)


def _keeps(value: Optional[float], bound: dict[str, float]) -> bool:
    if value is None:
        return False
    return all(value <= b if comparison == "<=" else value >= b for comparison, b in bound.items())


class TrialSet:
    """The trials of one experiment, and the choice of the best among them."""

    def __init__(
        self,
        experiment: dict[str, Any],
        trials: Sequence[AnyTrial],
        metric: Any,
        mode: Any,
    ) -> None:
        self.experiment = experiment
        self.path = str(experiment.get("results_dir") or "")
        # (metric, mode) of each objective, where there are several.
        listed = experiment.get("objectives") or []
        self.objectives: list[tuple[str, str]] = [(one["metric"], one["mode"]) for one in listed]
        if self.objectives:
            metric = mode = None
        elif isinstance(metric, list):  # Of one.
            metric, mode = metric[0], mode[0] if isinstance(mode, list) else mode
        self.metric: Optional[str] = metric
        self.mode: Optional[str] = mode
        self.trials = list(trials)
        _driver.readers.add(self)

    @classmethod
    def of_items(
        cls,
        experiment: dict[str, Any],
        items: list[dict[str, Any]],
        table: ValueTable,
        metric: Any,
        mode: Any,
        unpickle: bool = True,
    ) -> TrialSet:
        """The trials that `trial_list` returned. `table`: the values that JSON could not hold."""
        trials = [Trial(item, experiment, table, unpickle) for item in items]
        return cls(experiment, trials, metric, mode)

    def __iter__(self) -> Iterator[AnyTrial]:
        return iter(self.trials)

    def all_done(self) -> bool:
        """Whether the search ended by itself, and no trial failed."""
        ended = self.experiment.get("state") == "COMPLETED"
        return ended and all(trial.state != "FAILED" for trial in self.trials)

    def save_files(self, cluster_dir: str, log_to_file: Any = False) -> None:
        """Copies an embedded cluster's logs, checkpoints and outputs to the trials' directories.

        Ray's names are used: stdout, stderr, checkpoint_000000 and so on. Checkpoints that an
        earlier call copied, and that were retired since, are removed. Failures to copy are printed
        on standard error. Files of `log_to_file` are created even without output.
        """
        names = names_of(log_to_file)
        for trial in self.trials:
            if not os.path.isdir(trial.path):
                continue
            try:
                if cluster_dir:
                    save_logs(cluster_dir, trial.trial_id, trial.path, names, bool(log_to_file))
                save_checkpoints(trial)
                if isinstance(trial, Trial):
                    save_outputs(trial.trial_id, trial.detail, trial.path)
            except (OSError, RtError) as error:
                print(f"rt: {trial.path}: {error}", file=sys.stderr, flush=True)

    def load_all(self) -> None:
        """Reads all data that may be used later: the connection is about to end."""
        for trial in self.trials:
            try:
                if isinstance(trial, Trial):
                    trial.load()
            except RtError:
                return

    def reported_metrics(self) -> list[str]:
        """The names of all metrics that any trial reported."""
        names: set[str] = set()
        for trial in self.trials:
            row = {k: v for k, v in trial.last_metrics.items() if k not in _NEVER_METRICS}
            names.update(flatten(row))
        return sorted(names - _NEVER_METRICS)

    def reported_text(self, metric: str = "") -> str:
        """The names as "reported: loss"; the names that rt adds come after the trials' own.

        `metric`: a missing metric. The name that was probably meant is added.
        """
        names = self.reported_metrics()
        own = [name for name in names if name not in FILLED_IN]
        filled = ", ".join(name for name in names if name in FILLED_IN)
        text = f"reported: {', '.join(own) or 'nothing'}"
        text += f" (filled in by rt: {filled})" if filled else ""
        if metric in own:
            return f"{text}; no value of {metric!r} is a number"
        inside = [name for name in own if name.endswith(f"/{metric}")]
        near = inside[0] if inside else nearest(metric, own) if metric else None
        return f"{text}; did you mean {near!r}?" if near else text

    def lacking(self, metric: str) -> str:
        """What trials did not report, and what they did instead."""
        is_known = metric in self.reported_metrics()
        what = f"a number for the metric {metric!r}" if is_known else f"the metric {metric!r}"
        return f"{what}; {self.reported_text(metric)}"

    def missing(self, metric: str) -> ValueError:
        """The error for a metric that no trial reported."""
        text = f"no trial reported {self.lacking(metric)}"
        failed = [trial for trial in self.trials if trial.state == "FAILED"]
        error = failed[0].error if failed else None
        if error is not None:
            text += " " if text.endswith("?") else ". "
            text += f"{len(failed)} of {len(self.trials)} trials failed; the first, trial "
            text += f"{error.trial_id}: {error.message or error.kind}"
        return ValueError(text)

    def chosen_metric(self, metric: Optional[str]) -> str:
        """`metric`, or the experiment's. Raises ValueError when there is neither."""
        chosen = metric or self.metric
        if not chosen and self.objectives:
            names = ", ".join(name for name, _ in self.objectives)
            raise ValueError(
                f"the search improves {names} together: get_best_results() has the trials that no "
                "other one beats in all of them; for the best in one of them, name it"
            )
        if not chosen:
            raise ValueError(f"name a metric; {self.reported_text()}")
        return chosen

    def outcomes(self) -> list[tuple[AnyTrial, list[float]]]:
        """The trials whose newest row has all objectives, and their values, less being better.

        Failed trials, and those that break a constraint of the search, are left out.
        """
        bounds = (self.experiment.get("constraints") or {}).items()
        found = []
        for trial in self.trials:
            values = [trial.value(name, mode, "last", False) for name, mode in self.objectives]
            if trial.state == "FAILED" or not all(
                _keeps(trial.value(name, "min", "last", False), bound) for name, bound in bounds
            ):
                continue
            signs = [1.0 if mode == "min" else -1.0 for _, mode in self.objectives]
            known = [sign * each for sign, each in zip(signs, values) if each is not None]
            if len(known) == len(values) and not any(map(math.isnan, known)):
                found.append((trial, known))
        return found

    def front(self) -> list[AnyTrial]:
        """The trials that no other one beats in all objectives, by the first of them.

        Raises ValueError for a search with one objective.
        """
        if not self.objectives:
            raise ValueError("the search has one objective: get_best_result() has its best trial")
        found = sorted(self.outcomes(), key=lambda each: each[1])
        return [
            trial
            for trial, values in found
            if not any(dominates(other, values) for _, other in found)
        ]

    def best(
        self,
        metric: Optional[str] = None,
        mode: Optional[str] = None,
        scope: str = "last",
        finite_only: bool = True,
    ) -> AnyTrial:
        """The best trial; without a mode: the experiment's mode, or else the largest value.

        Raises ValueError for an unknown scope or mode, and for a metric that no trial reported.
        """
        chosen = self.chosen_metric(metric)
        mode = mode or self.mode or "max"
        if scope not in SCOPES:
            raise ValueError(f"scope must be one of {', '.join(SCOPES)}, not {scope!r}")
        if mode not in ("max", "min"):
            raise ValueError(f"mode must be 'max' or 'min', not {mode!r}")
        sign = 1 if mode == "max" else -1
        best: Optional[AnyTrial] = None
        best_value = -math.inf
        for trial in self.trials:
            value = trial.value(chosen, mode, scope, finite_only)
            if value is None:
                continue
            ranked = -math.inf if math.isnan(value) else sign * value
            if best is None or ranked > best_value:
                best, best_value = trial, ranked
        if best is None:
            if any(trial.value(chosen, mode, scope, False) is not None for trial in self.trials):
                raise ValueError(
                    f"every value of the metric {chosen!r} is NaN or infinite; "
                    "filter_nan_and_inf=False takes those too"
                )
            raise self.missing(chosen)
        return best

    def table(self, metric: Optional[str] = None, mode: Optional[str] = None) -> Any:
        """One row per trial: the newest or, with a metric, the best; with the configuration.

        A trial without a number for the metric has its newest row. Raises ValueError for a mode
        without a metric, or for an unknown mode.
        """
        if mode not in (None, "max", "min") or (mode and not metric):
            raise ValueError(f"mode must be 'max' or 'min', of a metric, not {mode!r}")
        rows = []
        for trial in self.trials:
            row = trial.last_result
            if metric:
                sign = -1 if (mode or self.mode or "max") == "min" else 1
                scored = [as_number(flatten(each).get(metric)) for each in trial.rows]
                kept = [(sign * v, i) for i, v in enumerate(scored) if v is not None and v == v]
                row = trial.rows[max(kept, key=lambda pair: pair[0])[1]] if kept else row
            flat = flatten({key: value for key, value in row.items() if key != "config"})
            flat.setdefault("trial_id", trial.trial_id)
            flat.update(flatten(trial.config, "config/"))
            flat["logdir"] = trial.path
            rows.append(flat)
        return as_dataframe(rows)


class Rows(list):  # type: ignore[type-arg]
    """What is a DataFrame where pandas is installed: a list of dicts that says so when it is used
    as one."""

    def __getattr__(self, name: str) -> Any:
        # Of the kind that hasattr wants; Python's own protocols ask for names with "_".
        raise AttributeError(name if name.startswith("_") else f"{name}: {_NEEDS_PANDAS}")

    def __getitem__(self, index: Any) -> Any:
        if not isinstance(index, (int, slice)):
            raise ImportError(_NEEDS_PANDAS)
        return super().__getitem__(index)


_NEEDS_PANDAS = "a DataFrame needs pandas: pip install pandas; without it this is a list of dicts"


def as_dataframe(rows: list[dict[str, Any]], index: Optional[str] = None) -> Any:
    """A pandas DataFrame where pandas is installed, else the rows, as a list of dicts."""
    try:
        import pandas
    except ImportError:
        return Rows(rows)
    table = pandas.DataFrame(rows)
    return table.set_index(index) if index and rows else table


def _await_stored(trial_id: str, manifest: str) -> None:
    """Blocks while only nodes have the checkpoint. RtError if they are lost or take too long."""
    end = time.monotonic() + STORED_WITHIN_S
    pause_s = 0.1
    while True:
        known = _driver.get().call("trial_get", trial_id=trial_id).get("checkpoints") or []
        held = [one for one in known if one.get("manifest") == manifest]
        if not held or any(one.get("durability", "DURABLE") == "DURABLE" for one in held):
            return
        who = ", ".join(str(node) for node in held[-1].get("held_by") or ())
        if held[-1]["durability"] == "LOST":
            raise RtError(f"only node {who} had this checkpoint, and is lost", "DATA_LOSS")
        if time.monotonic() >= end:
            raise RtError(
                f"the store does not have this checkpoint yet: node {who} brings it there",
                "DEADLINE_EXCEEDED",
                "rt trial show tells when it is DURABLE",
            )
        time.sleep(pause_s)
        pause_s = min(pause_s * 2, 2.0)
