"""Stoppers, called as the driver calls them."""

from __future__ import annotations

import math

from rt.tune import stopper


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
