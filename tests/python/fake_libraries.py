"""The recorded interface of libraries that the quick tests do not install.

Each class has what the callbacks of rt use, with the signatures of mlflow-skinny 3.17, wandb
0.31, comet_ml 3.58 and aim 3.29. tests/python/libraries.sh runs the callbacks with the libraries
themselves, except Aim's.
"""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any, Optional

import pytest


class Client:
    """mlflow.tracking.MlflowClient, with a store in memory that all clients share."""

    experiments: dict[str, str] = {}
    runs: dict[str, dict[str, Any]] = {}

    def __init__(
        self, tracking_uri: Optional[str] = None, registry_uri: Optional[str] = None
    ) -> None:
        self.uri = tracking_uri

    def get_experiment_by_name(self, name: str) -> Any:
        known = self.experiments.get(name)
        return None if known is None else SimpleNamespace(experiment_id=known)

    def create_experiment(
        self, name: str, artifact_location: Optional[str] = None, tags: Any = None
    ) -> str:
        self.experiments[name] = str(len(self.experiments) + 1)
        return self.experiments[name]

    def create_run(
        self, experiment_id: str, start_time: Any = None, tags: Any = None, run_name: Any = None
    ) -> Any:
        number = f"run{len(self.runs)}"
        self.runs[number] = {
            "experiment": experiment_id, "tags": dict(tags), "name": run_name, "status": "RUNNING",
            "params": {}, "metrics": [],
        }  # fmt: skip
        return SimpleNamespace(info=SimpleNamespace(run_id=number))

    def search_runs(
        self, experiment_ids: list[str], filter_string: str = "", run_view_type: int = 1,
        max_results: int = 1000,
    ) -> list[Any]:  # fmt: skip
        tag, _, value = filter_string.removeprefix("tags.`").partition("` = ")
        return [
            SimpleNamespace(info=SimpleNamespace(run_id=number))
            for number, run in self.runs.items()
            if run["experiment"] in experiment_ids and run["tags"].get(tag) == value.strip("'")
        ][:max_results]

    def log_batch(
        self, run_id: str, metrics: Any = (), params: Any = (), tags: Any = (),
        synchronous: Any = None,
    ) -> None:  # fmt: skip
        assert len(metrics) <= 1000 and len(params) <= 100
        self.runs[run_id]["metrics"] += [(each.key, each.value, each.step) for each in metrics]
        self.runs[run_id]["params"].update({each.key: each.value for each in params})

    def log_artifacts(
        self, run_id: str, local_dir: str, artifact_path: Optional[str] = None
    ) -> None:
        self.runs[run_id]["artifacts"] = local_dir

    def update_run(
        self, run_id: str, status: Optional[str] = None, name: Optional[str] = None
    ) -> None:
        self.runs[run_id]["status"] = status

    def set_terminated(
        self, run_id: str, status: Optional[str] = None, end_time: Optional[int] = None
    ) -> None:
        self.runs[run_id]["status"] = status


