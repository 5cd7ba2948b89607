"""Stoppers, called as the driver calls them."""

from __future__ import annotations

import math
from typing import Any, Callable

import pytest
from rt import tune
from rt.tune import stopper
from rt.tune._experiment import Request, advice_of, build_spec


def test_what_is_not_finite_is_no_plateau() -> None:
    for value in (math.nan, math.inf, -math.inf):
        trial = stopper.TrialPlateauStopper("v", num_results=2, grace_period=2)
        assert [trial("1/0", {"v": value}) for _ in range(3)] == [False] * 3
        assert [trial("1/0", {"v": 1.0}) for _ in range(2)] == [False, True]
        search = stopper.ExperimentPlateauStopper("v", top=2, mode="max")
        assert [search("1/0", {"v": value}) for _ in range(3)] == [False] * 3


def test_nan_is_never_among_the_best() -> None:
    for mode in ("min", "max"):
        search = stopper.ExperimentPlateauStopper("v", top=2, mode=mode)
        assert [search("1/0", {"v": v}) for v in (math.nan, 1.0, 1.0)] == [False, False, True]


def test_an_expression_goes_to_the_head_as_it_is() -> None:
    expression = "loss < 0.1 or training_iteration >= 100"
    request = Request(
        trainable=print, space={}, tune=tune.TuneConfig(), run=tune.RunConfig(stop=expression)
    )
    spec = build_spec(request)[0]
    assert spec["stop"] == expression
    assert advice_of(request, spec).stoppers == []


def spec_of(*stoppers: stopper.Stopper) -> tuple[dict[str, Any], list[stopper.Stopper]]:
    """What the head gets, and what is left for the script."""
    run = tune.RunConfig(stop=list(stoppers))
    request = Request(lambda config: None, {"x": 1}, tune.TuneConfig(), run)
    spec = build_spec(request)[0]
    return spec.get("stop", {}), advice_of(request, spec).stoppers


def test_a_plateau_of_trials_is_a_rule_of_the_head() -> None:
    plain = stopper.TrialPlateauStopper("loss")
    rule = {"metric": "loss", "std": 0.01, "num_results": 4, "grace_period": 4}
    assert spec_of(plain) == ({"plateau": rule}, [])
    bound = stopper.TrialPlateauStopper("acc", metric_threshold=1, mode="max", grace_period=0)
    said = spec_of(stopper.MaximumIterationStopper(9), bound)[0]
    assert said["training_iteration"] == 9
    assert said["plateau"]["metric_threshold"] == 1 and said["plateau"]["mode"] == "max"
    # The head has one rule; the others stay in the script, as does what it has no form for.
    second, search = stopper.TrialPlateauStopper("acc"), stopper.ExperimentPlateauStopper("loss")
    best = {"metric": "loss", "std": 0.001, "top": 10, "patience": 0, "mode": "min"}
    both = {"plateau": rule, "experiment_plateau": best}
    assert spec_of(plain, second, search) == (both, [second])
    many = stopper.TrialPlateauStopper("loss", num_results=1_000)
    assert spec_of(many) == ({}, [many])


def test_a_plateau_of_the_search_is_a_rule_of_the_head() -> None:
    first = stopper.ExperimentPlateauStopper("acc", std=0.5, top=3, mode="max", patience=4)
    rule = {"metric": "acc", "std": 0.5, "top": 3, "patience": 4, "mode": "max"}
    second = stopper.ExperimentPlateauStopper("loss")
    assert spec_of(first, second) == ({"experiment_plateau": rule}, [second])
    many = stopper.ExperimentPlateauStopper("loss", top=1_000)
    assert spec_of(many) == ({}, [many])

    class Louder(stopper.ExperimentPlateauStopper):
        """A rule of the user's own, which the head does not have."""

    own = Louder("loss")
    assert spec_of(own) == ({}, [own])
    # One that has seen results elsewhere continues with them, in the script.
    second("1/0", {"loss": 1.0})
    assert spec_of(second) == ({}, [second])


def test_a_stopper_refuses_what_it_could_not_compare() -> None:
    cases: list[tuple[Callable[..., Any], dict[str, Any], str]] = [
        (stopper.ExperimentPlateauStopper, {"std": "a"}, "std must be a number, not 'a'"),
        (stopper.ExperimentPlateauStopper, {"std": math.nan}, "std must be a number, not nan"),
        (stopper.TrialPlateauStopper, {"std": "a"}, "std must be a number, not 'a'"),
        (stopper.TrialPlateauStopper, {"num_results": 2.5}, "num_results must be a whole"),
        (stopper.TrialPlateauStopper, {"num_results": 0}, "num_results must be at least 1"),
        (stopper.TrialPlateauStopper, {"grace_period": "4"}, "grace_period must be a number"),
        (stopper.TrialPlateauStopper, {"metric_threshold": "1", "mode": "min"},
         "metric_threshold must be a number, not '1'"),
    ]
    for made, arguments, words in cases:
        with pytest.raises(ValueError, match=words):
            made("loss", **arguments)


def test_the_rule_of_the_head_may_be_written_as_a_dict() -> None:
    rule = {"metric": "loss", "top": 3, "mode": "min"}
    run = tune.RunConfig(stop={"experiment_plateau": rule, "training_iteration": 9})
    request = Request(lambda config: None, {"x": 1}, tune.TuneConfig(), run)
    spec = build_spec(request)[0]
    assert spec["stop"] == {"experiment_plateau": rule, "training_iteration": 9}
    metric = tune.RunConfig(stop={"experiment_plateau": {"<=": 3}})
    request = Request(lambda config: None, {"x": 1}, tune.TuneConfig(), metric)
    assert build_spec(request)[0]["stop"] == {"experiment_plateau": {"<=": 3}}
