"""Aim: a callback for the script. `pip install aim`. Ray has it in tune.logger.aim."""

from __future__ import annotations

from typing import Any, Optional

from rt.air.integrations._rows import metrics_of, plain, step_of, trial_key
from rt.tune.logger import LoggerCallback


def _load() -> Any:
    try:
        import aim
    except ImportError as error:
        raise ImportError("Aim is not installed here: pip install aim") from error
    return aim


class AimLoggerCallback(LoggerCallback):
    """A run of Aim for each trial, in the process of the script.

    repo: a directory or an aim.Repo; by default that of the search's results. metrics: the keys of
    rows that are tracked, all numbers by default. aim_run_kwargs: of aim.Run.
    """

    def __init__(
        self,
        repo: Any = None,
        experiment_name: Optional[str] = None,
        metrics: Optional[list[str]] = None,
        **aim_run_kwargs: Any,
    ) -> None:
        self._repo, self._name, self._metrics = repo, experiment_name, metrics
        self._arguments = aim_run_kwargs
        self._runs: dict[str, Any] = {}

    def setup(self, *args: Any, **kwargs: Any) -> None:
        """Raises ImportError without the library."""
        _load()

    def log_trial_start(self, trial: Any) -> None:
        """Begins the run of the trial."""
        self._run(trial)

    def log_trial_result(self, iteration: int, trial: Any, result: dict[str, Any]) -> None:
        """Tracks the numbers of a row."""
        run, step = self._run(trial), step_of(result)
        for name, value in metrics_of(result).items():
            if self._metrics is None or name in self._metrics:
                run.track(value, name, step, context=None)

    def log_trial_end(self, trial: Any, failed: bool = False) -> None:
        """Closes the run."""
        run = self._run(trial)
        run["failed"] = failed
        run.close()
        self._runs.pop(trial_key(trial), None)

    def on_experiment_end(self, trials: list[Any], **info: Any) -> None:
        """Closes the runs of trials that did not end by themselves."""
        for run in self._runs.values():
            run.close()
        self._runs.clear()

    def _run(self, trial: Any) -> Any:
        key = trial_key(trial)
        if key not in self._runs:
            folder = key.rstrip("/").rpartition("/")[0]
            options = {
                "repo": self._repo or folder or None,
                "experiment": self._name or folder.rpartition("/")[2] or None,
                "system_tracking_interval": None,  # It would be about the script.
                "capture_terminal_logs": False,
            }
            run = _load().Run(**{**options, **self._arguments})
            run["trial_id"], run["trial_name"] = str(trial.trial_id), str(trial)
            run["hparams"] = plain(trial.config)
            self._runs[key] = run
        return self._runs[key]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_runs": {}}


__all__ = ["AimLoggerCallback"]
