"""Comet: a callback for the script. `pip install comet_ml`."""

from __future__ import annotations

from typing import Any, Optional

from rt.air.integrations._rows import metrics_of, params_of, step_of, trial_key
from rt.tune.logger import LoggerCallback

_FACTS = ("trial_id", "experiment_tag", "node_ip", "hostname", "pid", "date")
# What Comet records of a process would be about the script, not about the trial.
_QUIET = {
    "log_code": False,
    "log_graph": False,
    "auto_param_logging": False,
    "auto_metric_logging": False,
    "auto_output_logging": False,
    "parse_args": False,
    "log_env_details": False,
    "log_git_metadata": False,
    "log_git_patch": False,
    "display_summary_level": 0,
}


def _load() -> Any:
    try:
        import comet_ml
    except ImportError as error:
        raise ImportError("Comet is not installed here: pip install comet_ml") from error
    return comet_ml


class CometLoggerCallback(LoggerCallback):
    """An experiment of Comet for each trial, in the process of the script.

    online: False keeps them in files, which `comet upload` sends later. save_checkpoints: logs them
    as models. experiment_kwargs: of comet_ml.Experiment. A search that is resumed begins new ones.
    """

    def __init__(
        self,
        online: bool = True,
        tags: Optional[list[str]] = None,
        save_checkpoints: bool = False,
        **experiment_kwargs: Any,
    ) -> None:
        self.online, self.tags = online, list(tags or [])
        self.save_checkpoints = save_checkpoints
        self.experiment_kwargs = experiment_kwargs
        self._experiments: dict[str, Any] = {}

    def setup(self, *args: Any, **kwargs: Any) -> None:
        """Raises ImportError without the library."""
        _load()

    def log_trial_start(self, trial: Any) -> None:
        """Begins the experiment of the trial."""
        self._experiment(trial)

    def log_trial_result(self, iteration: int, trial: Any, result: dict[str, Any]) -> None:
        """Logs the numbers of a row, and what tells the trial from others."""
        kept = {key: value for key, value in result.items() if key not in _FACTS}
        experiment = self._experiment(trial)
        experiment.log_others({key: result[key] for key in _FACTS if key in result})
        experiment.log_metrics(metrics_of(kept), step=step_of(result))

    def log_trial_save(self, trial: Any) -> None:
        """Logs a checkpoint, if that is asked for."""
        if self.save_checkpoints and trial.checkpoint is not None:
            with trial.checkpoint.as_directory() as directory:
                self._experiment(trial).log_model(f"checkpoint_{trial.trial_name}", directory)

    def log_trial_end(self, trial: Any, failed: bool = False) -> None:
        """Ends the experiment."""
        experiment = self._experiment(trial)
        experiment.log_other("failed", failed)
        experiment.end()
        self._experiments.pop(trial_key(trial), None)

    def on_experiment_end(self, trials: list[Any], **info: Any) -> None:
        """Ends the experiments of trials that did not end by themselves."""
        for experiment in self._experiments.values():
            experiment.end()
        self._experiments.clear()

    def _experiment(self, trial: Any) -> Any:
        key = trial_key(trial)
        if key not in self._experiments:
            comet = _load()
            kind = comet.Experiment if self.online else comet.OfflineExperiment
            made = kind(**{**_QUIET, **self.experiment_kwargs})
            made.set_name(str(trial))
            made.add_tags(self.tags)
            made.log_parameters(params_of(trial.config))
            self._experiments[key] = made
        return self._experiments[key]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_experiments": {}}


__all__ = ["CometLoggerCallback"]
