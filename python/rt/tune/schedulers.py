"""Schedulers: which trials may go on. They run in the head; these objects only describe them."""

from __future__ import annotations

from typing import Any, Optional, Union


class TrialScheduler:
    """A description of a scheduler."""

    metric: Optional[str] = None
    mode: Optional[str] = None

    def to_spec(self) -> dict[str, Any]:
        """The `scheduler` of an experiment's specification."""
        raise TypeError(f"{type(self).__name__} is not a scheduler that rt knows: fifo, asha")


class FIFOScheduler(TrialScheduler):
    """Every trial runs to its own end."""

    def to_spec(self) -> dict[str, Any]:
        """{"fifo": {}}."""
        return {"fifo": {}}


class AsyncHyperBandScheduler(TrialScheduler):
    """Asynchronous successive halving (Li et al. 2020), the stopping variant, as in Ray.

    max_t and grace_period are in units of time_attr. At the rungs grace_period, grace_period *
    reduction_factor, ... the worst of those that got there are stopped. stop_last_trials: end a
    trial that reaches max_t. Raises ValueError for what cannot be.
    """

    def __init__(
        self,
        time_attr: str = "training_iteration",
        metric: Optional[str] = None,
        mode: Optional[str] = None,
        max_t: float = 100,
        grace_period: float = 1,
        reduction_factor: float = 4,
        brackets: int = 1,
        stop_last_trials: bool = True,
    ) -> None:
        if mode not in (None, "min", "max"):
            raise ValueError(f"mode must be 'min' or 'max', not {mode!r}")
        if max_t <= 0:
            raise ValueError("max_t must be above 0")
        if grace_period <= 0:
            raise ValueError("grace_period must be above 0")
        if max_t < grace_period:
            raise ValueError("max_t must not be below grace_period")
        if reduction_factor <= 1:
            raise ValueError("reduction_factor must be above 1")
        if brackets < 1 or brackets > 64 or brackets != int(brackets):
            raise ValueError("brackets must be a whole number between 1 and 64")
        self.metric = metric
        self.mode = mode
        self._arguments = {
            "time_attr": time_attr,
            "max_t": max_t,
            "grace_period": grace_period,
            "reduction_factor": reduction_factor,
            "brackets": int(brackets),
            "stop_last_trials": bool(stop_last_trials),
        }

    def to_spec(self) -> dict[str, Any]:
        """{"asha": {...}}."""
        return {"asha": dict(self._arguments)}


ASHAScheduler = AsyncHyperBandScheduler

_BY_NAME = {
    "fifo": FIFOScheduler,
    "asha": AsyncHyperBandScheduler,
    "async_hyperband": AsyncHyperBandScheduler,
    "asynchyperband": AsyncHyperBandScheduler,
}


def create_scheduler(scheduler: str, **arguments: Any) -> TrialScheduler:
    """The scheduler of that name. Raises ValueError that lists the known names."""
    try:
        return _BY_NAME[scheduler.lower()](**arguments)
    except KeyError:
        known = ", ".join(sorted(_BY_NAME))
        raise ValueError(f"unknown scheduler {scheduler!r}; known: {known}") from None


def as_scheduler(scheduler: Union[str, TrialScheduler, None]) -> TrialScheduler:
    """What a user gave as a scheduler, as one. Raises ValueError for anything else."""
    if scheduler is None:
        return FIFOScheduler()
    if isinstance(scheduler, str):
        return create_scheduler(scheduler)
    if isinstance(scheduler, TrialScheduler):
        return scheduler
    raise ValueError(f"{type(scheduler).__name__} is not a scheduler of rt; known: fifo, asha")


__all__ = [
    "ASHAScheduler",
    "AsyncHyperBandScheduler",
    "FIFOScheduler",
    "TrialScheduler",
    "create_scheduler",
]
