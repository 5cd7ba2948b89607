"""A search as the driver sees it, against a fake bridge."""

from __future__ import annotations

import math
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import rt
from fake_worker import FakeWorker, wait_until
from fake_world import World, trial
from rt import RtError, _driver, tune
from rt._pack import PACKAGE_PARENT
from rt.tune.schedulers import ASHAScheduler


def objective(config: dict[str, Any]) -> dict[str, Any]:
    return {"acc": config["lr"]}


def test_the_specification_says_what_was_asked_for(world: World) -> None:
    tune.run(
        objective,
        name="digits",
        metric="acc",
        mode="max",
        stop={"training_iteration": 50},
        config={"lr": tune.loguniform(1e-4, 1e-1), "seed": tune.grid_search([1, 2])},
        resources_per_trial={"cpu": 2, "gpu": 0.5, "custom_resources": {"tpu": 1}},
        num_samples=3,
        scheduler=ASHAScheduler(max_t=27, grace_period=3, reduction_factor=3),
        max_concurrent_trials=4,
        max_failures=2,
        local_dir="/tmp/results",
        verbose=0,
    )
    spec = world.spec()
    assert spec["experiment"] == "digits" and spec["trainable"] == "objective"
    assert spec["space"] == {"lr": {"loguniform": [1e-4, 1e-1]}, "seed": {"grid": [1, 2]}}
    assert spec["scheduler"]["asha"]["max_t"] == 27 and spec["metric"] == "acc"
    assert spec["resources"] == {"cpu": 2, "gpu": 0.5, "tpu": 1}
    assert spec["stop"] == {"training_iteration": 50} and spec["num_samples"] == 3
    assert spec["inputs"] == [{"manifest": "m1", "env": "RT_TRAINABLE"}]
    assert spec["command"] == [sys.executable, "-m", "rt._trial"]
    assert spec["max_concurrent"] == 4 and spec["max_failures"] == 2
    assert spec["results_dir"] == "/tmp/results" and spec["cwd"] == os.getcwd()
    assert PACKAGE_PARENT in spec["env"]["PYTHONPATH"].split(":")
    assert not any(name.startswith("RT_") for name in spec["env"])


def test_keys_differ_by_ordinal_and_not_by_date(world: World) -> None:
    for _ in range(2):
        tune.Tuner(objective, run_config=tune.RunConfig(verbose=0)).fit()
    keys = [each["key"].split(":") for each in world.asked("experiment_create")]
    assert keys[0][0] == keys[1][0] and keys[0][2] == keys[1][2]
    assert int(keys[1][1]) == int(keys[0][1]) + 1


