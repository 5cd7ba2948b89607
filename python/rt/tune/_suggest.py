"""What a searcher of the script's own suggests, as the head takes it."""

from __future__ import annotations

from typing import Any

from rt._encode import bounded, json_config
from rt._json import shown


def suggested(searcher: Any, params: dict[str, Any], found: Any) -> dict[str, Any]:
    """The configuration of a trial: `params`, overridden by what suggest() returned.

    Raises ValueError, which names the searcher, for what is no configuration.
    """
    name = type(searcher).__name__
    if not isinstance(found, dict):
        raise ValueError(
            f"{name}.suggest returned {shown(found)}; it returns a configuration as a dict, None: "
            "no trial now, or Searcher.FINISHED"
        )
    try:
        return bounded(json_config(merged(params, found)))
    except ValueError as error:
        raise ValueError(f"{name}.suggest: {error}") from None


def merged(config: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """The constants of the space, overridden by the searcher's suggestion."""
    made = dict(config)
    for key, value in found.items():
        head, slash, rest = str(key).partition("/")
        if slash:
            value = merged(made.get(head) or {}, {rest: value})
            made[head] = value
        elif isinstance(value, dict) and isinstance(made.get(key), dict):
            made[key] = merged(made[key], value)
        else:
            made[key] = value
    return made
