"""MLflow: a callback for the script, and setup_mlflow() for the trainable.

`pip install mlflow`, or mlflow-skinny, which is enough.
"""

from __future__ import annotations

import os
import re
import time
from typing import Any, Optional

from rt import _api
from rt.air.integrations._rows import (
    Nothing,
    finite,
    is_repeated,
    metrics_of,
    own_key,
    params_of,
    rank_is_zero,
    step_of,
    trial_key,
)
from rt.tune.logger import LoggerCallback

_KEY = "rt.trial"  # The tag by which a run is found again.
_PARAM_CHARACTERS_MAX = 6000
_PARAMS_MAX, _METRICS_MAX = 100, 1000  # Of one request, by MLflow's limits.


def _load() -> Any:
    try:
        import mlflow
    except ImportError as error:
        raise ImportError("MLflow is not installed here: pip install mlflow") from error
    return mlflow


def _name(text: str) -> str:
    """A key that MLflow accepts."""
    return re.sub(r"[^\w\-. /]", "_", text)


def _experiment(client: Any, name: str, location: Optional[str] = None) -> str:
    known = client.get_experiment_by_name(name)
    if known is not None:
        return str(known.experiment_id)
    return str(client.create_experiment(name, artifact_location=location))


def _known_run(client: Any, experiment: str, key: str) -> Optional[str]:
    """The newest run of a trial."""
    quoted = key.replace("'", "")
    found = client.search_runs([experiment], f"tags.`{_KEY}` = '{quoted}'", max_results=1)
    return str(found[0].info.run_id) if found else None


def _tags(tags: Optional[dict[str, Any]], key: str, name: str, number: str) -> dict[str, str]:
    own = {"trial_name": name, "trial_id": number, _KEY: key.replace("'", "")}
    return {**{str(tag): str(value) for tag, value in (tags or {}).items()}, **own}


class MLflowLoggerCallback(LoggerCallback):
    """A run of MLflow for each trial: its parameters, its metrics and how it ended.

    A search that is resumed, and a trial that is run again, continue their runs. tracking_uri,
    registry_uri, tracking_token: of the server; by default MLflow's own. save_artifact: the files
    of the trial's results directory, which is on the machine of the head.
    """

    def __init__(
        self,
        tracking_uri: Optional[str] = None,
        *,
        registry_uri: Optional[str] = None,
        experiment_name: Optional[str] = None,
        tags: Optional[dict[str, Any]] = None,
        tracking_token: Optional[str] = None,
        save_artifact: bool = False,
        log_params_on_trial_end: bool = False,
    ) -> None:
        self.tracking_uri, self.registry_uri = tracking_uri, registry_uri
        self.experiment_name, self.tags = experiment_name, tags
        self.tracking_token = tracking_token
        self.should_save_artifact = save_artifact
        self.log_params_on_trial_end = log_params_on_trial_end
        self._client: Any = None
        self._experiment = ""
        self._runs: dict[str, str] = {}

    def setup(self, *args: Any, **kwargs: Any) -> None:
        """Connects, and makes the experiment if it is not there."""
        if self.tracking_token:
            os.environ["MLFLOW_TRACKING_TOKEN"] = self.tracking_token
        tracking = _load().tracking
        self._client = tracking.MlflowClient(self.tracking_uri, self.registry_uri)
        name = self.experiment_name or os.environ.get("MLFLOW_EXPERIMENT_NAME") or "Default"
        self._experiment = _experiment(self._client, name)

    def log_trial_start(self, trial: Any) -> None:
        """Makes or finds the run of the trial."""
        run, is_new = self._run(trial)
        if not is_new:
            self._client.update_run(run, status="RUNNING")
        elif not self.log_params_on_trial_end:
            self._log_params(run, trial.config)

    def log_trial_result(self, iteration: int, trial: Any, result: dict[str, Any]) -> None:
        """Logs the numbers of a row."""
        entities = _load().entities
        now, step = int(time.time() * 1000), step_of(result)
        values = list(finite(metrics_of(result)).items())
        run, _ = self._run(trial)
        for first in range(0, len(values), _METRICS_MAX):
            part = values[first : first + _METRICS_MAX]
            metrics = [entities.Metric(_name(key), value, now, step) for key, value in part]
            self._client.log_batch(run, metrics=metrics)

    def log_trial_end(self, trial: Any, failed: bool = False) -> None:
        """Ends the run."""
        run, _ = self._run(trial)
        if self.log_params_on_trial_end:
            self._log_params(run, trial.config)
        if self.should_save_artifact and os.path.isdir(trial.local_path):
            self._client.log_artifacts(run, local_dir=trial.local_path)
        self._client.set_terminated(run, status="FAILED" if failed else "FINISHED")

    def _run(self, trial: Any) -> tuple[str, bool]:
        """The id of the trial's run, and whether it was made now."""
        key, is_new = trial_key(trial), False
        if key not in self._runs:
            known = _known_run(self._client, self._experiment, key)
            if known is None:
                is_new = True
                tags = _tags(self.tags, key, str(trial), str(trial.trial_id))
                made = self._client.create_run(self._experiment, tags=tags, run_name=str(trial))
                known = str(made.info.run_id)
            self._runs[key] = known
        return self._runs[key], is_new

    def _log_params(self, run: str, config: dict[str, Any]) -> None:
        entities = _load().entities
        params = [
            entities.Param(_name(key), value[:_PARAM_CHARACTERS_MAX])
            for key, value in params_of(config).items()
        ]
        for first in range(0, len(params), _PARAMS_MAX):
            self._client.log_batch(run, params=params[first : first + _PARAMS_MAX])

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_client": None}


