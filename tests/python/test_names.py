"""What scripts written for Ray import, and the smaller promises of those names."""

from __future__ import annotations

import importlib
import re
import sys
import traceback
from pathlib import Path
from typing import Any

import pytest
from fake_worker import FakeWorker
from rt import _errors, _session, tune
from rt._attempt import run_function
from rt._logs import save_logs
from rt._session import Session
from rt.train import ScalingConfig
from rt.tune._experiment import Request, build_spec


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("rt", "init shutdown is_initialized cluster_resources available_resources tune train air"),
        ("rt.air", "session Checkpoint CheckpointConfig FailureConfig RunConfig Result"),
        ("rt.air", "ScalingConfig"),
        ("rt.air.config", "CheckpointConfig FailureConfig RunConfig"),
        ("rt.air.session", "report get_checkpoint get_trial_id get_trial_name get_world_rank"),
        ("rt.cloudpickle", "dump dumps load loads"),
        ("rt.train", "report get_checkpoint get_context Checkpoint RunConfig FailureConfig"),
        ("rt.tune", "CLIReporter JupyterNotebookReporter PlacementGroupFactory checkpoint_dir"),
        ("rt.tune.analysis", "ExperimentAnalysis"),
        ("rt.tune.analysis.experiment_analysis", "ExperimentAnalysis"),
        ("rt.tune.execution.placement_groups", "PlacementGroupFactory"),
        ("rt.tune.experiment", "Experiment Trial"),
        ("rt.tune.experiment.trial", "Trial"),
        ("rt.tune.logger", "DEFAULT_LOGGERS JsonLoggerCallback CSVLoggerCallback pretty_print"),
        ("rt.tune.logger", "LoggerCallback TBXLoggerCallback"),
        ("rt.tune.registry", "register_trainable"),
        ("rt.tune.result_grid", "ResultGrid"),
        ("rt.tune.schedulers", "ASHAScheduler AsyncHyperBandScheduler FIFOScheduler"),
        ("rt.tune.schedulers.async_hyperband", "ASHAScheduler"),
        ("rt.tune.search", "BasicVariantGenerator ConcurrencyLimiter"),
        ("rt.tune.search.basic_variant", "BasicVariantGenerator"),
        ("rt.tune.search.sample", "uniform choice randint"),
        ("rt.tune.suggest", "ConcurrencyLimiter"),
        ("rt.tune.trainable", "Trainable with_parameters"),
        ("rt.tune.trainable.trainable", "Trainable"),
        ("rt.tune.trainable.util", "with_parameters"),
        ("rt.tune.tuner", "Tuner"),
    ],
)
def test_a_module_path_of_ray_has_its_names(path: str, names: str) -> None:
    module = importlib.import_module(path)
    assert [name for name in names.split() if not hasattr(module, name)] == []


def spec_resources(resources: object) -> object:
    request = Request(trainable=tune.with_resources(lambda config: None, resources))
    return build_spec(request)[0]["resources"]


def test_a_stop_rule_may_be_about_a_metric_that_becomes_true() -> None:
    stop = {"done": True, "training_iteration": 9}
    request = Request(trainable=lambda config: None, run=tune.RunConfig(stop=stop))
    assert build_spec(request)[0]["stop"] == {"done": 1, "training_iteration": 9}
    request.run.stop = {"done": False}
    with pytest.raises(ValueError, match="must be a number, not False"):
        build_spec(request)


def test_bundles_are_held_together_and_the_first_runs_the_trainable() -> None:
    bundles = tune.PlacementGroupFactory([{"CPU": 1}, {"CPU": 2, "GPU": 1}], strategy="SPREAD")
    assert bundles.required_resources == {"CPU": 3, "GPU": 1}
    assert spec_resources(bundles) == {
        "bundles": [{"cpu": 1}, {"cpu": 2, "gpu": 1}],
        "strategy": "SPREAD",
        "ranks": 1,
    }
    with pytest.raises(ValueError, match="strategy 'HEAP'"):
        tune.PlacementGroupFactory([{"CPU": 1}], strategy="HEAP")
    with pytest.raises(ValueError, match="between 1 and 1"):
        tune.PlacementGroupFactory([{"CPU": 1}], ranks=2)


def test_a_scaling_config_is_a_rank_per_worker() -> None:
    two = ScalingConfig(num_workers=2, use_gpu=True, resources_per_worker={"CPU": 2})
    assert spec_resources(two) == {
        "bundles": [{"cpu": 2, "gpu": 1}, {"cpu": 2, "gpu": 1}],
        "strategy": "PACK",
        "ranks": 2,
    }
    plain = ScalingConfig(num_workers=2).to_placement_group_factory()
    assert (plain.bundles, plain.ranks) == ([{"CPU": 1}, {"CPU": 1}], 2)
    with pytest.raises(ValueError, match="use_gpu is False"):
        ScalingConfig(resources_per_worker={"GPU": 1})
    with pytest.raises(ValueError, match="a dict or a PlacementGroupFactory, not list"):
        tune.with_resources(lambda config: None, [{"cpu": 1}])


def test_a_filled_checkpoint_dir_goes_with_the_next_report(tmp_path: Path) -> None:
    worker = FakeWorker(str(tmp_path))
    session = _session.current = Session(worker.path, worker.token, deadline_s=10)
    with tune.checkpoint_dir(step=1) as path:
        Path(path, "weights").write_text("1")
    tune.report(loss=1)
    tune.report(loss=2)
    session.barrier()
    assert [report.get("checkpoint") for report in worker.reports] == [path, None]
    assert not Path(path).exists()


