"""The variants of a search space in the script, as Ray's variant_generator makes them.

A search does not use this: the head resolves its space. It is here for scripts that list the
configurations themselves.
"""

from __future__ import annotations

import copy
import itertools
import random
from collections.abc import Iterator
from typing import Any

from rt._computed import grids, resolve, variables
from rt._json import shown
from rt._seeds import as_seed
from rt._space import Domain, SampleFrom
from rt._values import Path

Found = list[tuple[Path, Any]]


class RecursiveDependencyError(Exception):
    """Values of a space that need each other."""

    def __init__(self, msg: str) -> None:
        super().__init__(msg)


def parse_spec_vars(spec: Any) -> tuple[Found, Found, Found]:
    """What is fixed in a spec, what is drawn or computed, and its grids: (path, value) each.

    {"eval": "..."} is a text of Python that is computed with the name `spec`.
    """
    grid = grids(spec)
    drawn = sorted([*variables(spec), *_evaluated(spec)], key=lambda each: _key(each[0]))
    taken = {path for path, _ in [*grid, *drawn]}
    fixed = [(path, value) for path, value in _leaves(spec, taken) if path not in taken]
    return fixed, drawn, sorted(grid, key=lambda each: _key(each[0]))


def generate_variants(
    unresolved_spec: dict[str, Any], constant_grid_search: bool = False, random_state: Any = None
) -> Iterator[tuple[dict[Path, Any], dict[str, Any]]]:
    """({path: value} of the variables, configuration) of each point of the grids.

    The first grid, in the order of the paths, varies fastest. Everything that is drawn is drawn for
    each point, or once with constant_grid_search. Raises RecursiveDependencyError for values that
    need each other.
    """
    _, drawn, grid = parse_spec_vars(unresolved_spec)
    seed = as_seed(random_state)
    source = random.Random(random.getrandbits(64) if seed is None else seed)
    kept = source.getstate()
    # product() varies the last one fastest.
    for point in itertools.product(*(values for _, values in reversed(grid))):
        chosen = dict(zip((path for path, _ in reversed(grid)), point))
        if constant_grid_search:
            source.setstate(kept)
        config = copy.deepcopy(unresolved_spec)
        for path, value in chosen.items():
            assign_value(config, path, copy.deepcopy(value))
        for path, value in drawn:
            if isinstance(value, str):
                assign_value(config, path, _Evaluated(value))
        inner = [each for path in chosen for each in _inside(config, path)]
        try:
            resolve(config, [*(_at(config, path) for path, _ in drawn), *inner], source)
        except ValueError as error:
            raise RecursiveDependencyError(str(error)) from None
        paths = [path for path, _ in [*grid, *drawn]]
        yield {path: _value(config, path) for path in sorted(paths, key=_key)}, config


def assign_value(spec: dict[str, Any], path: Path, value: Any) -> None:
    """Replaces the value at a path."""
    parent = _value(spec, path[:-1])
    parent[path[-1]] = value


def format_vars(resolved_vars: dict[Path, Any]) -> str:
    """The variables as a text: "lr=0.1000,width=64"."""
    parts = []
    for path, value in sorted(resolved_vars.items(), key=lambda each: _key(each[0])):
        if path and path[0] in ("run", "env", "resources_per_trial"):
            continue  # As in Ray: these are no hyperparameters.
        last = [str(step) for step in path if isinstance(step, int)]
        name = [each for each in path if isinstance(each, str)][-1:]
        parts.append(f"{'_'.join([*name, *last])}={_short(value)}")
    return ",".join(parts)


def flatten_resolved_vars(resolved_vars: dict[Path, Any]) -> dict[str, Any]:
    """The paths as texts with slashes."""
    return {"/".join(map(str, path)): value for path, value in resolved_vars.items()}


class _Evaluated(SampleFrom):
    """A text of Python, computed with the name `spec`."""

    def __init__(self, text: str) -> None:
        super().__init__(lambda spec: eval(text, {"spec": spec}))  # As the script asks.


def _evaluated(value: Any, path: Path = ()) -> Found:
    if isinstance(value, dict) and list(value) == ["eval"] and isinstance(value["eval"], str):
        return [(path, value["eval"])]
    items: Any = ()
    if isinstance(value, dict) and list(value) != ["grid_search"]:
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    return [found for key, item in items for found in _evaluated(item, (*path, key))]


def _leaves(value: Any, taken: set[Path], path: Path = ()) -> Found:
    if path in taken or not isinstance(value, (dict, list)) or not value:
        return [(path, value)]
    items: Any = value.items() if isinstance(value, dict) else enumerate(value)
    return [found for key, item in items for found in _leaves(item, taken, (*path, key))]


def _inside(config: Any, path: Path) -> Found:
    """What is drawn inside the value of a grid."""
    found = _value(config, path)
    return [((*path, *rest), each) for rest, each in variables(found)]


def _at(config: Any, path: Path) -> tuple[Path, Any]:
    return path, _value(config, path)


def _value(config: Any, path: Path) -> Any:
    for step in path:
        config = config[step]
    return config


def _key(path: Path) -> list[str]:
    return [str(step) for step in path]


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4f}"
    return (
        shown(value).strip("'") if not isinstance(value, (Domain, dict)) else type(value).__name__
    )
