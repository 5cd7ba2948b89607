"""Stop rules and stop expressions, as the trial's side evaluates them.

The head sends the tree of the experiment's expression (docs/trial-protocol.md):
{"or": [tree, ...]}, {"and": [tree, ...]}, {"not": tree}, or a comparison such as
{"<": ["loss", 0.1]}, in which a text is the name of a reported value.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Optional

from rt._json import flatten, number_at, numbers

_COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


def meets_any(rules: list[dict[str, Any]], row: dict[str, Any]) -> bool:
    """Whether the row meets one of the rules: {"key", "at_most", "threshold"}."""
    for rule in rules:
        value = number_at(row, str(rule["key"]))
        if value is None:
            continue
        bound = numbers(rule["threshold"])
        if (value <= bound) if rule.get("at_most") else (value >= bound):
            return True
    return False


def is_met(tree: dict[str, Any], row: dict[str, Any]) -> Optional[bool]:
    """Whether the row meets the expression; None where it depends on a value that the row lacks."""
    ((word, inner),) = tree.items()
    if word == "not":
        value = is_met(inner, row)
        return None if value is None else not value
    if word in ("or", "and"):
        decisive = word == "or"
        values = [is_met(one, row) for one in inner]
        if decisive in values:
            return decisive
        return None if None in values else not decisive
    left, right = (number_at(row, one) if isinstance(one, str) else one for one in numbers(inner))
    if left is None or right is None:
        return None
    return _COMPARISONS[word](left, right)


def is_over(
    row: dict[str, Any],
    rules: list[dict[str, Any]],
    tree: Optional[dict[str, Any]],
    time_attr: str,
    max_t: Optional[float],
) -> bool:
    """Whether a trial ends after this row: by a rule, by the expression, or at `max_t`."""
    flat = flatten(row)
    if meets_any(rules, flat) or (tree and is_met(tree, flat)):
        return True
    reached = number_at(flat, time_attr) if max_t is not None else None
    return reached is not None and max_t is not None and reached >= max_t
