"""The callbacks for MLflow and Weights & Biases with the libraries themselves, offline."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import mlflow
import pytest
import wandb
from rt.air.integrations.comet import CometLoggerCallback
from rt.air.integrations.mlflow import MLflowLoggerCallback, setup_mlflow
from rt.air.integrations.wandb import WandbLoggerCallback, setup_wandb
from test_trackers import ROW, in_trial, report, trial

__all__ = ["in_trial"]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # Newer releases ask for a database.
    return f"file:{tmp_path}/mlruns"


def test_runs_of_mlflow_have_parameters_metrics_and_files(store: str, tmp_path: Path) -> None:
    made = trial(0, tmp_path)
    Path(made.local_path).mkdir()
    Path(made.local_path, "result.json").write_text("{}")
    for restarted in range(2):
        callback = MLflowLoggerCallback(store, experiment_name="mine", save_artifact=True)
        callback.setup()
        callback.on_trial_start(iteration=1, trials=[], trial=made)
        report(callback, made, {**ROW, "training_iteration": restarted + 1})
    callback.on_trial_complete(iteration=1, trials=[], trial=made)
    client = mlflow.tracking.MlflowClient(store)
    experiment = client.get_experiment_by_name("mine")
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.data.params == {"lr": "0.1", "net/width": "8"} and run.info.status == "FINISHED"
    history = client.get_metric_history(run.info.run_id, "eval/acc")
    assert [(each.step, each.value) for each in history] == [(1, 0.9), (2, 0.9)]
    assert [each.path for each in client.list_artifacts(run.info.run_id)] == ["result.json"]


def test_a_trial_continues_its_run_of_mlflow(store: str, in_trial: pytest.MonkeyPatch) -> None:
    arguments: Any = {"experiment_name": "mine", "create_experiment_if_not_exists": True}
    for attempt in (1, 2):
        in_trial.setenv("RT_ATTEMPT", str(attempt))
        setup_mlflow({"lr": 0.1}, store, **arguments).log_metric("loss", attempt, step=attempt)
        mlflow.end_run()
    client = mlflow.tracking.MlflowClient(store)
    (run,) = client.search_runs([client.get_experiment_by_name("mine").experiment_id])
    history = client.get_metric_history(run.info.run_id, "loss")
    assert [each.value for each in history] == [1, 2] and run.data.tags["trial_name"] == "t_0"


@pytest.fixture
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, value in {
        "WANDB_MODE": "offline", "WANDB_DIR": str(tmp_path), "WANDB_SILENT": "true",
        "WANDB_CACHE_DIR": str(tmp_path / "cache"), "WANDB_DATA_DIR": str(tmp_path / "data"),
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    return tmp_path


def test_two_trials_have_runs_of_wandb_at_a_time(offline: Path) -> None:
    callback = WandbLoggerCallback("project", log_config=True)
    callback.setup()
    one, two = trial(0), trial(1)
    for each in (one, two):
        callback.on_trial_start(iteration=1, trials=[], trial=each)
    for each in (one, two, one):
        report(callback, each)
    runs = list(callback._runs.values())
    assert runs[0].id != runs[1].id and runs[0].config["net"] == {"width": 8}
    assert runs[0].summary["eval/acc"] == 0.9 and runs[0].config["hostname"] == "h"
    callback.on_trial_error(iteration=1, trials=[], trial=one)
    callback.on_experiment_end(trials=[one, two])
    folders = sorted(offline.glob("wandb/offline-run-*"))
    assert len(folders) == 2 and all(list(each.glob("*.wandb")) for each in folders)


def test_a_trial_has_a_run_of_wandb(offline: Path, in_trial: pytest.MonkeyPatch) -> None:
    ids = []
    for attempt in (1, 2):
        in_trial.setenv("RT_ATTEMPT", str(attempt))
        run = setup_wandb({"lr": 0.1}, project="p")
        run.log({"loss": 1})
        ids.append(run.id)
        wandb.finish()
    assert ids[0] == ids[1] and ids[0].startswith("t_0-")


def test_two_trials_have_experiments_of_comet_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COMET_DISABLE_AUTO_LOGGING", "1")
    callback = CometLoggerCallback(online=False, tags=["a"], offline_directory=str(tmp_path))
    callback.setup()
    one, two = trial(0), trial(1)
    for each in (one, two):
        callback.on_trial_start(iteration=1, trials=[], trial=each)
        report(callback, each)
    callback.on_trial_complete(iteration=1, trials=[], trial=one)
    callback.on_experiment_end(trials=[one, two])
    archives = list(tmp_path.glob("*.zip"))
    assert len(archives) == 2
    for archive in archives:
        with zipfile.ZipFile(archive) as file:
            assert b"eval/acc" in file.read("messages.json")
