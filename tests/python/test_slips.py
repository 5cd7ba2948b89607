"""What is hardly meant in a search is said before anything runs."""

from __future__ import annotations

import inspect
import linecache
from pathlib import Path
from typing import Any, Callable

import pytest
from fake_world import World
from rt import _driver, tune
from rt._slips import check_space, notes_of


def text_of(call: Callable[[], Any]) -> str:
    with pytest.raises(ValueError) as caught:
        call()
    return str(caught.value)


def line_here() -> int:
    frame = inspect.currentframe()
    assert frame is not None and frame.f_back is not None
    return frame.f_back.f_lineno


@pytest.mark.parametrize(
    ("space", "said"),
    [
        ({"lr": {"grid_searh": [1, 2]}}, "lr: unknown distribution 'grid_searh'; did you mean "
         "tune.grid_search(...)?"),
        ({"lr": {"chioce": [1, 2]}}, "did you mean tune.choice(...)?"),
        ({"lr": {"log_uniform": (1, 2)}}, "did you mean tune.loguniform(...)?"),
        ({"net": [1, {"lr": {"Uniform": [0, 1]}}]}, "net/1/lr: unknown distribution 'Uniform'"),
        ({"lr": {"grid_search": [1], "x": 2}}, "lr: grid_search must be the only key of its dict; "
         "beside it: 'x'"),
        ({"lr": tune.uniform}, "lr: tune.uniform is the function, not a distribution; call it: "
         "tune.uniform(lower, upper)"),
        ({"net": {"lr": tune.grid_search}}, "net/lr: tune.grid_search is the function"),
        ({"lr": "tune.loguniform(1e-4, 1e-1)"}, "lr: 'tune.loguniform(1e-4, 1e-1)' is a text, not a"
         " distribution; write it without quotes"),
    ],
)  # fmt: skip
def test_a_slip_in_a_space_is_an_error_that_names_the_key(space: Any, said: str) -> None:
    assert said in text_of(lambda: check_space(space))


@pytest.mark.parametrize(
    "value",
    [
        [1, 2, 3], {"choice": [1, 2]}, {"range": [0, 1]}, {"grid_points": [1, 2]}, {"uniforn": 3},
        {"a": [1], "b": [2]}, print, dict, "f(x)", "uniform", (1, 2), None,
        tune.choice([{"grid_searh": [1]}]), tune.grid_search([{"chioce": [1]}]),
    ],
)  # fmt: skip
def test_what_may_be_meant_as_a_constant_is_one(value: Any) -> None:
    check_space({"x": value})


def test_the_error_has_the_line_of_the_key(world: World) -> None:
    first = line_here()
    tuner = tune.Tuner(
        print,
        param_space={
            "a_key_of_this_test": 1,
            "another_key_of_this_test": {"grid_searh": [1, 2]},
        },
    )
    said = text_of(tuner.fit)
    assert f"{__file__}:{first + 5}: another_key_of_this_test: unknown" in said
    assert world.asked("experiment_create") == []


def test_the_error_has_the_line_of_the_call_where_the_key_has_none(world: World) -> None:
    space: dict[str, Any] = {}
    for key in ("made", "up"):
        space[key] = tune.uniform
    line = line_here() + 1
    assert f"{__file__}:{line}: made: " in text_of(lambda: tune.run(print, config=space))


def test_the_error_has_the_line_of_the_call_for_what_is_wrong_elsewhere(world: World) -> None:
    line = line_here() + 1
    tuner = tune.Tuner(print, param_space={"a": tune.choice([tune.grid_search([1])])})
    assert text_of(tuner.fit).startswith(f"{__file__}:{line}: a: ")


def test_the_error_has_the_line_of_a_notebooks_cell(world: World) -> None:
    cell = "space = {\n  'z': 1,\n  'a_key_of_a_cell': {'grid_searh': [1]},\n}\n"
    cell += "tuner = tune.Tuner(print, param_space=space)"
    name = "/tmp/ipykernel_1/2.py"
    linecache.cache[name] = (len(cell), None, cell.splitlines(keepends=True), name)
    made: dict[str, Any] = {"tune": tune}
    exec(compile(cell, name, "exec"), made)
    assert text_of(made["tuner"].fit).startswith("line 3 of the cell: a_key_of_a_cell: unknown")


class Ours(tune.Callback):
    """A callback."""


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: tune.run(print, scheduler=tune.schedulers.FIFOScheduler),
         "scheduler is the class FIFOScheduler; it needs an object: FIFOScheduler(...)"),
        (lambda: tune.run(print, search_alg=tune.search.BasicVariantGenerator),
         "search_alg is the class BasicVariantGenerator"),
        (lambda: tune.run(print, stop=tune.stopper.MaximumIterationStopper),
         "stop is the class MaximumIterationStopper"),
        (lambda: tune.run(print, callbacks=[Ours]), "one of callbacks is the class Ours"),
        (lambda: tune.run(print, callbacks=Ours()), "callbacks is a list of tune.Callback"),
        (lambda: tune.Tuner(print, run_config=tune.RunConfig), "run_config is the class RunConfig"),
        (lambda: tune.Tuner(print, tune_config=tune.RunConfig()), "tune_config is a TuneConfig"),
        (lambda: tune.with_resources(print, tune.PlacementGroupFactory),
         "resources is the class PlacementGroupFactory"),
        (lambda: tune.search.ConcurrencyLimiter(tune.search.BasicVariantGenerator, 2),
         "searcher is the class BasicVariantGenerator"),
        (lambda: tune.search.Repeater(tune.search.Searcher, 2), "searcher is the class Searcher"),
        (lambda: tune.stopper.CombinedStopper(tune.stopper.NoopStopper),
         "one of the stoppers is the class NoopStopper"),
        (lambda: tune.RunConfig(failure_config=tune.FailureConfig),
         "failure_config is the class FailureConfig"),
        (lambda: tune.RunConfig(checkpoint_config=tune.CheckpointConfig),
         "checkpoint_config is the class CheckpointConfig"),
    ],
)  # fmt: skip
def test_a_class_where_an_object_belongs_is_an_error(
    world: World, call: Callable[[], Any], said: str
) -> None:
    assert said in text_of(call)


