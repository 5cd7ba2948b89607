"""An argument that is misspelt or of the wrong kind is an error at the call."""

from __future__ import annotations

import datetime
import functools
import re
from pathlib import Path
from typing import Any, Callable

import pytest
import rt
from fake_worker import FakeWorker
from fake_world import World
from rt import _session, train, tune
from rt._attempt import run_function
from rt._errors import RtError
from rt._resources import as_request, resources_spec
from rt._session import Session
from rt.train import DataParallelTrainer, ScalingConfig
from rt.tune._advice import Advice
from rt.tune._experiment import Request, advice_of, build_spec
from rt.tune.schedulers import ASHAScheduler
from rt.tune.search import BasicVariantGenerator

HUGE = 10**400


def loop(config: dict[str, Any]) -> None:
    """A training function."""


@pytest.mark.parametrize(
    ("call", "slip", "meant"),
    [
        (lambda: ScalingConfig(num_worker=2), "num_worker", "num_workers"),
        (lambda: tune.RunConfig(storagepath="x"), "storagepath", "storage_path"),
        (lambda: tune.CheckpointConfig(num_to_kep=2), "num_to_kep", "num_to_keep"),
        (lambda: tune.FailureConfig(max_failure=2), "max_failure", "max_failures"),
        (lambda: tune.TuneConfig(num_sample=2), "num_sample", "num_samples"),
        (lambda: ASHAScheduler(graceperiod=2), "graceperiod", "grace_period"),
        (lambda: rt.init(num_cpu=2), "num_cpu", "num_cpus"),
        (lambda: tune.Tuner(print, parm_space={}), "parm_space", "param_space"),
        (lambda: tune.run(print, num_sample=2), "num_sample", "num_samples"),
        (lambda: BasicVariantGenerator(randomstate=1), "randomstate", "random_state"),
        (lambda: tune.stopper.TrialPlateauStopper("acc", num_result=2), "num_result",
         "num_results"),
        (lambda: DataParallelTrainer(loop, scaling_conf=1), "scaling_conf", "scaling_config"),
        (lambda: DataParallelTrainer(train_loop_per_workr=loop), "train_loop_per_workr",
         "train_loop_per_worker"),
    ],
)  # fmt: skip
def test_a_misspelt_argument_names_the_one_that_was_meant(
    call: Callable[[], Any], slip: str, meant: str
) -> None:
    with pytest.raises(TypeError, match=rf"argument '{slip}'; did you mean '{meant}'\?$"):
        call()


