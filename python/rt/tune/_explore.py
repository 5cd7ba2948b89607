"""custom_explore_fn: the user's function that changes the configurations of clones."""

from __future__ import annotations

import copy
from typing import Any, Callable, Optional

from rt._encode import bounded, json_config
from rt._json import numbers
from rt._values import ValueTable, restore_values

Explore = Callable[[dict[str, Any]], dict[str, Any]]
_TEXT_MAX = 300  # Of an exception's text: it stands in a line of `rt exp show`.


def name_of(explore: Any) -> str:
    """What the function is called in errors."""
    return str(getattr(explore, "__name__", type(explore).__name__))


def explored(
    explore: Optional[Explore], entry: dict[str, Any], table: ValueTable
) -> dict[str, Any]:
    """The answer about one clone, whose configuration the head has mutated already.

    {"number", "params"}, or {"number", "failure"} where the function raises or returns no
    configuration: the clone then has the head's one. Raises nothing.
    """
    found: dict[str, Any] = {"number": int(entry["number"])}
    if explore is None:
        return {**found, "failure": "the script has no custom_explore_fn any more"}
    config = restore_values(numbers(copy.deepcopy(entry["params"] or {})), table)
    try:
        made = explore(config)
        if not isinstance(made, dict):
            raise TypeError(f"it must return a configuration as a dict, not {type(made).__name__}")
        return {**found, "params": bounded(json_config(made))}
    except Exception as error:
        text = f"{type(error).__name__}: {error}"[:_TEXT_MAX]
        return {**found, "failure": f"custom_explore_fn {name_of(explore)}: {text}"}