def test_an_older_function_is_given_the_checkpoint_dir(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []

    def older(config: dict[str, Any], checkpoint_dir: Any = None, data: Any = None) -> None:
        seen.append((checkpoint_dir, data))

    run_function(older, {})
    monkeypatch.setenv("RT_CHECKPOINT_DIR", str(tmp_path))
    run_function(tune.with_parameters(older, data=3), {})
    assert seen == [(None, None), (str(tmp_path), 3)]


def test_an_uncaught_refusal_is_shown_without_our_frames(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    monkeypatch.setattr(_errors, "_hides_frames", False)
    _errors.hide_own_frames()
    shown = []
    for call in (lambda: tune.uniform(2, 1), lambda: int("x")):
        try:
            call()
        except ValueError as error:
            sys.excepthook(type(error), error, error.__traceback__)
            shown.append(capsys.readouterr().err)
            traceback.clear_frames(error.__traceback__)
    assert "_space.py" not in shown[0] and "must be below" in shown[0]
    assert "test_names.py" in shown[0] and "test_names.py" in shown[1]


def test_logs_of_all_attempts_become_one_file(tmp_path: Path) -> None:
    for place, text in (
        ("worker-1/logs/t1-0.a10.r0/stdout.000000000000.log", "d"),
        ("worker-1/logs/t1-0.a2.r0/stdout.000000000000.log", "a"),
        ("worker-1/logs/t1-0.a2.r0/stdout.000000000001.log", "b"),
        ("worker-1/attempts/t1-0.a3.r0/stdout.000000000000.log", "c"),
        ("worker-1/logs/t1-0.a2.r0/stderr.000000000000.log", ""),
        ("worker-1/logs/t1-01.a1.r0/stdout.000000000000.log", "other"),
    ):
        path = tmp_path / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    results = tmp_path / "results"
    results.mkdir()
    save_logs(str(tmp_path), "1/0", str(results))
    assert (results / "stdout").read_text() == "abcd"
    assert not (results / "stderr").exists()
    save_logs(str(tmp_path), "1/0", str(results), ("out.txt", "err.txt"), also_empty=True)
    assert (results / "out.txt").read_text() == "abcd" and (results / "err.txt").read_text() == ""


@pytest.mark.parametrize(
    "code",
    [
        "import rt.data.preprocessors",
        "from rt.data import read_images",
        "import rt.serve as serve",
        "from rt import rllib",
        "from rt import timeline",
        "from rt.util.multiprocessing import Pool",
        "from rt.tune.search.flaml import CFO",
        "import rt.tune.suggest.skopt",
        "from rt.tune.integration.ray_train import TuneReportCallback",
        "from rt.tune.logger import CometLoggerCallback",
        "from rt.train.horovod import HorovodTrainer",
        "from rt.train import DataConfig",
        "from rt.train.tensorflow import TensorflowTrainer",
        "from rt.tune.utils import UtilMonitor",
    ],
)
def test_an_import_of_what_is_not_there_yet_says_what_works(code: str) -> None:
    with pytest.raises(ModuleNotFoundError, match=r"rt has no rt\.\S+ yet \(in Ray: .*What works"):
        exec(code, {})
    exec(f"try:\n    {code}\nexcept ImportError:\n    pass", {})


def test_an_attribute_that_is_not_there_yet_says_what_works() -> None:
    import rt

    for module, name in [(rt, "timeline"), (rt, "serve"), (rt.train, "horovod"), (tune, "automl"),
                         (tune.search, "flaml"), (rt.air, "execution")]:  # fmt: skip
        assert not hasattr(module, name) and getattr(module, name, None) is None
        with pytest.raises(AttributeError, match=rf"rt has no {module.__name__}\.{name} yet"):
            getattr(module, name)


def test_an_algorithm_that_is_not_there_yet_says_what_works() -> None:
    with pytest.raises(ValueError, match=r"rt has no rt\.tune\.search\.flaml yet .*Searcher"):
        tune.run(print, search_alg="flaml")


def test_names_that_ray_has_not_fail_in_pythons_own_words() -> None:
    for code, kind, text in [
        ("import rt.nothing", ModuleNotFoundError, r"No module named 'rt\.nothing'"),
        ("import rt.tune.search.nothing", ModuleNotFoundError, "No module named"),
        ("from rt.tune import choise", ImportError, "cannot import name 'choise' from 'rt.tune'"),
        ("from rt import tune; tune.choise", AttributeError, "module 'rt.tune' has no attribute"),
        ("import rt; rt.tunes", AttributeError, "module 'rt' has no attribute 'tunes'"),
    ]:
        with pytest.raises(kind, match=text):
            exec(code, {})


def test_a_slip_in_a_name_or_an_argument_gets_a_suggestion() -> None:
    with pytest.raises(AttributeError, match=r"'logunifrom'; did you mean 'loguniform'\?$"):
        exec("from rt import tune; tune.logunifrom", {})
    for config, slip, meant in [
        (tune.TuneConfig, "num_sample", "num_samples"),
        (tune.RunConfig, "storage_paht", "storage_path"),
        (tune.FailureConfig, "max_failure", "max_failures"),
    ]:
        with pytest.raises(TypeError, match=rf"'{slip}'.*did you mean '{meant}'\?"):
            config(**{slip: 1})
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'entirely_else'$"):
        tune.TuneConfig(entirely_else=1)


def test_whether_a_module_is_there_can_be_asked() -> None:
    from importlib.util import find_spec

    assert find_spec("rt.serve") is None and find_spec("rt.tune.search.flaml") is None
    assert find_spec("rt.tune") is not None


def test_no_name_is_said_to_be_missing_that_is_there() -> None:
    from rt._missing import NAMES

    for full in NAMES:
        parent, _, name = full.rpartition(".")
        with pytest.raises(ImportError, match=re.escape(f"rt has no {full} yet")):
            exec(f"from {parent} import {name}", {})
