"""Names of schedulers and searchers that are swapped, with the arguments of others."""

from __future__ import annotations

from typing import Any

import pytest
from rt import tune


def test_arguments_of_other_classes_are_left_out() -> None:
    given: dict[str, Any] = {"metric": "m", "mode": "min", "max_t": 9}
    for name in ("fifo", "asha", "hyperband", "median_stopping_rule"):
        scheduler = tune.create_scheduler(name, **given)
        spec = next(iter(scheduler.to_spec().values()))
        assert spec.get("max_t", 9) == 9
    assert "max_t" not in str(tune.create_scheduler("medianstopping", **given).to_spec())
    for name in ("random", "variant_generator", "optuna", "hyperopt"):
        tune.create_searcher(name, metric="m", mode="min", points_to_evaluate=[])
    search = tune.create_searcher("random", n_initial_points=5, random_state=3)
    assert search.seed == 3


def test_an_argument_that_no_class_has_is_a_slip() -> None:
    with pytest.raises(TypeError, match="metrik"):
        tune.create_scheduler("asha", metrik="m")
    with pytest.raises(TypeError, match="metrik"):
        tune.create_searcher("random", metrik="m")
