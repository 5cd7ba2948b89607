"""The callbacks for MLflow and Weights & Biases, against their recorded interface."""

from __future__ import annotations

import math
import os
import pickle
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
from fake_libraries import (
    AimRun,
    Client,
    CometExperiment,
    fake_aim,
    fake_comet,
    fake_mlflow,
    fake_wandb,
)
from rt._checkpoint import Checkpoint
from rt.air.integrations._rows import Nothing
from rt.air.integrations.aim import AimLoggerCallback
from rt.air.integrations.comet import CometLoggerCallback
from rt.air.integrations.mlflow import MLflowLoggerCallback, setup_mlflow
from rt.air.integrations.wandb import WandbLoggerCallback, setup_wandb
from rt.tune._live import LiveTrial

ROW = {
    "loss": 0.5, "eval": {"acc": 0.9, "bad": math.nan}, "training_iteration": 3, "note": "text",
    "done": False, "config": {"lr": 0.1}, "trial_id": "1/0", "hostname": "h", "a@b": 1,
}  # fmt: skip


def trial(number: int = 0, folder: Any = "/results/search") -> LiveTrial:
    made = LiveTrial(f"1/{number}", number, {"lr": 0.1, "net": {"width": 8}}, f"t_{number}")
    made.local_path = f"{folder}/t_{number}"
    return made


def report(callback: Any, made: LiveTrial, row: Any = None) -> None:
    callback.on_trial_result(iteration=1, trials=[made], trial=made, result=dict(row or ROW))


def test_each_trial_has_a_run_of_mlflow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake_mlflow(monkeypatch)
    callback = MLflowLoggerCallback(
        "uri", experiment_name="mine", tags={"by": "me"}, save_artifact=True
    )
    callback.setup()
    first, second = trial(0, tmp_path), trial(1, tmp_path)
    os.mkdir(first.local_path)
    for each in (first, second):
        callback.on_trial_start(iteration=1, trials=[], trial=each)
        report(callback, each)
    callback.on_trial_complete(iteration=1, trials=[], trial=first)
    callback.on_trial_error(iteration=1, trials=[], trial=second)
    one, two = Client.runs.values()
    assert one["params"] == {"lr": "0.1", "net/width": "8"} and one["name"] == "t_0"
    assert one["tags"]["by"] == "me" and one["tags"]["trial_name"] == "t_0"
    assert ("loss", 0.5, 3) in one["metrics"] and ("eval/acc", 0.9, 3) in one["metrics"]
    assert ("a_b", 1.0, 3) in one["metrics"]  # A key that MLflow accepts.
    assert not {"note", "eval/bad", "config/lr", "done"} & {key for key, _, _ in one["metrics"]}
    assert one["artifacts"] == first.local_path and "artifacts" not in two
    assert (one["status"], two["status"]) == ("FINISHED", "FAILED")


def test_a_search_that_is_resumed_continues_its_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_mlflow(monkeypatch)
    wandb = fake_wandb(monkeypatch)
    for _ in range(2):  # The second time in a new script.
        callbacks = MLflowLoggerCallback(log_params_on_trial_end=True), WandbLoggerCallback("p")
        for callback in callbacks:
            callback.setup()
            callback.on_trial_start(iteration=1, trials=[], trial=trial())
            report(callback, trial())
    assert len(Client.runs) == 1 and len(Client.runs["run0"]["metrics"]) == 8
    first, second = (run.options for run in wandb.runs)
    assert first["id"] == second["id"] and first["resume"] == second["resume"] == "allow"
    again = pickle.loads(cloudpickle.dumps(callbacks[0]))
    again.setup()
    again.on_trial_complete(iteration=2, trials=[], trial=trial())
    assert Client.runs["run0"]["status"] == "FINISHED"
    assert Client.runs["run0"]["params"] == {"lr": "0.1", "net/width": "8"}