@pytest.mark.parametrize(
    ("call", "written"),
    [
        (lambda: tune.Tuner(print, config={}), "param_space={...}"),
        (lambda: tune.Tuner(print, num_samples=2), "tune_config=TuneConfig(num_samples=...)"),
        (lambda: tune.Tuner(print, stop={}), "run_config=RunConfig(stop=...)"),
        (lambda: tune.Tuner(print, resources_per_trial={}),
         "Tuner(tune.with_resources(trainable, {...}))"),
        (lambda: tune.run(print, param_space={}), "config={...}"),
        (lambda: DataParallelTrainer(loop, config={}), "train_loop_config={...}"),
        (lambda: DataParallelTrainer(loop, num_workers=2),
         "scaling_config=ScalingConfig(num_workers=...)"),
        (lambda: DataParallelTrainer(loop, storage_path="x"),
         "run_config=RunConfig(storage_path=...)"),
    ],
)  # fmt: skip
def test_an_argument_that_belongs_elsewhere_says_where(
    call: Callable[[], Any], written: str
) -> None:
    with pytest.raises(TypeError, match=re.escape(f"; write {written}") + "$"):
        call()


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: ScalingConfig(label_selector={"a": "b"}),
         r"rt has no ScalingConfig\(label_selector=\.\.\.\) yet .* a custom resource"),
        (lambda: tune.RunConfig(worker_runtime_env={"env_vars": {}}), r"rt\.init\(runtime_env"),
        (lambda: tune.FailureConfig(controller_failure_limit=3), "a head that restarts"),
        (lambda: DataParallelTrainer(loop, metadata={"a": 1}), "has no metadata yet"),
    ],
)  # fmt: skip
def test_an_argument_that_is_not_there_yet_says_what_works(
    call: Callable[[], Any], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        call()


def test_an_argument_that_is_not_there_yet_may_be_none() -> None:
    typed = ScalingConfig(num_workers=2, use_gpu=True, accelerator_type="A100")
    assert typed.total_resources == {"GPU": 2, "accelerator_type:A100": 0.0002}
    assert ScalingConfig(accelerator_type=None, use_tpu=False) == ScalingConfig()
    with pytest.raises(TypeError, match="needs the argument train_loop_per_worker"):
        DataParallelTrainer(scaling_config=ScalingConfig())


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: tune.run(print, resources_per_trial={"cpu": "one"}),
         "resources: 'cpu' must be a number from 0, not 'one'"),
        (lambda: tune.run(print, resources_per_trial={"custom_resources": {"a": -1}}),
         "custom_resources: 'a' must be a number from 0, not -1"),
        (lambda: tune.with_resources(print, {"gpu": True}), "'gpu' must be a number from 0"),
        (lambda: tune.PlacementGroupFactory([{"CPU": "2"}]), "'CPU' must be a number from 0"),
        (lambda: ScalingConfig(num_workers="2"), "num_workers must be a whole number, not '2'"),
        (lambda: ScalingConfig(num_workers=0), "num_workers must be at least 1, not 0"),
        (lambda: ScalingConfig(num_workers=(1, 2, 4)), "two: the fewest and the most"),
        (lambda: ScalingConfig(num_workers=(4, 1)), "begins with the fewest ranks: .1, 4."),
        (lambda: ScalingConfig(num_workers=(0, 4)), "num_workers must be at least 1, not 0"),
        (lambda: ScalingConfig(resources_per_worker=3), "resources_per_worker is a dict"),
        (lambda: ScalingConfig(resources_per_worker={"CPU": "2"}),
         "resources_per_worker: 'CPU' must be a number from 0, not '2'"),
        (lambda: tune.TuneConfig(time_budget_s="10"),
         "time_budget_s must be seconds or a datetime.timedelta, not '10'"),
        (lambda: tune.TuneConfig(time_budget_s=-1), "time_budget_s must be above 0, not -1"),
        (lambda: tune.stopper.TimeoutStopper("10"), "timeout must be seconds or a datetime"),
        (lambda: tune.stopper.MaximumIterationStopper("10"), "max_iter must be a whole number"),
        (lambda: tune.TuneConfig(max_concurrent_trials="2"),
         "max_concurrent_trials must be a whole number, not '2'"),
        (lambda: tune.CheckpointConfig(num_to_keep="2"), "num_to_keep must be a whole number"),
        (lambda: tune.FailureConfig(max_failures="2"), "max_failures must be a whole number"),
        (lambda: ASHAScheduler(max_t="100"), "max_t must be a number, not '100'"),
        (lambda: tune.uniform(0, HUGE), "argument 2 must be a finite number"),
        (lambda: tune.randint(0, 10**30), "argument 2 must fit into 64 bits"),
    ],
)  # fmt: skip
def test_a_value_of_the_wrong_kind_is_refused_where_it_is_given(
    call: Callable[[], Any], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        call()


def test_values_that_numpy_made_are_numbers() -> None:
    numpy = pytest.importorskip("numpy")
    assert ScalingConfig(num_workers=numpy.int64(2)).num_workers == 2
    tune.TuneConfig(time_budget_s=numpy.float64(3), max_concurrent_trials=numpy.int32(1))
    tune.TuneConfig(time_budget_s=datetime.timedelta(seconds=1))
    tune.with_resources(print, {"cpu": numpy.float32(0.5)})


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"scheduler": ASHAScheduler()}, "asha"),
        ({"scheduler": "asha"}, "asha"),
    ],
)
def test_a_comparison_needs_a_metric_and_a_mode(
    world: World, settings: dict[str, Any], name: str
) -> None:
    tuner = tune.Tuner(print, tune_config=tune.TuneConfig(metric="acc", **settings))
    with pytest.raises(ValueError, match=rf"test_arguments.py:\d+: {name} compares trials by 'acc'"
                                         ".*give mode='min' or mode='max'"):  # fmt: skip
        tuner.fit()
    assert world.asked("experiment_create") == []
    given = tune.TuneConfig(metric="acc", mode="max", **settings)
    tune.Tuner(print, tune_config=given, run_config=tune.RunConfig(verbose=0)).fit()
    # Without a scheduler nothing is compared before the end, as in Ray.
    tune.run(print, metric="acc", verbose=0)


