"""Result and ResultGrid: the results of Tuner.fit()."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Optional

from rt._checkpoint import Checkpoint
from rt._errors import TrialError
from rt._json import flatten
from rt._paths import Explained
from rt.tune._files import FileTrial
from rt.tune._pareto import hypervolume
from rt.tune._trial_base import AnyTrial
from rt.tune._trials import TrialSet, as_dataframe


class Result(Explained):
    """One trial's outcome."""

    _ray_name = "rt.train.Result"
    filesystem = None  # Results are local files.

    def __init__(self, trial: AnyTrial) -> None:
        self._trial = trial

    @classmethod
    def from_path(cls, path: str, unpickle: bool = False) -> Result:
        """The outcome in a trial's results directory. ValueError: not such a directory.

        A value of the configuration that JSON cannot hold is shown as text, unless `unpickle` is
        set: unpickling runs code of whoever wrote the file.
        """
        return cls(FileTrial(path, unpickle=unpickle))

    @property
    def metrics(self) -> dict[str, Any]:
        """The newest row, with the fields that rt adds; empty when there is none."""
        return self._trial.last_result

    @property
    def config(self) -> dict[str, Any]:
        """The configuration of the trial."""
        return self._trial.config

    @property
    def error(self) -> Optional[TrialError]:
        """The error that ended the trial, if it failed."""
        return self._trial.error

    @property
    def path(self) -> str:
        """The trial's results directory, on the machine of the head."""
        return self._trial.path

    @property
    def log_dir(self) -> Path:
        """The older name of `path`."""
        return Path(self.path)

    @property
    def checkpoint(self) -> Optional[Checkpoint]:
        """The newest committed checkpoint."""
        return self._trial.checkpoint

    @property
    def best_checkpoints(self) -> list[tuple[Checkpoint, dict[str, Any]]]:
        """The checkpoints that were kept, each with its row."""
        return self._trial.checkpoints

    @property
    def metrics_dataframe(self) -> Any:
        """All rows, flattened: a DataFrame, or a list of dicts without pandas."""
        return as_dataframe([flatten(row) for row in self._trial.rows])

    def get_best_checkpoint(self, metric: str, mode: str) -> Optional[Checkpoint]:
        """The kept checkpoint whose row is best by `metric`, or None if no row has the metric."""
        if mode not in ("max", "min"):
            raise ValueError(f"mode must be 'max' or 'min', not {mode!r}")
        best: Optional[tuple[float, Checkpoint]] = None
        for checkpoint, row in self.best_checkpoints:
            value = flatten(row).get(metric)
            if not isinstance(value, (int, float)) or value != value:
                continue
            ranked = value if mode == "max" else -value
            if best is None or ranked > best[0]:
                best = (ranked, checkpoint)
        return best[1] if best is not None else None

    def __repr__(self) -> str:
        return f"Result(trial={self._trial.trial_id!r}, metrics={self._trial.last_metrics!r})"


class ResultGrid:
    """The outcomes of all trials, in the order of their numbers."""

    def __init__(self, trials: TrialSet) -> None:
        self._trials = trials
        self._results = [Result(trial) for trial in trials]

    def __len__(self) -> int:
        return len(self._results)

    def __getitem__(self, index: int) -> Result:
        return self._results[index]

    def __iter__(self) -> Iterator[Result]:
        return iter(self._results)

    @property
    def experiment_path(self) -> str:
        """The experiment's results directory, on the machine of the head."""
        return self._trials.path

    @property
    def filesystem(self) -> None:
        """None: results are local files."""

    @property
    def errors(self) -> list[TrialError]:
        """The errors that ended the failed trials."""
        return [result.error for result in self._results if result.error is not None]

    @property
    def num_errors(self) -> int:
        """The number of failed trials."""
        return sum(trial.status == "ERROR" for trial in self._trials)

    @property
    def num_terminated(self) -> int:
        """The number of trials that ended without failing."""
        return sum(trial.status == "TERMINATED" for trial in self._trials)

    def get_best_result(
        self,
        metric: Optional[str] = None,
        mode: Optional[str] = None,
        scope: str = "last",
        filter_nan_and_inf: bool = True,
    ) -> Result:
        """The best trial's outcome; without a mode: TuneConfig's mode, or else the largest value.

        Raises ValueError for a metric that no trial reported, and lists the reported metrics.
        """
        if len(self._results) == 1 and not (metric or self._trials.metric):
            return self._results[0]
        return Result(self._trials.best(metric, mode, scope, filter_nan_and_inf))

    def get_best_results(self) -> list[Result]:
        """The outcomes that no other one beats in all objectives, by the first objective.

        Each trial counts with its newest row. Raises ValueError for a search with one objective.
        """
        return [Result(trial) for trial in self._trials.front()]

    def get_hypervolume(self, reference: Optional[dict[str, float]] = None) -> float:
        """How much of the space between the front and `reference` the results dominate.

        reference: a value of each objective that is worse than what counts; by default the worst
        finite value of each. Raises ValueError for a search with one objective, or without a value.
        """
        self._trials.front()  # Refuses a search with one objective.
        found = [values for _, values in self._trials.outcomes()]
        signs = {name: 1 if mode == "min" else -1 for name, mode in self._trials.objectives}
        if reference is not None and (
            not isinstance(reference, dict) or set(reference) != set(signs)
        ):
            raise ValueError(f"reference is a dict with a value of each of {', '.join(signs)}")
        if not found:
            return 0.0
        worst = [max(filter(math.isfinite, each), default=-math.inf) for each in zip(*found)]
        if reference is not None:
            worst = [sign * reference[name] for name, sign in signs.items()]
        return hypervolume(found, worst)

    def get_dataframe(
        self, filter_metric: Optional[str] = None, filter_mode: Optional[str] = None
    ) -> Any:
        """One row per trial, the newest or the best: a DataFrame, or a list of dicts."""
        return self._trials.table(filter_metric, filter_mode)

    def __repr__(self) -> str:
        return f"ResultGrid({self._results!r})"
