"""ExperimentAnalysis: the result of tune.run(), or of a search that was run before."""

from __future__ import annotations

import os
from typing import Any, Optional, Union

from rt._checkpoint import Checkpoint
from rt._json import flatten
from rt._paths import Explained
from rt.tune._restore import find_trials
from rt.tune._results import Result
from rt.tune._trial_base import AnyTrial
from rt.tune._trials import TrialSet, as_dataframe


class ExperimentAnalysis(Explained):
    """The trials of one search, and the choice of the best among them.

    Methods that take a metric raise ValueError when no trial reported it. Without a mode they use
    the experiment's mode, or else the largest value.
    """

    _ray_name = "rt.tune.ExperimentAnalysis"

    def __init__(
        self,
        experiment_checkpoint_path: Union[str, os.PathLike[str], TrialSet],
        *,
        default_metric: Optional[str] = None,
        default_mode: Optional[str] = None,
        trials: Optional[list[AnyTrial]] = None,
        storage_filesystem: Any = None,
        unpickle: bool = False,
    ) -> None:
        """A search that was run before, by its name or results directory; `trials`: only these.

        A value of a configuration that JSON cannot hold is shown as text, unless `unpickle` is
        set: unpickling runs code of whoever started the search. Raises ValueError when there is no
        such search.
        """
        path = experiment_checkpoint_path
        found = path if isinstance(path, TrialSet) else find_trials(str(path), unpickle)
        found.metric = default_metric or found.metric
        found.mode = default_mode or found.mode
        if trials is not None:
            found.trials = list(trials)
        self._trials = found
        self.default_metric = found.metric
        self.default_mode = found.mode

    @property
    def trials(self) -> list[AnyTrial]:
        """All trials, in the order of their numbers."""
        return self._trials.trials

    @property
    def experiment_path(self) -> str:
        """The experiment's results directory, on the machine of the head."""
        return self._trials.path

    @property
    def best_trial(self) -> AnyTrial:
        """The best trial by the metric and mode of tune.run()."""
        return self._trials.best()

    @property
    def best_config(self) -> dict[str, Any]:
        """The best trial's configuration."""
        return self.best_trial.config

    @property
    def best_result(self) -> dict[str, Any]:
        """The best trial's newest row."""
        return self.best_trial.last_result

    @property
    def best_checkpoint(self) -> Optional[Checkpoint]:
        """The best trial's best kept checkpoint, by the metric and mode of tune.run()."""
        return self.get_best_checkpoint(self.best_trial)

    @property
    def best_logdir(self) -> str:
        """The best trial's results directory."""
        return self.best_trial.path

    @property
    def best_dataframe(self) -> Any:
        """The best trial's rows."""
        return as_dataframe([flatten(row) for row in self.best_trial.rows])

    @property
    def best_result_df(self) -> Any:
        """The best trial's newest row, as a table of one row, indexed by trial_id."""
        return as_dataframe([_newest_row(self.best_trial)], "trial_id")

    @property
    def results(self) -> dict[str, dict[str, Any]]:
        """Trial id -> newest row."""
        return {trial.trial_id: trial.last_result for trial in self.trials}

    @property
    def results_df(self) -> Any:
        """One row per trial: the newest; indexed by trial_id."""
        return as_dataframe([_newest_row(trial) for trial in self.trials], "trial_id")

    @property
    def trial_dataframes(self) -> dict[str, Any]:
        """Trial id -> its rows."""
        return {t.trial_id: as_dataframe([flatten(row) for row in t.rows]) for t in self.trials}

    def dataframe(self, metric: Optional[str] = None, mode: Optional[str] = None) -> Any:
        """One row per trial, the newest or the best: a DataFrame, or a list of dicts."""
        return self._trials.table(metric, mode)

    def get_all_configs(self, prefix: bool = False) -> dict[str, dict[str, Any]]:
        """Trial id -> configuration; with `prefix` flattened, under "config/"."""
        if prefix:
            return {trial.trial_id: flatten(trial.config, "config/") for trial in self.trials}
        return {trial.trial_id: trial.config for trial in self.trials}

    def get_best_trial(
        self,
        metric: Optional[str] = None,
        mode: Optional[str] = None,
        scope: str = "last",
        filter_nan_and_inf: bool = True,
    ) -> AnyTrial:
        """The best trial; scope is last, all, avg, last-5-avg or last-10-avg."""
        return self._trials.best(metric, mode, scope, filter_nan_and_inf)

    def get_best_config(
        self, metric: Optional[str] = None, mode: Optional[str] = None, scope: str = "last"
    ) -> dict[str, Any]:
        """The best trial's configuration."""
        return self._trials.best(metric, mode, scope).config

    def get_best_logdir(
        self, metric: Optional[str] = None, mode: Optional[str] = None, scope: str = "last"
    ) -> str:
        """The best trial's results directory."""
        return self._trials.best(metric, mode, scope).path

    def get_best_checkpoint(
        self, trial: AnyTrial, metric: Optional[str] = None, mode: Optional[str] = None
    ) -> Optional[Checkpoint]:
        """The trial's best kept checkpoint by the metric."""
        chosen = self._trials.chosen_metric(metric)
        return Result(trial).get_best_checkpoint(chosen, mode or self.default_mode or "max")

    def get_last_checkpoint(
        self,
        trial: Optional[AnyTrial] = None,
        metric: str = "training_iteration",
        mode: str = "max",
    ) -> Optional[Checkpoint]:
        """The newest checkpoint of `trial`, or of the trial with the largest `metric`."""
        return (trial or self._trials.best(metric, mode)).checkpoint

    def get_trial_checkpoints_paths(
        self, trial: AnyTrial, metric: Optional[str] = None
    ) -> list[tuple[str, Any]]:
        """(local path, value of the metric) of each kept checkpoint; fetches them all."""
        chosen = self._trials.chosen_metric(metric or "training_iteration")
        return [(c.path, flatten(row).get(chosen)) for c, row in trial.checkpoints]


def _newest_row(trial: AnyTrial) -> dict[str, Any]:
    """The rows, flattened, with the configuration."""
    row = {"trial_id": trial.trial_id, **trial.last_result, "config": trial.config}
    return flatten(row)
