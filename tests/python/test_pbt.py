"""PopulationBasedTraining: what of Ray's arguments becomes of the specification."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
from rt import tune
from rt.tune._experiment import Request, advice_of, build_spec
from rt.tune.schedulers import PopulationBasedTraining, create_scheduler


def test_arguments_have_rays_defaults() -> None:
    scheduler = PopulationBasedTraining(hyperparam_mutations={"lr": tune.uniform(0, 1)})
    assert scheduler.to_spec() == {
        "pbt": {
            "time_attr": "time_total_s",
            "perturbation_interval": 60.0,
            "burn_in_period": 0.0,
            "hyperparam_mutations": {"lr": {"uniform": [0, 1]}},
            "quantile_fraction": 0.25,
            "resample_probability": 0.25,
            "increase_factor": 1.2,
            "decrease_factor": 0.8,
            "synch": False,
        }
    }


def test_lists_and_maps_are_mutations() -> None:
    scheduler = create_scheduler(
        "pbt", hyperparam_mutations={"net": {"width": [16, 32]}, "act": ("relu", "tanh")}
    )
    spec = scheduler.to_spec()["pbt"]["hyperparam_mutations"]
    assert spec == {"net": {"width": [16, 32]}, "act": ["relu", "tanh"]}


def test_parameters_that_the_space_lacks_are_drawn_from_their_mutations() -> None:
    scheduler = PopulationBasedTraining(
        metric="m", mode="max",
        hyperparam_mutations={"lr": tune.uniform(0, 1), "net": {"width": [16, 32]}, "depth": [1]},
    )  # fmt: skip
    request = Request(
        trainable=print,
        space={"depth": 7, "net": {"seed": 1}},
        tune=tune.TuneConfig(scheduler=scheduler),
        run=tune.RunConfig(),
    )
    space = build_spec(request)[0]["space"]
    assert space == {
        "depth": 7,
        "net": {"seed": 1, "width": {"choice": [16, 32]}},
        "lr": {"uniform": [0, 1]},
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "names the parameters"),
        ({"custom_explore_fn": 3}, "custom_explore_fn must be a function"),
        ({"hyperparam_mutations": [1], "custom_explore_fn": dict}, "names the parameters"),
        ({"quantile_fraction": 0.6}, "quantile_fraction must be between 0 and 0.5"),
        ({"perturbation_interval": 0}, "perturbation_interval must be above 0"),
        ({"perturbation_factors": (1.2,)}, "perturbation_factors are two numbers"),
        ({"perturbation_factors": 1.2}, "perturbation_factors are two numbers"),
        ({"hyperparam_mutations": {"lr": 3}}, "hyperparam_mutations: lr must be a list"),
        ({"hyperparam_mutations": {"lr": []}}, "hyperparam_mutations: lr has an empty list"),
        ({"hyperparam_mutations": {"lr": lambda: 1}}, "give a domain such as tune.uniform"),
        ({"hyperparam_mutations": {"lr": tune.sample_from(dict)}}, "lr"),
        ({"hyperparam_mutations": {"lr": tune.grid_search([1])}}, "hyperparam_mutations: lr must"),
    ],
)
def test_what_cannot_be_done_is_refused(arguments: dict[str, Any], message: str) -> None:
    given = {"hyperparam_mutations": {"lr": [1, 2]}} if arguments else {}
    with pytest.raises(ValueError, match=message):
        PopulationBasedTraining(**{**given, **arguments})


def test_a_function_of_the_users_explores_in_the_script() -> None:
    def mine(config: dict[str, Any]) -> dict[str, Any]:
        return config

    for mutations in ({"lr": tune.uniform(0, 1)}, None):
        scheduler = PopulationBasedTraining(
            metric="m", mode="max", hyperparam_mutations=mutations, custom_explore_fn=mine
        )
        request = Request(
            trainable=print,
            space={"lr": 0.5},
            tune=tune.TuneConfig(scheduler=scheduler),
            run=tune.RunConfig(),
        )
        advice = advice_of(request, build_spec(request)[0])
        assert advice.explore is mine and advice.scheduler is None
        assert advice.to_spec() == {"explores": True}
    assert scheduler.to_spec()["pbt"]["hyperparam_mutations"] == {}


class Own(tune.search.Searcher):
    def suggest(self, trial_id: str) -> dict[str, Any]:
        return {}


def test_a_search_algorithm_is_refused_beside_it() -> None:
    scheduler = PopulationBasedTraining(hyperparam_mutations={"lr": tune.uniform(0, 1)})
    request = Request(
        trainable=print,
        space={},
        tune=tune.TuneConfig(metric="m", mode="max", scheduler=scheduler, search_alg=Own()),
        run=tune.RunConfig(),
    )
    with pytest.raises(ValueError, match="a search algorithm would learn nothing"):
        build_spec(request)


def test_pb2_explores_between_its_bounds_and_draws_what_the_space_lacks() -> None:
    scheduler = tune.schedulers.PB2(
        time_attr="training_iteration", metric="m", mode="max", perturbation_interval=3,
        hyperparam_bounds={"lr": [0.001, 0.1], "momentum": (0, 1)},
    )  # fmt: skip
    assert scheduler.to_spec() == {
        "pb2": {
            "time_attr": "training_iteration",
            "perturbation_interval": 3,
            "quantile_fraction": 0.25,
            "hyperparam_bounds": {"lr": [0.001, 0.1], "momentum": [0, 1]},
        }
    }
    request = Request(
        trainable=print, space={"lr": 0.01}, tune=tune.TuneConfig(scheduler=scheduler),
        run=tune.RunConfig(),
    )  # fmt: skip
    assert build_spec(request)[0]["space"] == {"lr": 0.01, "momentum": {"uniform": [0, 1]}}
    for bounds in (None, {}, {"lr": [1, 0]}, {"lr": 3}, {"lr": [0, "a"]}):
        with pytest.raises(ValueError, match="hyperparam_bounds"):
            tune.schedulers.PB2(hyperparam_bounds=bounds)
    with pytest.raises(ValueError, match="synch"):
        tune.schedulers.PB2(hyperparam_bounds={"lr": [0, 1]}, synch=True)


def test_a_policy_is_followed_from_the_last_change_back_to_the_first_ancestor(
    tmp_path: pathlib.Path,
) -> None:
    rows = [
        ["2", "3", 4, 4, {"lr": 9}, {"lr": 8}],  # Overwritten by what follows.
        ["1", "0", 5, 6, {"lr": 1}, {"lr": 2}],
        ["2", "1", 9, 10, {"lr": 2}, {"lr": 3}],
    ]
    path = tmp_path / "pbt_policy_2.txt"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    replay = tune.schedulers.PopulationBasedTrainingReplay(str(path))
    assert replay.config == {"lr": 1}
    assert replay.to_spec()["pbt_replay"]["policy"] == [
        {"time": 6, "config": {"lr": 2}},
        {"time": 10, "config": {"lr": 3}},
    ]
    request = Request(
        trainable=print, space={"lr": 7, "depth": 2}, tune=tune.TuneConfig(scheduler=replay),
        run=tune.RunConfig(),
    )  # fmt: skip
    assert build_spec(request)[0]["space"] == {"lr": 1, "depth": 2}
    shown = {"policy": {"config": {"lr": 1}, "changes": [{"time": 6, "config": {"lr": 2}}]}}
    path.write_text(json.dumps(shown))
    again = tune.schedulers.PopulationBasedTrainingReplay(str(path))
    assert (again.config, again.policy) == ({"lr": 1}, [(6, {"lr": 2})])
    path.write_text("[1]\n")
    with pytest.raises(ValueError, match="six values"):
        tune.schedulers.PopulationBasedTrainingReplay(str(path))
    with pytest.raises(ValueError, match=r"nothing\.txt"):
        tune.schedulers.PopulationBasedTrainingReplay(str(tmp_path / "nothing.txt"))


def test_values_that_json_cannot_hold_come_back_from_a_policy(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "pbt_policy_1_0.txt"
    first = {"net": "(64, 32)", "act": "py:(1, 2)", "kind": "<class 'dict'>", "lr": 1}
    changed = {**first, "net": "py:(32, 16)"}
    path.write_text(json.dumps(["1/0", "1/1", None, 3, first, changed]) + "\n")
    replay = tune.schedulers.PopulationBasedTrainingReplay(str(path))
    space = replay.complete_space({"net": (64, 32), "act": 3, "kind": tune.choice([int, dict])})
    assert space == {"net": (64, 32), "act": (1, 2), "kind": dict, "lr": 1}
    # A trial makes the value of the later one.
    assert replay.to_spec() == {"pbt_replay": {"policy": [{"time": 3, "config": changed}]}}
    assert replay.config == first


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "six values"),
        ("null", "six values"),
        ('["a", "b", 1, "x", {}, {}]', "an iteration is a number, not 'x'"),
        ('["a", "b", 1, NaN, {}, {}]', "an iteration is a number, not nan"),
        ('["a", "b", 1, 2, [], {}]', r"a configuration is a dict, not \[\]"),
        ('["policy", 1, 2, 3, 4, 5]', "a configuration is a dict"),
        ('{\n  "id": "1/0",\n  "state": "COMPLETED"\n}\n', "the trial was never cloned"),
        ('{"policy": null}', "the trial was never cloned"),
        ('{"policy": {"config": 5, "changes": []}}', "a configuration is a dict, not 5"),
        ('{"policy": {"config": {}, "changes": [3]}}', "the trial was never cloned"),
        ("\x00", "Expecting value"),
    ],
)
def test_what_is_no_policy_is_refused(text: str, message: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "policy"
    path.write_text(text)
    with pytest.raises(ValueError, match=f"policy_file {path}: .*{message}"):
        tune.schedulers.PopulationBasedTrainingReplay(str(path))


def test_of_changes_at_one_iteration_the_last_holds(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "pbt_policy_1_0.txt"
    rows = [
        ["1/2", "1/3", None, 4, {"lr": 1}, {"lr": 2}],
        ["1/1", "1/2", None, 6, {"lr": 2}, {"lr": 3}],
        ["1/0", "1/1", None, 6, {"lr": 3}, {"lr": 4}],
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    replay = tune.schedulers.PopulationBasedTrainingReplay(str(path))
    assert (replay.config, replay.policy) == ({"lr": 1}, [(4, {"lr": 2}), (6, {"lr": 4})])
