"""Values that the driver computes for each trial: sample_from, and domains inside a choice."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from rt._encode import draws_inside
from rt._space import Domain, SampleFrom, Unresolved
from rt._values import Path

_STEPS_MAX = 10_000  # Bounds functions that return further functions.


def variables(value: Any, path: Path = ()) -> list[tuple[Path, Any]]:
    """The domains and sample_from values inside `value`, with their paths below `path`."""
    if isinstance(value, (Domain, SampleFrom)):
        return [(path, value)]
    return [found for key, item in _items(value) for found in variables(item, (*path, key))]


def computed(space: dict[str, Any], head_draws: bool = True) -> list[tuple[Path, Any]]:
    """The parts of a space that only the driver can compute: (path, placeholder until then).

    The placeholder is a SampleFrom, or None where the head chooses among values of which some have
    domains, and others are computed. Where none is, the head draws the domains as well.
    """
    found: list[tuple[Path, Any]] = []
    chosen = grids(space)
    for path, value in variables(space):
        if isinstance(value, SampleFrom):
            found.append((path, value))
        elif value.name == "choice" and not draws_inside(value):
            chosen.append((path, value.arguments))
    if head_draws:
        found += [(path, None) for path, values in chosen if any(map(variables, values))]
    return found


def grids(value: Any, path: Path = ()) -> list[tuple[Path, list[Any]]]:
    """The values of the grids inside `value`, with their paths below `path`."""
    if isinstance(value, dict) and list(value) == ["grid_search"]:
        return [(path, list(value["grid_search"]))]
    return [found for key, item in _items(value) for found in grids(item, (*path, key))]


def _items(value: Any) -> Iterable[tuple[Any, Any]]:
    if isinstance(value, dict):
        return value.items()
    return enumerate(value) if isinstance(value, list) else ()


def place(config: Any, path: Path, value: Any) -> None:
    """Replaces the value at an existing path."""
    for step in path[:-1]:
        config = config[step]
    config[path[-1]] = value


def value_at(config: Any, path: Path) -> Any:
    """The value at an existing path."""
    for step in path:
        config = config[step]
    return config


def resolve(
    config: dict[str, Any], values: list[tuple[Path, Any]], source: random.Random
) -> dict[str, Any]:
    """`config` with the values of `computed` filled in, in place.

    Each value is computed after the values that it uses. Raises ValueError for a cycle.
    """
    left = []
    for path, value in values:
        left += variables(
            _set(config, path, value_at(config, path) if value is None else value), path
        )
    steps = 0
    while left:
        waiting: list[tuple[Path, Any]] = []
        moved = False
        for path, value in left:
            steps += 1
            try:
                found = value.draw(source) if isinstance(value, Domain) else value.compute(config)
            except Unresolved:
                waiting.append((path, value))
                continue
            moved = True
            waiting += variables(_set(config, path, found), path)
        if not moved or steps > _STEPS_MAX:
            names = ", ".join("/".join(map(str, path)) for path, _ in waiting)
            raise ValueError(f"{names}: these values of the search space need each other")
        left = waiting
    return config


def _set(config: dict[str, Any], path: Path, value: Any) -> Any:
    """Places a copy of `value`, into which other values can be placed; returns the copy."""
    kept = _copy(value)
    place(config, path, kept)
    return kept


def _copy(value: Any) -> Any:
    if type(value) is dict:
        return {key: _copy(item) for key, item in value.items()}
    return [_copy(item) for item in value] if type(value) is list else value
