"""The common part of the callbacks for experiment trackers: what of a row is a metric."""

from __future__ import annotations

import math
import os
from typing import Any

from rt import _api
from rt._json import flatten, shown, unboxed


def metrics_of(result: dict[str, Any]) -> dict[str, float]:
    """{"a/b": number} of a row, without its configuration and what is no number."""
    flat = flatten({key: value for key, value in result.items() if key != "config"})
    numbers = {key: unboxed(value) for key, value in flat.items()}
    return {
        key: float(value)
        for key, value in numbers.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    }


def finite(values: dict[str, float]) -> dict[str, float]:
    """Without NaN and infinities."""
    return {key: value for key, value in values.items() if math.isfinite(value)}


def step_of(result: dict[str, Any]) -> int:
    """The step of a row: its timesteps where the trainable counts them, else its iteration."""
    return int(result.get("timesteps_total") or result.get("training_iteration") or 0)


def params_of(config: dict[str, Any]) -> dict[str, str]:
    """{"a/b": text} of a configuration."""
    flat = flatten(config)
    return {key: each if isinstance(each, str) else shown(each) for key, each in flat.items()}


def plain(value: Any) -> Any:
    """A configuration with texts for what JSON cannot hold."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    number = unboxed(value)
    return number if isinstance(number, (str, int, float, bool, type(None))) else shown(value)


def trial_key(trial: Any) -> str:
    """What tells a trial from all others, also after a restart of the driver: its directory."""
    return str(trial.local_path or trial.trial_id)


def own_key() -> str:
    """The same inside the trial: searches that are to be told apart have names of their own."""
    context = _api.get_context()
    return f"{context.get_experiment_name()}/{context.get_trial_id()}/{context.get_trial_name()}"


def is_repeated() -> bool:
    """Whether this is not the first attempt at the trial."""
    return int(os.environ.get("RT_ATTEMPT") or 1) > 1


def rank_is_zero() -> bool:
    """Whether this is the process that reports for all ranks."""
    return _api.get_context().get_world_rank() == 0


class Nothing:
    """What ranks above 0 get in place of the library: every attribute and call gives it again."""

    def __getattr__(self, name: str) -> Nothing:
        return self

    def __call__(self, *_: Any, **__: Any) -> Nothing:
        return self

    def __enter__(self) -> Nothing:
        return self

    def __exit__(self, *_: object) -> None:
        return None