def test_each_trial_has_a_run_of_wandb(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wandb = fake_wandb(monkeypatch)
    key = tmp_path / "key"
    key.write_text("secret\n")
    monkeypatch.setenv("WANDB_API_KEY", "")
    callback = WandbLoggerCallback(
        "project", api_key_file=str(key), excludes=["eval/bad"], log_config=True, tags=["a"],
        upload_checkpoints=True,
    )  # fmt: skip
    callback.setup()
    assert os.environ["WANDB_API_KEY"] == "secret"
    made, other = trial(0), trial(1)
    callback.on_trial_start(iteration=1, trials=[], trial=made)
    callback.on_trial_start(iteration=1, trials=[], trial=other)
    report(callback, made)
    made.checkpoint = Checkpoint(str(tmp_path))
    callback.on_trial_save(iteration=1, trials=[], trial=made)
    callback.on_trial_error(iteration=1, trials=[], trial=made)
    callback.on_experiment_end(trials=[made, other])
    run, second = wandb.runs
    assert run.options["id"] != second.options["id"]
    assert run.options["project"] == "project" and run.options["group"] == "search"
    assert run.options["config"] == {"lr": 0.1, "net": {"width": 8}}
    assert run.options["reinit"] == "create_new" and run.options["tags"] == ["a"]
    assert run.rows == [
        {"loss": 0.5, "eval/acc": 0.9, "training_iteration": 3.0, "a@b": 1.0, "config/lr": 0.1,
         "config/net/width": 8}
    ]  # fmt: skip
    assert run.facts == {"trial_id": "1/0", "hostname": "h"}
    assert run.artifacts[0].name == "checkpoint_t_0" and run.artifacts[0].path == str(tmp_path)
    assert (run.exit_code, second.exit_code) == (1, 0)


def test_each_trial_has_an_experiment_of_comet(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake_comet(monkeypatch)
    callback = CometLoggerCallback(
        online=False, tags=["a"], save_checkpoints=True, project_name="p"
    )
    callback.setup()
    made, other = trial(0), trial(1)
    for each in (made, other):
        callback.on_trial_start(iteration=1, trials=[], trial=each)
    report(callback, made)
    made.checkpoint = Checkpoint(str(tmp_path))
    callback.on_trial_save(iteration=1, trials=[], trial=made)
    callback.on_trial_error(iteration=1, trials=[], trial=made)
    callback.on_experiment_end(trials=[made, other])
    first, second = CometExperiment.made
    assert first.project == "p" and first.ended and second.ended
    assert first.told == {
        "name": "t_0", "tags": ["a"], "parameters": {"lr": "0.1", "net/width": "8"},
        "trial_id": "1/0", "hostname": "h", "model": ("checkpoint_t_0", str(tmp_path)),
        "failed": True,
    }  # fmt: skip
    ((step, metrics),) = first.metrics
    assert step == 3 and metrics["eval/acc"] == 0.9 and "hostname" not in metrics


def test_each_trial_has_a_run_of_aim(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_aim(monkeypatch)
    callback = AimLoggerCallback(metrics=["loss", "eval/acc"], log_system_params=True)
    callback.setup()
    made, other = trial(0), trial(1)
    for each in (made, other):
        callback.on_trial_start(iteration=1, trials=[], trial=each)
    report(callback, made)
    callback.on_trial_complete(iteration=1, trials=[], trial=made)
    callback.on_experiment_end(trials=[made, other])
    first, second = AimRun.made
    assert (first.repo, first.experiment) == ("/results/search", "search")
    assert first.tracked == [("loss", 0.5, 3), ("eval/acc", 0.9, 3)]
    assert first["hparams"] == {"lr": 0.1, "net": {"width": 8}} and first["failed"] is False
    assert first.closed and second.closed and "failed" not in second


def test_mistakes_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ImportError, match="pip install wandb"):
        monkeypatch.setitem(__import__("sys").modules, "wandb", None)
        WandbLoggerCallback("p").setup()
    fake_wandb(monkeypatch)
    with pytest.raises(ValueError, match="no project of Weights & Biases"):
        WandbLoggerCallback().setup()
    with pytest.raises(ValueError, match="api_key or api_key_file"):
        WandbLoggerCallback("p", api_key="a", api_key_file="b").setup()
    with pytest.raises(ValueError, match="setup_wandb"):
        WandbLoggerCallback("p", image_kwargs={"a": 1})
    fake_mlflow(monkeypatch)
    with pytest.raises(ValueError, match="has no experiment 'mine'; pass create_experiment"):
        setup_mlflow(experiment_name="mine")


@pytest.fixture
def in_trial(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name, value in {
        "RT_TRIAL_ID": "1/0", "RT_TRIAL_NAME": "t_0", "RT_EXPERIMENT_NAME": "e", "RT_ATTEMPT": "1",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    return monkeypatch


def test_a_trial_that_is_run_again_continues_its_run_of_mlflow(
    in_trial: pytest.MonkeyPatch,
) -> None:
    mlflow = fake_mlflow(in_trial)
    arguments: Any = {"experiment_name": "mine", "create_experiment_if_not_exists": True}
    assert setup_mlflow({"lr": 0.1}, "uri", **arguments) is mlflow
    assert mlflow.calls == [
        ("set_tracking_uri", "uri"), ("set_experiment", "1"), ("start_run", "run0", "t_0"),
        ("log_params", {"lr": "0.1"}),
    ]  # fmt: skip
    in_trial.setenv("RT_ATTEMPT", "2")
    setup_mlflow({"lr": 0.1}, **arguments)
    assert mlflow.calls[-1] == ("start_run", "run0", None) and len(Client.runs) == 1


def test_a_trial_that_is_run_again_continues_its_run_of_wandb(
    in_trial: pytest.MonkeyPatch,
) -> None:
    wandb = fake_wandb(in_trial)
    in_trial.setenv("WANDB_PROJECT_NAME", "p")
    setup_wandb({"lr": 0.1})
    in_trial.setenv("RT_ATTEMPT", "2")
    setup_wandb({"lr": 0.1}, name="mine")
    first, second = (run.options for run in wandb.runs)
    assert first["id"] == second["id"] and (first["resume"], second["resume"]) == (None, "allow")
    assert (first["name"], second["name"], first["group"]) == ("t_0", "mine", "e")


def test_ranks_above_0_do_nothing(in_trial: pytest.MonkeyPatch) -> None:
    wandb = fake_wandb(in_trial)
    in_trial.setenv("RANK", "1")
    for made in (setup_wandb(project="p"), setup_mlflow()):
        assert isinstance(made, Nothing)
        made.log({"a": 1})
        with made.start_run() as run:
            run.anything.log()
    assert wandb.runs == []
    setup_wandb(project="p", rank_zero_only=False)
    assert len(wandb.runs) == 1