def setup_mlflow(
    config: Optional[dict[str, Any]] = None,
    tracking_uri: Optional[str] = None,
    registry_uri: Optional[str] = None,
    experiment_id: Optional[str] = None,
    experiment_name: Optional[str] = None,
    tracking_token: Optional[str] = None,
    artifact_location: Optional[str] = None,
    run_name: Optional[str] = None,
    create_experiment_if_not_exists: bool = False,
    tags: Optional[dict[str, Any]] = None,
    rank_zero_only: bool = True,
) -> Any:
    """Starts a run of MLflow for this trial, and returns the module `mlflow`.

    An attempt after the first continues the run of the trial. On ranks above 0 it returns an object
    whose calls do nothing, unless rank_zero_only is False. config: parameters to log. Raises
    ValueError for an experiment that is not there, unless create_experiment_if_not_exists.
    """
    if rank_zero_only and not rank_is_zero():
        return Nothing()
    mlflow = _load()
    if tracking_token:
        os.environ["MLFLOW_TRACKING_TOKEN"] = tracking_token
    if tracking_uri:
        mlflow.set_tracking_uri(tracking_uri)
    if registry_uri:
        mlflow.set_registry_uri(registry_uri)
    client = mlflow.tracking.MlflowClient()
    context = _api.get_context()
    number = experiment_id or os.environ.get("MLFLOW_EXPERIMENT_ID")
    if not number:
        name = experiment_name or os.environ.get("MLFLOW_EXPERIMENT_NAME")
        known = client.get_experiment_by_name(name) if name else None
        if name and known is None and not create_experiment_if_not_exists:
            raise ValueError(
                f"MLflow has no experiment {name!r}; pass create_experiment_if_not_exists=True"
            )
        number = _experiment(client, name, artifact_location) if name else "0"
    key = own_key()
    run = _known_run(client, number, key) if is_repeated() else None
    mlflow.set_experiment(experiment_id=number)
    mine = _tags(tags, key, context.get_trial_name(), context.get_trial_id())
    title = run_name or context.get_trial_name() or None
    mlflow.start_run(run_id=run, run_name=None if run else title, tags=mine)
    if config and run is None:
        params = params_of(config)
        mlflow.log_params({_name(key): params[key][:_PARAM_CHARACTERS_MAX] for key in params})
    return mlflow


__all__ = ["MLflowLoggerCallback", "setup_mlflow"]
