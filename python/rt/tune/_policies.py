"""What population based training is given: mutations, bounds and recorded policies."""

from __future__ import annotations

import json
from typing import Any, Optional

from rt._encode import encode_space, json_value
from rt._json import is_finite, is_number, shown
from rt._slips import number
from rt._space import Domain, choice


def mutations_of(given: dict[str, Any], path: str = "") -> dict[str, Any]:
    """The JSON form of hyperparam_mutations. Raises ValueError for what cannot be explored."""
    found: dict[str, Any] = {}
    for name, mutation in given.items():
        where = f"hyperparam_mutations: {path}{name}"
        if isinstance(mutation, (list, tuple)):
            if not mutation:
                raise ValueError(f"{where} has an empty list")
            found[str(name)] = [json_value(value, (str(name),)) for value in mutation]
        elif isinstance(mutation, Domain):
            found[str(name)] = encode_space({"x": mutation})[0]["x"]
        elif isinstance(mutation, dict) and "grid_search" not in mutation:
            found[str(name)] = mutations_of(mutation, f"{path}{name}/")
        elif callable(mutation):
            raise ValueError(f"{where} is a function; give a domain such as tune.uniform(0, 1)")
        else:
            raise ValueError(f"{where} must be a list of values or a domain, not {mutation!r}")
    return found


def space_with(space: Optional[dict[str, Any]], mutations: dict[str, Any]) -> dict[str, Any]:
    """The search space; what it lacks of the mutated parameters is drawn from their mutations."""
    merged = dict(space or {})
    for name, mutation in mutations.items():
        if isinstance(mutation, dict):
            inner = merged.get(name)
            if inner is None or (isinstance(inner, dict) and "grid_search" not in inner):
                merged[name] = space_with(inner, mutation)
        elif name not in merged:
            is_list = isinstance(mutation, (list, tuple))
            merged[name] = choice(list(mutation)) if is_list else mutation
    return merged


def check_population(interval: Any, quantile: Any) -> None:
    """Raises ValueError for what population based training cannot have."""
    if number("perturbation_interval", interval) <= 0:
        raise ValueError("perturbation_interval must be above 0")
    if not 0 <= number("quantile_fraction", quantile) <= 0.5:
        raise ValueError("quantile_fraction must be between 0 and 0.5")


def bounds_of(given: Optional[dict[str, Any]]) -> dict[str, tuple[float, float]]:
    """The bounds of each explored parameter. Raises ValueError for what are none."""
    if not given or not isinstance(given, dict):
        raise ValueError("hyperparam_bounds names the parameters that are explored")
    found: dict[str, tuple[float, float]] = {}
    for name, pair in given.items():
        is_pair = isinstance(pair, (list, tuple)) and len(pair) == 2 and all(map(is_number, pair))
        if not is_pair or not pair[0] < pair[1]:
            raise ValueError(
                f"hyperparam_bounds: {name} must have two numbers, the smaller one first, not "
                f"{pair!r}"
            )
        found[str(name)] = (pair[0], pair[1])
    return found


def read_policy(path: str) -> tuple[dict[str, Any], list[tuple[float, dict[str, Any]]]]:
    """(first configuration, [(iteration, configuration from then on)]) of a recorded policy.

    The file has what `rt trial show TRIAL -o json` prints, or is a pbt_policy_*.txt of rt or Ray.
    There each line is [trial, parent, its iteration, the parent's iteration, the parent's
    configuration, the new configuration]. What a trial did before it took a checkpoint is of no
    effect: the lines are followed from the last one backwards, from each trial to its parent.
    Raises ValueError.
    """
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        trial: Any = json.loads(text) if text.lstrip().startswith("{") else None
        rows = [json.loads(each) for each in text.splitlines() if each.strip() and trial is None]
    except (OSError, ValueError) as error:
        raise ValueError(f"policy_file {path}: {error}") from None
    first: Any
    if trial is not None:
        policy = trial.get("policy") or {}
        first, changes = policy.get("config"), policy.get("changes")
        if not isinstance(changes, list) or not all(isinstance(each, dict) for each in changes):
            raise ValueError(f"policy_file {path}: there is no policy: the trial was never cloned")
        found = [(each.get("time"), each.get("config")) for each in changes]
    else:
        first, found = _along(path, rows)
    for time, config in [(0, first), *found]:
        if not isinstance(config, dict):
            raise ValueError(f"policy_file {path}: a configuration is a dict, not {shown(config)}")
        if not is_number(time) or not is_finite(time):
            raise ValueError(f"policy_file {path}: an iteration is a number, not {shown(time)}")
    # A checkpoint that two trials took one after the other was not trained on in between.
    later = [*(time for time, _ in found[1:]), None]
    return first, [change for change, after in zip(found, later) if change[0] != after]


def _along(path: str, rows: list[Any]) -> tuple[Any, list[tuple[Any, Any]]]:
    """What read_policy returns, of Ray's lines."""
    if not rows or not all(isinstance(row, list) and len(row) == 6 for row in rows):
        raise ValueError(f"policy_file {path}: each line must be a list of six values")
    changes: list[tuple[Any, Any]] = []
    parent, first = None, None
    for trial, source, _, iteration, before, after in reversed(rows):
        if changes and trial != parent:
            break
        parent, first = source, before
        changes.append((iteration, after))
    return first, changes[::-1]
