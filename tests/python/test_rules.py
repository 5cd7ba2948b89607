"""Stop expressions as the trial's side evaluates them."""

from __future__ import annotations

from rt._rules import is_met

TREE = {"or": [{"<": ["loss", 0.1]}, {">=": ["training_iteration", 100]}]}


def test_a_row_meets_the_expression_by_either_part() -> None:
    assert is_met(TREE, {"loss": 0.05, "training_iteration": 1}) is True
    assert is_met(TREE, {"loss": 0.5, "training_iteration": 100}) is True
    assert is_met(TREE, {"loss": 0.5, "training_iteration": 1}) is False


def test_what_depends_on_a_missing_value_is_unknown() -> None:
    assert is_met(TREE, {"training_iteration": 1}) is None
    assert is_met(TREE, {"training_iteration": 100}) is True
    assert is_met({"not": {"<": ["loss", 0.1]}}, {}) is None
    assert is_met({"and": [{"<": ["loss", 0.1]}, {">": ["acc", 5]}]}, {"acc": 1}) is False
    assert is_met({"<": ["loss", 0.1]}, {"loss": "low"}) is None


def test_names_reach_into_maps_and_numbers_may_be_special() -> None:
    assert is_met({">": ["val/loss", "train/loss"]}, {"val": {"loss": 2}, "train": {"loss": 1}})
    assert is_met({"<": ["loss", "Infinity"]}, {"loss": 1.0}) is True
    assert is_met({"<": ["loss", 1]}, {"loss": float("nan")}) is False
    assert is_met({"==": ["done", 1]}, {"done": True}) is True
    assert is_met({"not": {"!=": ["loss", 1]}}, {"loss": 1}) is True
    assert is_met({"<=": ["loss", 1]}, {"loss": 1}) is True