def test_an_integer_that_no_number_holds_is_named(tmp_path: Path) -> None:
    worker = FakeWorker(str(tmp_path))
    session = _session.current = Session(worker.path, worker.token, deadline_s=10)
    for call in (
        lambda: tune.report({"acc": 1, "loss": HUGE}),
        lambda: run_function(lambda: {"acc": 1, "loss": HUGE}, {}),
    ):
        with pytest.raises(ValueError, match="metric 'loss': an integer of 1329 bits is too large"):
            call()
    with pytest.raises(ValueError, match="metric '_metric': an integer of 1329 bits"):
        run_function(lambda: HUGE, {})
    tune.report({"loss": 2**100})
    session.barrier()
    assert [report["metrics"]["loss"] for report in worker.reports] == [float(2**100)]


def test_a_comparison_of_stop_that_does_not_exist_is_no_nested_key(world: World) -> None:
    for comparison in ("<", ">", "=<", "==", "!="):
        with pytest.raises(ValueError, match="the comparison of 'loss' must be '<=' or '>='"):
            tune.run(print, stop={"loss": {comparison: 0.5}})
    tune.run(print, stop={"eval": {"loss": {"<=": 0.5}, "acc": 1}}, verbose=0)
    assert world.spec()["stop"] == {"eval/loss": {"<=": 0.5}, "eval/acc": 1}


def test_a_huge_integer_is_a_parameter_and_no_threshold(world: World) -> None:
    with pytest.raises(ValueError, match="stop: the threshold of 'loss' must be a number, not 100"):
        tune.run(print, stop={"loss": HUGE})
    tune.run(print, config={"seed": HUGE, "other": tune.choice([HUGE, 1])}, verbose=0)
    assert set(world.spec()["space"]) == {"seed", "other"}


def scaled(scaling: Any) -> tuple[dict[str, Any], Advice]:
    """The specification of a search over scaling_config, and its questions."""
    runs = DataParallelTrainer(loop).as_trainable()
    request = Request(runs, space=runs.take_space({"scaling_config": scaling}))
    spec = build_spec(request)[0]
    return spec, advice_of(request, spec)


def test_a_run_config_asks_for_a_preflight() -> None:
    for preflight in (True, {"min_bus_gbps": 200}):
        run = tune.RunConfig(preflight=preflight)
        assert build_spec(Request(print, None, tune.TuneConfig(), run))[0]["preflight"] == preflight
    assert "preflight" not in build_spec(Request(print, None, tune.TuneConfig()))[0]


@pytest.mark.parametrize(
    ("scaling", "encoded", "drawn", "ranks"),
    [
        (ScalingConfig(num_workers=tune.grid_search([1, 2])), {"num_workers": {"grid": [1, 2]}},
         {"num_workers": 2}, 2),
        (ScalingConfig(num_workers=3), {"num_workers": 3}, {"num_workers": 3}, 3),
        ({"num_workers": tune.choice([1, 2])}, {"num_workers": {"choice": [1, 2]}},
         {"num_workers": 1}, 1),
    ],
)  # fmt: skip
def test_each_trial_has_the_ranks_of_its_own_scaling_config(
    scaling: Any, encoded: Any, drawn: dict[str, Any], ranks: int
) -> None:
    spec, advice = scaled(scaling)
    assert spec["space"]["scaling_config"] == encoded
    assert advice.to_spec() == {"suggests": True} and advice.resources_of is not None
    request = advice.resources_of({"scaling_config": drawn})
    assert (request["ranks"], request["bundles"]) == (ranks, [{"CPU": 1}] * ranks)