def fake_mlflow(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module `mlflow`; its calls are in .calls."""
    module: Any = ModuleType("mlflow")
    Client.experiments, Client.runs = {}, {}
    module.calls = []
    module.tracking = SimpleNamespace(MlflowClient=Client)
    module.entities = SimpleNamespace(
        Metric=lambda key, value, timestamp, step: SimpleNamespace(key=key, value=value, step=step),
        Param=lambda key, value: SimpleNamespace(key=key, value=value),
    )

    def start_run(run_id: Any = None, experiment_id: Any = None, run_name: Any = None,
                  nested: bool = False, tags: Any = None) -> None:  # fmt: skip
        if run_id is None:
            run_id = Client().create_run(module.calls[-1][1], None, tags, run_name).info.run_id
        module.calls.append(("start_run", run_id, run_name))

    def set_experiment(experiment_name: Any = None, experiment_id: Any = None) -> None:
        module.calls.append(("set_experiment", experiment_id))

    module.start_run, module.set_experiment = start_run, set_experiment
    module.set_tracking_uri = lambda uri: module.calls.append(("set_tracking_uri", uri))
    module.log_params = lambda params: module.calls.append(("log_params", params))
    monkeypatch.setitem(sys.modules, "mlflow", module)
    return module


class Run:
    """wandb.Run."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options
        self.rows: list[dict[str, Any]] = []
        self.artifacts: list[Any] = []
        self.exit_code: Optional[int] = None
        self.facts: dict[str, Any] = {}
        self.config = SimpleNamespace(
            update=lambda given, allow_val_change=None: self.facts.update(given)
        )

    def log(self, data: dict[str, Any], step: Optional[int] = None, commit: Any = None) -> None:
        self.rows.append(data)

    def log_artifact(self, artifact_or_path: Any, name: Any = None, type: Any = None) -> None:
        self.artifacts.append(artifact_or_path)

    def finish(self, exit_code: Optional[int] = None, quiet: Any = None) -> None:
        self.exit_code = exit_code or 0


class Artifact:
    """wandb.Artifact."""

    def __init__(self, name: str, type: str) -> None:
        self.name, self.type = name, type

    def add_dir(self, local_path: str) -> None:
        self.path = local_path


def fake_wandb(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module `wandb`; its runs are in .runs."""
    module: Any = ModuleType("wandb")
    module.runs = []

    def init(
        entity: Any = None, project: Any = None, dir: Any = None, id: Any = None, name: Any = None,
        notes: Any = None, tags: Any = None, config: Any = None, allow_val_change: Any = None,
        group: Any = None, job_type: Any = None, mode: Any = None, reinit: Any = None,
        resume: Any = None, settings: Any = None,
    ) -> Run:  # fmt: skip
        module.runs.append(Run({key: value for key, value in locals().items() if key != "module"}))
        return module.runs[-1]

    module.init, module.Artifact = init, Artifact
    monkeypatch.setitem(sys.modules, "wandb", module)
    return module


class CometExperiment:
    """comet_ml.Experiment and comet_ml.OfflineExperiment."""

    made: list[CometExperiment] = []

    def __init__(
        self, project_name: Any = None, log_code: bool = True, log_graph: bool = True,
        auto_param_logging: bool = True, auto_metric_logging: bool = True, parse_args: bool = True,
        auto_output_logging: Any = "simple", log_env_details: bool = True,
        log_git_metadata: bool = True, log_git_patch: bool = True,
        display_summary_level: Any = None,
    ) -> None:  # fmt: skip
        self.project = project_name
        self.told: dict[str, Any] = {}
        self.metrics: list[Any] = []
        self.ended = False
        self.made.append(self)

    def set_name(self, name: str) -> None:
        self.told["name"] = name

    def add_tags(self, tags: list[str]) -> None:
        self.told["tags"] = tags

    def log_parameters(self, parameters: dict[str, Any], prefix: Any = None) -> None:
        self.told["parameters"] = parameters

    def log_metrics(self, dic: dict[str, Any], prefix: Any = None, step: Any = None) -> None:
        self.metrics.append((step, dic))

    def log_others(self, dictionary: dict[str, Any]) -> None:
        self.told.update(dictionary)

    def log_other(self, key: str, value: Any) -> None:
        self.told[key] = value

    def log_model(self, name: str, file_or_folder: str) -> None:
        self.told["model"] = (name, file_or_folder)

    def end(self) -> None:
        self.ended = True


def fake_comet(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module `comet_ml`."""
    module: Any = ModuleType("comet_ml")
    CometExperiment.made = []
    module.OfflineExperiment = CometExperiment
    monkeypatch.setitem(sys.modules, "comet_ml", module)
    return module


class AimRun(dict):  # type: ignore[type-arg]
    """aim.Run."""

    made: list[AimRun] = []

    def __init__(
        self, run_hash: Any = None, *, repo: Any = None, experiment: Any = None,
        system_tracking_interval: Any = 10, log_system_params: bool = False,
        capture_terminal_logs: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.repo, self.experiment = repo, experiment
        self.tracked: list[Any] = []
        self.closed = False
        self.made.append(self)

    def track(
        self, value: Any, name: Any = None, step: Any = None, epoch: Any = None, *,
        context: Any = None,
    ) -> None:  # fmt: skip
        self.tracked.append((name, value, step))

    def close(self) -> None:
        self.closed = True


def fake_aim(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module `aim`."""
    module: Any = ModuleType("aim")
    AimRun.made = []
    module.Run = AimRun
    monkeypatch.setitem(sys.modules, "aim", module)
    return module
