"""Tuner.restore with a corrected script: its functions and classes replace the pickled ones."""

from __future__ import annotations

import dataclasses
from typing import Any, Optional, TypeVar

from rt._config import RunConfig
from rt._encode import encode_space
from rt._json import shown
from rt.tune._experiment import Request, TuneConfig, build_spec

# What a script gives again. The rest of the specification is the head's, and stays.
_AGAIN = ("experiment", "trainable", "command", "space", "resources", "results_dir")
# What the head asks the script, and the argument that says so.
_ASKED = {
    "suggests": "search_alg, trial_name_creator, sample_from or resources by configuration",
    "judges": "stop or scheduler",
    "chooses": "scheduler with choose_trial_to_run",
    "explores": "custom_explore_fn",
    "allocates": "resources_allocation_function",
}

_Config = TypeVar("_Config", TuneConfig, RunConfig)


def _merged(kept: _Config, given: Optional[_Config]) -> _Config:
    """The settings that `given` has; those that it leaves out are the kept ones."""
    if given is None:
        return kept
    plain = type(given)()
    names = [each.name for each in dataclasses.fields(given)]
    changed = {name: getattr(given, name) for name in names}
    return dataclasses.replace(
        kept, **{name: value for name, value in changed.items() if value != getattr(plain, name)}
    )


def corrected(request: Request, tune: Optional[TuneConfig], run: Optional[RunConfig]) -> Request:
    """The request with the functions and classes of `tune` and `run`.

    Raises ValueError where they would change a setting that the head has.
    """
    new = dataclasses.replace(
        request, tune=_merged(request.tune, tune), run=_merged(request.run, run)
    )
    before, after = build_spec(request)[0], build_spec(new)[0]
    for key in sorted({*before, *after} - set(_AGAIN)):
        if before.get(key) != after.get(key):
            raise ValueError(
                f"Tuner.restore continues a search with its settings: {key} is "
                f"{before.get(key)!r}, and cannot become {after.get(key)!r}"
            )
    return new


def check_same_space(kept: Optional[dict[str, Any]], given: Optional[dict[str, Any]]) -> None:
    """Raises ValueError where `given` draws other values than `kept`, which the search draws.

    Functions of sample_from may differ.
    """
    before, after = encode_space(kept)[0], encode_space(given)[0]
    for key in sorted({*before, *after}):
        if key not in before or key not in after or before[key] != after[key]:
            raise ValueError(
                f"Tuner.restore continues a search in its space: {key} is {_shown(kept, key)}, and "
                f"cannot become {_shown(given, key)}; give the param_space of the first run, or "
                "none"
            )


def _shown(space: Optional[dict[str, Any]], key: str) -> str:
    return shown(space[key]) if space and key in space else "absent"


def check_asked(given: dict[str, Any], asked: dict[str, Any]) -> None:
    """Raises ValueError where a resumed search's script says what nobody asks it."""
    for key, argument in _ASKED.items():
        if given.get(key) and not asked.get(key):
            raise ValueError(
                f"a search that was started without a function or class of the script's for "
                f"{argument} cannot be given one later"
            )
    if given and not asked:
        raise ValueError("a search that was started without callbacks cannot be given one later")
