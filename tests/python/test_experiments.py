"""Experiments, and what else is said of a search before it begins."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from fake_world import World, trial
from rt import tune
from rt.tune._experiment import Request, advice_of, build_spec
from rt.tune.search import BasicVariantGenerator
from test_driver import objective


def test_run_takes_experiments(world: World) -> None:
    first = tune.Experiment("one", objective, config={"lr": 1}, num_samples=2)
    second = tune.Experiment("two", objective, stop={"training_iteration": 2}, env="x")
    assert len(tune.run(first, metric="acc", mode="max", verbose=0).trials) == 1
    analysis = tune.run([first, second], metric="acc", mode="max", verbose=0, config={"lr": 9})
    assert len(analysis.trials) == 2 and analysis.best_result["acc"] == 0.5
    names = [each["spec"]["experiment"] for each in world.asked("experiment_create")]
    assert names == ["one", "one", "two"]
    assert [world.spec(i)["num_samples"] for i in (1, 2)] == [2, 1]
    assert world.spec(1)["space"] == {"lr": 1} and world.spec(2)["space"] == {}
    assert world.spec(2)["stop"] == {"training_iteration": 2} and world.spec(2)["metric"] == "acc"


def test_all_experiments_run_although_one_has_failed(world: World) -> None:
    world.set(trial(0, state="FAILED"))
    specs = {name: {"run": objective} for name in ("a", "b")}
    with pytest.raises(tune.TuneError, match="did not complete: t_1_00000, t_1_00000"):
        tune.run_experiments(specs, verbose=0)
    assert len(world.asked("experiment_create")) == 2
    assert len(tune.run_experiments(specs, verbose=0, raise_on_failed_trial=False)) == 2


def test_what_is_no_experiment_is_refused() -> None:
    with pytest.raises(ValueError, match="not function"):
        tune.run([objective])
    with pytest.raises(ValueError, match="no experiment in the list"):
        tune.run([])
    with pytest.raises(ValueError, match="'a' has no 'run'"):
        tune.run_experiments({"a": {}})


@pytest.mark.parametrize(
    ("samples", "points", "total"),
    [(1, [], 6), (2, [], 12), (-1, [], sys.maxsize), (3, [{"a": 1}, {"n": {"b": 1}}], 3 + 2 + 6)],
)
def test_the_points_of_grids_count(samples: int, points: list[Any], total: int) -> None:
    space = {"a": tune.grid_search([1, 2]), "n": {"b": tune.grid_search([1, 2, 3])},
             "c": tune.choice([{"k": [1, 2]}]), "l": [tune.uniform(0, 1)]}  # fmt: skip
    search = BasicVariantGenerator(points_to_evaluate=points)
    request = Request(objective, space, tune.TuneConfig(num_samples=samples, search_alg=search))
    info = advice_of(request, build_spec(request)[0]).info
    assert (info["num_samples"], info["total_num_samples"]) == (samples, total)
