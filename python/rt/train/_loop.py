"""The trainable that a trainer makes: one call of the training function on each rank."""

from __future__ import annotations

import contextlib
import inspect
from typing import Any, Callable, Optional

from rt._api import TrialContext
from rt._json import shown
from rt._resources import ScalingConfig, as_request
from rt._slips import nearest
from rt._space import Domain, SampleFrom
from rt.train import _shards

LOOP_CONFIG = "train_loop_config"
SCALING = "scaling_config"
Backend = Callable[[], "contextlib.AbstractContextManager[Any]"]


def check_loop(function: Any) -> None:
    """Raises ValueError unless `function` takes one argument (the configuration) or none."""
    if not callable(function) or inspect.isclass(function):
        raise ValueError(f"train_loop_per_worker is a function, not {type(function).__name__}")
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return
    needed = [
        each
        for each in parameters
        if each.default is each.empty and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
    ]
    if len(needed) > 1 or any(each.kind == each.KEYWORD_ONLY for each in needed):
        raise ValueError(
            "train_loop_per_worker takes one argument, the configuration, or none; this function "
            f"takes {', '.join(each.name for each in needed)}"
        )


def _takes_config(function: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return True
    return any(
        each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD, each.VAR_POSITIONAL)
        for each in parameters
    )


class TrainLoop:
    """Calls the training function inside its backend (torch: inside a process group).

    A trial of a search may give other values of train_loop_config than the trainer's.
    """

    # Its own, not that of the function that it wraps.
    __signature__ = inspect.Signature(
        [inspect.Parameter("config", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
    )
    omp_threads = 1  # Per rank, unless the user has set OMP_NUM_THREADS, as with torchrun.

    def __init__(
        self,
        function: Callable[..., Any],
        loop_config: Optional[dict[str, Any]],
        backend: Backend,
        scaling: ScalingConfig,
        datasets: dict[str, Any],
        name: str,
    ) -> None:
        self.__name__ = name
        self.__wrapped__ = function  # A fork server imports what it imports (rt/_imports.py).
        self._loop_config = loop_config
        self._backend = backend
        self._datasets = datasets
        self._scaling = scaling
        # One request, or a function from a trial's configuration to its own.
        self._rt_resources: Any = as_request(scaling)

    def take_space(self, space: Any) -> Any:
        """The space as the search needs it: a ScalingConfig becomes a dict of its settings.

        Each trial then has the ranks of its own scaling_config. Raises ValueError for keys that a
        trainer does not take.
        """
        if not isinstance(space, dict):
            return space
        for key in space:
            if key not in (LOOP_CONFIG, SCALING):
                near = nearest(str(key), [LOOP_CONFIG, SCALING])
                hint = f"did you mean {near!r}?" if near else f"put it into {LOOP_CONFIG!r}"
                raise ValueError(f"param_space of a trainer: {key!r} is not known; {hint}")
        given = space.get(SCALING)
        if given is None:
            return space
        if isinstance(given, ScalingConfig):
            given = given.settings()
        elif isinstance(given, dict) and list(given) != ["grid_search"]:
            given = {**self._scaling.settings(), **given}
            ScalingConfig(**given)
        elif not isinstance(given, Domain) and not isinstance(given, (SampleFrom, dict)):
            raise ValueError(f"param_space: scaling_config is a ScalingConfig, not {shown(given)}")
        self._rt_resources = _scaled
        return {**space, SCALING: given}

    def __call__(self, config: dict[str, Any]) -> None:
        given = config.get(LOOP_CONFIG)
        merged = {**(self._loop_config or {}), **(given or {})}
        _shards.datasets = self._datasets
        with self._backend():
            if _takes_config(self.__wrapped__):
                self.__wrapped__(merged)
            else:
                self.__wrapped__()


def _scaled(config: dict[str, Any]) -> dict[str, Any]:
    """The resources of a trial with this configuration."""
    given = config[SCALING]
    return as_request(given if isinstance(given, ScalingConfig) else ScalingConfig(**given))


class TrainContext(TrialContext):
    """The training run, rank and node in which this code runs."""