def test_a_list_that_is_a_constant_is_said_once(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    space = {"lr": [1, 2, 3], "one": [1], "deep": {"sizes": [[1, 2], [3]]}}
    for _ in range(2):
        tune.run(print, config=space)
    said = capsys.readouterr().err
    assert said.count("rt: lr is the same list in every trial") == 1
    assert "tune.choice([1, 2, 3])" in said and "tune.grid_search([1, 2, 3])" in said
    assert "rt: one" not in said and "deep/sizes/0 is the same list" in said
    assert notes_of({"x": {"choice": [1, 2]}, "y": {"grid_search": [1, 2]}}) == [
        "x is the dict {'choice': [1, 2]} in every trial; a distribution is written "
        "tune.choice(...)"
    ]


def test_a_point_with_a_key_that_the_space_lacks_is_said(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    points = [{"rate": 0.5, "net/depth": 2}, {"rat": 0.5}, {"entirely_else": 1}]
    search = tune.search.BasicVariantGenerator(points_to_evaluate=points)
    space = {"rate": tune.uniform(0, 1), "net": {"depth": 1}}
    tune.run(print, config=space, search_alg=search)
    said = capsys.readouterr().err
    assert "points_to_evaluate: 'rat' is not in the search space; did you mean 'rate'?" in said
    assert "'entirely_else' is not in the search space\n" in said and "'net/" not in said


def test_silence_is_kept(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    tune.run(print, config={"kept_silent": [1, 2]}, verbose=0)
    assert capsys.readouterr().err == ""


def test_what_an_older_release_took_for_a_constant_is_resumed(tmp_path: Path, world: World) -> None:
    from rt.tune._experiment import Request
    from rt.tune._run import Fates, resume_search

    known = {"id": 1, "results_dir": str(tmp_path), "state": "RUNNING"}
    request = Request(print, space={"lr": {"grid_searh": [1, 2]}})
    assert len(list(resume_search(request, known, Fates()))) == 1


def test_a_driver_goes_back_to_a_search_that_is_refused_today(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    slip = {"lr": {"grid_searh": [1, 2]}}
    large = {"data": list(range(200_000))}
    monkeypatch.setenv("RT_CLUSTER", "demo")
    world.set({"id": "1/0", "state": "COMPLETED"}, attached=True)
    for space in (slip, large):
        assert len(tune.run(print, config=space, verbose=0).trials) == 1
    assert world.asked("experiment_create") == []
    (first, second) = world.asked("experiment_find")
    assert first["spec"]["space"] == {"lr": {"grid_searh": [1, 2]}}
    assert first["key"] != second["key"]
    # A search that nobody knows is a new one.
    for refused in ({}, {"fail": {"experiment_find": {"code": "INVALID_ARGUMENT"}}}):
        world.set(**refused)
        _driver.close()
        line = line_here() + 1
        said = text_of(lambda: tune.run(print, config=slip))
        assert said.startswith(f"{__file__}:{line}: lr: unknown distribution 'grid_searh'"), said
    assert world.asked("experiment_create") == []


def test_a_misspelt_argument_of_run_says_which_was_meant() -> None:
    with pytest.raises(TypeError, match=r"did you mean 'num_samples'\?"):
        tune.run(print, num_sample=3)


@pytest.mark.parametrize(
    ("resources", "refused", "said"),
    [
        ({"cpus": 1}, "asks for 1 cpus; the largest node has 0",
         "asks for 1 cpus; the largest node has 0; did you mean 'cpu' by 'cpus'?"),
        ({"cpus": 1}, "no node has the resource 'cpus' (did you mean 'cpu'?)",
         "no node has the resource 'cpus' (did you mean 'cpu'?)"),
        ({"gpu": 4}, "asks for 4 gpus; the largest node has 2",
         "asks for 4 gpus; the largest node has 2"),
        ({}, "experiment: must not contain '/'", "name: must not contain '/'"),
    ],
)  # fmt: skip
def test_a_refusal_of_the_head_names_the_call_and_what_was_meant(
    world: World, resources: dict[str, float], refused: str, said: str
) -> None:
    world.set(fail={"experiment_create": {"code": "INVALID_ARGUMENT", "message": refused}})
    line = line_here() + 1
    text = text_of(lambda: tune.run(print, resources_per_trial=resources))
    assert text == f"{__file__}:{line}: {said}"


def test_a_space_that_is_too_large_names_its_largest_key(world: World) -> None:
    space = {"small": [1] * 10, "data": list(range(200_000))}
    said = text_of(lambda: tune.run(print, config=space, verbose=0))
    assert "at most 1.0 MB are possible, and 'data' alone takes 1.3 MB. Give" in said
    assert "with_parameters(trainable, data=...)" in said
    points = [{"small": "x" * 1000}] * 2000
    search = tune.search.BasicVariantGenerator(points_to_evaluate=points)
    said = text_of(lambda: tune.run(print, config={"small": 1}, search_alg=search, verbose=0))
    assert said.endswith("the search takes 2.0 MB as JSON; at most 1.0 MB are possible")
    assert world.asked("experiment_create") == []