def test_init_chooses_the_cores_and_the_cluster(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    rt.init(num_cpus=3)
    with pytest.raises(RuntimeError, match="twice"):
        rt.init()
    rt.init(num_cpus=3, num_gpus=0, ignore_reinit_error=True, include_dashboard=False)
    assert rt.is_initialized()
    tune.run(objective, verbose=0)
    rt.shutdown()
    rt.shutdown()
    assert not rt.is_initialized()
    wait_until(lambda: bool(world.asked("end of input")))
    monkeypatch.setenv("RT_CLUSTER", "lab")
    tune.run(objective, verbose=0)
    assert [each["argv"] for each in world.asked("argv")] == [
        ["bridge", "--local", "--cpus", "3", "--gpus", "0"],
        ["-c", "lab", "bridge"],
    ]
    assert "cwd" not in world.spec()
    with pytest.raises(TypeError, match="numcpus"):
        rt.init(numcpus=3, ignore_reinit_error=True)


def test_the_best_is_chosen_by_metric_mode_and_scope(world: World) -> None:
    rows = {
        "1/0": [{"acc": a, "training_iteration": i + 1} for i, a in enumerate([0.9, 0.2, 0.3])],
        "1/1": [{"acc": a, "training_iteration": i + 1} for i, a in enumerate([0.1, 0.7, 0.6])],
        "1/2": [{"acc": "NaN", "training_iteration": 1}],
    }
    trials = [
        trial(i, metrics=rows[f"1/{i}"][-1], params={"lr": i}, reports=len(rows[f"1/{i}"]))
        for i in range(3)
    ]
    world.set(*trials, rows=rows)
    grid = tune.Tuner(objective, run_config=tune.RunConfig(verbose=0)).fit()
    assert len(grid) == 3 and grid.num_errors == 0 and grid.num_terminated == 3
    assert grid.get_best_result("acc", "max").config == {"lr": 1}
    assert grid.get_best_result("acc").config == {"lr": 1}
    assert grid.get_best_result("acc", "min").config == {"lr": 0}
    assert grid.get_best_result("acc", "max", scope="all").config == {"lr": 0}
    assert grid.get_best_result("acc", "max", scope="avg").config == {"lr": 0}
    assert grid[1].metrics["acc"] == 0.6 and grid[1].path == "/results/e/t_1_00001"
    assert len(grid[0].metrics_dataframe) == 3
    assert math.isnan(grid[2].metrics["acc"])
    with pytest.raises(ValueError, match=r"'loss'; reported: acc"):
        grid.get_best_result("loss", "min")
    table = grid.get_dataframe()
    assert len(table) == 3 and "config/lr" in (list(table) if hasattr(table, "iloc") else table[0])
    rt.shutdown()
    assert len(grid[1].metrics_dataframe) == 3


@pytest.mark.parametrize("old_head", [False, True])
def test_rows_that_come_in_several_answers_are_read_whole(world: World, old_head: bool) -> None:
    rows = [{"acc": i / 10, "training_iteration": i + 1} for i in range(5)]
    if not old_head:  # What rows share is no place to go on from.
        rows = [{**row, "training_iteration": 1} for row in rows]
    world.set(trial(0, metrics=rows[-1], reports=5), rows={"1/0": rows}, old_head=old_head)
    grid = tune.Tuner(objective, run_config=tune.RunConfig(verbose=0)).fit()
    frame = grid[0].metrics_dataframe
    read = frame["acc"].tolist() if hasattr(frame, "iloc") else [row["acc"] for row in frame]
    assert read == [0.0, 0.1, 0.2, 0.3, 0.4]


def test_run_without_a_mode_means_the_largest(world: World) -> None:
    world.set(
        trial(0, metrics={"mean_accuracy": 0.2}, params={"lr": 1}),
        trial(1, metrics={"mean_accuracy": 0.9}, params={"lr": 2}),
    )
    analysis = tune.run(objective, verbose=0)
    assert analysis.get_best_config(metric="mean_accuracy") == {"lr": 2}
    assert analysis.get_best_trial("mean_accuracy", "min").config == {"lr": 1}
    assert len(analysis.dataframe()) == 2


def test_a_failed_trial_is_raised_by_run_and_kept_by_fit(world: World) -> None:
    error = {"class": "KeyError", "message": "'lost'", "traceback": "Traceback\nKeyError: 'lost'"}
    world.set(trial(0, state="FAILED"), details={"1/0": {"error": error}})
    with pytest.raises(tune.TuneError, match="did not complete") as caught:
        tune.run(objective, verbose=0)
    assert "KeyError: 'lost'" in str(caught.value.__cause__)
    grid = tune.Tuner(objective, run_config=tune.RunConfig(verbose=0)).fit()
    assert grid.num_errors == 1 and "KeyError" in str(grid.errors[0])


def test_a_finished_trial_without_the_metric_is_an_error(world: World) -> None:
    with pytest.raises(ValueError, match=r"without the metric 'loss'; reported: acc"):
        tune.run(objective, metric="loss", mode="min", verbose=0)


def test_the_heads_refusals_are_value_errors(world: World) -> None:
    refused = {"code": "INVALID_ARGUMENT", "message": "asks for 4 gpus; the largest node has 2"}
    world.set(fail={"experiment_create": refused})
    with pytest.raises(ValueError, match="the largest node has 2"):
        tune.run(objective, resources_per_trial={"gpu": 4}, verbose=0)
    world.set(trial(0, state="STOPPED", started_at=None),
              experiment={"state": "FAILED", "reason": "asks for 4 gpus"})  # fmt: skip
    _driver.close()
    with pytest.raises(ValueError, match="asks for 4 gpus"):
        tune.run(objective, resources_per_trial={"gpu": 4}, verbose=0)


def test_checkpoints_are_fetched_when_asked_for(world: World) -> None:
    kept = [
        {"id": i, "step": i, "state": "COMMITTED", "manifest": f"c{i}", "metrics": {"acc": -i}}
        for i in (1, 2)
    ]
    world.set(trial(0, metrics={"acc": 1}), details={"1/0": {"checkpoints": kept}})
    result = tune.Tuner(objective, run_config=tune.RunConfig(verbose=0)).fit()[0]
    assert result.checkpoint is not None
    with result.checkpoint.as_directory() as path:
        assert Path(path, "weights").read_text() == "c2"
    best = result.get_best_checkpoint("acc", "max")
    assert best is not None and Path(best.path, "weights").read_text() == "c1"


def test_a_checkpoint_that_a_node_holds_is_waited_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = [{"id": 1, "step": 1, "state": "COMMITTED", "manifest": "c1", "metrics": {"acc": 1}}]

    def read(*durability: str) -> str:
        _driver.close()  # Each with a world of its own.
        details = {"1/0": {"checkpoints": kept}}
        world.set(trial(0, metrics={"acc": 1}), details=details, durability=durability)
        result = tune.Tuner(objective, run_config=tune.RunConfig(verbose=0)).fit()[0]
        assert result.checkpoint is not None
        return Path(result.checkpoint.path, "weights").read_text()

    assert read("LOCAL", "LOCAL", "PEER", "DURABLE") == "c1"
    assert len(world.asked("trial_get")) == 4
    with pytest.raises(RtError, match="only node 7 had this checkpoint, and is lost"):
        read("LOCAL", "LOST")
    monkeypatch.setattr("rt.tune._trials.STORED_WITHIN_S", 0.0)
    with pytest.raises(RtError, match="node 7 brings it there"):
        read("LOCAL")
    assert len(world.asked("blob_pull_dir")) == 1


def test_values_come_back_as_themselves(world: World) -> None:
    world.set(trial(0, metrics={"acc": 1}, params={"f": "<built-in function len>", "k": 1}))
    space = {"f": tune.choice([len, sum]), "k": 1}
    tuner = tune.Tuner(objective, param_space=space, run_config=tune.RunConfig(verbose=0))
    assert tuner.fit().get_best_result("acc").config == {"f": len, "k": 1}


def test_a_callback_that_fails_at_its_setup_ends_the_search(world: World) -> None:
    class Fails(tune.Callback):
        def setup(self, **info: Any) -> None:
            raise LookupError("no such tracker")

    world.set(trial(0, metrics={"acc": 1}), endless=True)
    run_config = tune.RunConfig(verbose=0, callbacks=[Fails()])
    with pytest.raises(LookupError, match="no such tracker"):
        tune.Tuner(objective, run_config=run_config).fit()
    (stop,) = world.asked("experiment_stop")
    assert re.fullmatch(r"LookupError in Fails.setup \(test_driver.py:\d+\)", stop["reason"])


SCRIPT = """
from rt import tune
def objective(config):
    return {"acc": 1}
grid = tune.Tuner(objective).fit()
print("ended with", len(grid))
"""


def start_script(world: World, tmp_path: Path, **more: Any) -> subprocess.Popen[str]:
    world.set(trial(0, metrics={"acc": 1}), endless=True, **more)
    (tmp_path / "script.py").write_text(SCRIPT)
    env = {**os.environ, **world.env, "PYTHONPATH": PACKAGE_PARENT}
    child = subprocess.Popen(
        [sys.executable, str(tmp_path / "script.py")],
        env=env,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    wait_until(lambda: len(world.asked("experiment_wait")) > 1, 30)
    child.send_signal(signal.SIGINT)
    wait_until(lambda: bool(world.asked("experiment_stop")))
    return child


def test_one_ctrl_c_stops_gracefully(world: World, tmp_path: Path) -> None:
    child = start_script(world, tmp_path)
    out, errors = child.communicate(timeout=30)
    assert child.returncode == 0 and "ended with 1" in out
    assert "Ctrl-C again stops at once" in errors and "Tuner.restore" in errors
    assert world.asked("end of input")


def test_a_second_ctrl_c_stops_at_once(world: World, tmp_path: Path) -> None:
    child = start_script(world, tmp_path, stubborn=True)
    child.send_signal(signal.SIGINT)
    out, errors = child.communicate(timeout=30)
    assert child.returncode != 0 and out == "" and "KeyboardInterrupt" in errors
    assert world.asked("end of input")


def test_a_bridge_that_cannot_load_its_libraries_says_what_to_do(world: World) -> None:
    world.binary.write_text("#!/bin/sh\nexit 127\n")
    with pytest.raises(rt.RtError, match=r"install-deps\.sh"):
        tune.run(objective, config={"lr": 1})


def test_a_cluster_that_is_unknown_says_who_named_it_and_who_knows(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.set(fail={"hello": {"code": "UNAVAILABLE", "message": "unknown cluster 'lob'"}})
    monkeypatch.setenv("RT_CLUSTER", "lob")
    with pytest.raises(rt.RtError, match=r"'lob' \(RT_CLUSTER names it; rt context list shows"):
        rt.cluster_resources()
    rt.init(address="lob")
    with pytest.raises(rt.RtError, match=r"'lob' \(rt\.init\(address=\.\.\.\) names it; rt con"):
        rt.cluster_resources()
    known = {"code": "NOT_FOUND", "message": "unknown cluster 'lob'", "hint": "did you mean 'lab'?"}
    world.set(fail={"hello": known})
    with pytest.raises(rt.RtError, match=r"'lob' \(did you mean 'lab'\?\)"):
        rt.cluster_resources()


def test_programs_that_are_not_where_rt_bin_says_are_said_in_a_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RT_BIN", str(tmp_path / "gone"))
    with pytest.raises(rt.RtError, match=r"or directory \(RT_BIN names it") as caught:
        rt.cluster_resources()
    assert caught.value.__cause__ is None


def test_a_killed_driver_leaves_no_bridge(world: World, tmp_path: Path) -> None:
    child = start_script(world, tmp_path, stubborn=True)
    child.kill()
    child.communicate(timeout=30)
    wait_until(lambda: bool(world.asked("end of input")))


def test_inside_a_job_the_workers_socket_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = FakeWorker(str(tmp_path))
    for name, value in worker.env(RT_JOB_ID="7").items():
        monkeypatch.setenv(name, value)
    driver = _driver.get()
    assert driver.inside_job and driver.id == "7"
    assert driver.call("experiment_stop", experiment_id=3) == {"n": 1}
    assert worker.calls == [{"op": "experiment_stop", "experiment_id": 3}]


def test_a_driver_in_a_job_waits_for_a_head_that_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = FakeWorker(str(tmp_path))
    for name, value in worker.env(RT_JOB_ID="7").items():
        monkeypatch.setenv(name, value)
    worker.refusals = ["UNAVAILABLE", "RESOURCE_EXHAUSTED"]
    assert _driver.get().call("experiment_get", experiment_id=3) == {"n": 1}
    assert len(worker.calls) == 3
    worker.refusals = ["NOT_FOUND"]
    with pytest.raises(rt.RtError, match="not now"):
        _driver.get().call("experiment_get", experiment_id=4)
    assert len(worker.calls) == 4


def test_the_resources_of_an_init_end_with_its_shutdown() -> None:
    rt.init(num_cpus=0, resources={"license": 1})
    assert _driver.has_no_cpus()
    rt.init(ignore_reinit_error=True)
    assert _driver.has_no_cpus()
    rt.shutdown()
    rt.init()
    assert _driver.settings.cpus is None and _driver.settings.resources is None
    rt.shutdown()
