"""The base class of schedulers."""

from __future__ import annotations

import pickle
from typing import Any, Optional


class TrialScheduler:
    """Decides which trials continue. The schedulers of rt.tune.schedulers run in the head, other
    subclasses in the driver.

    A scheduler in the driver sees every result of every trial, in order and once. After each of its
    results a trial waits for the answer of on_trial_result. A driver that is run again creates the
    scheduler anew and replays all earlier results to it.
    """

    CONTINUE = "CONTINUE"
    PAUSE = "PAUSE"
    STOP = "STOP"
    NOOP = "NOOP"
    metric: Optional[str] = None
    mode: Optional[str] = None
    needs_metric = False  # It compares trials by a metric.
    changes_params = False  # It changes the configurations of its trials.

    def to_spec(self) -> dict[str, Any]:
        """The `scheduler` of an experiment's specification."""
        return {"fifo": {}}

    def complete_space(self, space: Optional[dict[str, Any]]) -> Optional[dict[str, Any]]:
        """The search space, with what the scheduler adds to it."""
        return space

    def set_search_properties(
        self, metric: Optional[str], mode: Optional[str], **spec: Any
    ) -> bool:
        """Called before the first trial. False: it has a metric or mode of its own."""
        own_metric, own_mode = self.__dict__.get("_metric"), self.__dict__.get("_mode")
        if (own_metric and metric) or (own_mode and mode):
            return False
        self._metric = metric or own_metric
        self._mode = mode or own_mode
        return True

    def on_trial_add(self, tune_controller: Any, trial: Any) -> None:
        """Called when a trial was created."""

    def on_trial_error(self, tune_controller: Any, trial: Any) -> None:
        """Called when it failed permanently."""

    def on_trial_result(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> str:
        """Called when it reported a row; returns CONTINUE, PAUSE, STOP or NOOP."""
        return TrialScheduler.CONTINUE

    def on_trial_complete(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> None:
        """Called when it ended by itself."""

    def on_trial_remove(self, tune_controller: Any, trial: Any) -> None:
        """Called when it was stopped while it did not run."""

    def choose_trial_to_run(self, tune_controller: Any) -> Any:
        """The pending or paused trial that runs next, or None."""
        for status in ("PENDING", "PAUSED"):
            for trial in tune_controller.get_trials():
                if trial.status == status:
                    return trial
        return None

    def debug_string(self) -> str:
        """A one-line description of the scheduler."""
        return type(self).__name__

    def save(self, checkpoint_path: str) -> None:
        """Pickles the scheduler into the file."""
        with open(checkpoint_path, "wb") as file:
            pickle.dump(self.__dict__, file)

    def restore(self, checkpoint_path: str) -> None:
        """Restores the state from a file that save() wrote."""
        with open(checkpoint_path, "rb") as file:
            self.__dict__.update(pickle.load(file))

    @property
    def supports_buffered_results(self) -> bool:
        """False: results are never buffered."""
        return False