def test_a_grid_of_scaling_configs_is_possible() -> None:
    two = ScalingConfig(num_workers=2, resources_per_worker={"CPU": 2})
    spec, advice = scaled(tune.grid_search([ScalingConfig(), two]))
    assert len(spec["space"]["scaling_config"]["grid"]) == 2
    assert advice.resources_of is not None
    assert advice.resources_of({"scaling_config": two})["bundles"] == [{"CPU": 2}] * 2


def test_a_dict_in_the_space_changes_the_trainers_own_scaling_config() -> None:
    own = ScalingConfig(resources_per_worker={"CPU": 2})
    runs = DataParallelTrainer(loop, scaling_config=own).as_trainable()
    taken = runs.take_space({"scaling_config": {"num_workers": tune.grid_search([1, 2])}})
    assert taken["scaling_config"]["resources_per_worker"] == {"CPU": 2}
    for wrong in ({"num_worker": 2}, {"num_workers": "2"}, 3):
        with pytest.raises((TypeError, ValueError)):
            runs.take_space({"scaling_config": wrong})


def test_a_scaling_config_with_a_grid_is_for_a_param_space_only() -> None:
    drawn = ScalingConfig(num_workers=tune.grid_search([1, 2]))
    with pytest.raises(ValueError, match="only the scaling_config in the param_space of a Tuner"):
        tune.with_resources(print, drawn)
    with pytest.raises(ValueError, match="num_workers of ScalingConfig"):
        DataParallelTrainer(loop, scaling_config=drawn).as_trainable()
    with pytest.raises(ValueError, match="a domain inside a ScalingConfig is not drawn"):
        tune.Tuner(print, param_space={"scaling": drawn}).fit()


def test_a_trainer_is_restored_by_its_path(tmp_path: Path) -> None:
    missing = str(tmp_path / "nothing")
    assert not DataParallelTrainer.can_restore(missing)
    with pytest.raises(ValueError, match=r"no run in .*nothing' that could be restored"):
        DataParallelTrainer.restore(missing, loop)
    with pytest.raises(ValueError, match="needs the training function again"):
        DataParallelTrainer.restore(missing)
    assert train.TRAIN_DATASET_KEY == "train"


def test_a_search_inside_a_trial_says_what_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = FakeWorker(str(tmp_path))
    for name, value in worker.env().items():
        monkeypatch.setenv(name, value)
    for call in (lambda: tune.run(print), lambda: DataParallelTrainer(loop).fit()):
        with pytest.raises(RtError, match=r"a trial cannot start .*pass the trainer to the Tuner"):
            call()


def test_a_function_of_more_arguments_is_refused_before_it_runs(world: World) -> None:
    def needs(config: Any, data: Any) -> None:
        """Its data comes from with_parameters."""

    with pytest.raises(ValueError, match=r"takes config, data: .*with_parameters.*data=\.\.\.\)"):
        tune.run(needs, verbose=0)
    assert world.asked("experiment_create") == []
    tune.run(tune.with_parameters(needs, data=1), verbose=0)
    tune.run(functools.partial(needs, data=1), verbose=0)


def test_a_storage_path_may_be_a_file_url() -> None:
    assert tune.RunConfig(storage_path="file:///data/my%20runs").storage_path == "/data/my runs"


def test_bounds_of_num_workers_are_those_of_the_ranks() -> None:
    request = as_request(ScalingConfig(num_workers=(1, 4), resources_per_worker={"CPU": 2}))
    assert resources_spec(request) == {"cpu": 2, "ranks": [1, 4], "strategy": "PACK"}
    assert as_request(ScalingConfig(num_workers=[3, 3]))["ranks"] == 3
    with pytest.raises(ValueError, match="trainer_resources need a fixed num_workers"):
        ScalingConfig(num_workers=(1, 4), trainer_resources={"CPU": 1})
