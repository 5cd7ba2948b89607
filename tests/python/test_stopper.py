"""Stoppers, called as the driver calls them."""

from __future__ import annotations

import math

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
