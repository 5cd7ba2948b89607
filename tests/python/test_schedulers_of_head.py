"""Schedulers of the head by Ray's names: what of their arguments becomes of the specification."""

from __future__ import annotations

from typing import Any

import pytest
from rt import tune
from rt.tune.schedulers import (
    HyperBandForBOHB,
    HyperBandScheduler,
    MedianStoppingRule,
    create_scheduler,
    runs_in_head,
)


def test_arguments_have_rays_defaults() -> None:
    assert MedianStoppingRule().to_spec() == {
        "median_stopping": {
            "time_attr": "time_total_s",
            "grace_period": 60.0,
            "min_samples_required": 3,
            "hard_stop": True,
        }
    }
    assert HyperBandScheduler().to_spec() == {
        "hyperband": {
            "time_attr": "training_iteration",
            "max_t": 81,
            "reduction_factor": 3,
            "largest_first": False,
            "stop_last_trials": True,
        }
    }
    assert HyperBandForBOHB(max_t=9).to_spec()["hyperband"]["largest_first"]


@pytest.mark.parametrize(
    ("name", "cls"),
    [
        ("median_stopping_rule", MedianStoppingRule),
        ("medianstopping", MedianStoppingRule),
        ("hyperband", HyperBandScheduler),
        ("hb_bohb", HyperBandForBOHB),
    ],
)
def test_rays_names_make_them(name: str, cls: type) -> None:
    scheduler = create_scheduler(name, metric="m", mode="min")
    assert type(scheduler) is cls and runs_in_head(scheduler)


def test_rays_modules_have_them() -> None:
    from rt.tune.schedulers.hb_bohb import HyperBandForBOHB as Bohb
    from rt.tune.schedulers.hyperband import HyperBandScheduler as Hyper
    from rt.tune.schedulers.median_stopping_rule import MedianStoppingRule as Median

    assert (Bohb, Hyper, Median) == (HyperBandForBOHB, HyperBandScheduler, MedianStoppingRule)


class OwnRule(MedianStoppingRule):
    """Decides in the script."""


def test_a_subclass_runs_in_the_script() -> None:
    assert not runs_in_head(OwnRule())


@pytest.mark.parametrize(
    ("cls", "arguments", "message"),
    [
        (MedianStoppingRule, {"grace_period": -1}, "grace_period must be at least 0"),
        (MedianStoppingRule, {"min_samples_required": 1.5}, "must be a whole number, at least 0"),
        (MedianStoppingRule, {"min_time_slice": -1}, "min_time_slice must be at least 0"),
        (MedianStoppingRule, {"mode": "best"}, "mode must be 'min' or 'max'"),
        (HyperBandScheduler, {"max_t": 0}, "max_t must be at least 1"),
        (HyperBandScheduler, {"reduction_factor": 1}, "reduction_factor must be at least 1.1"),
        (HyperBandForBOHB, {"mode": "best"}, "mode must be 'min' or 'max'"),
    ],
)
def test_wrong_arguments_are_refused(cls: Any, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cls(**arguments)


def test_a_misspelt_argument_is_named() -> None:
    with pytest.raises(TypeError, match="grace_period"):
        MedianStoppingRule(grace_perod=1)  # type: ignore[call-arg]
    assert tune.schedulers.MedianStoppingRule is MedianStoppingRule
