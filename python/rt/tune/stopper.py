"""Stoppers: user-defined rules that end trials, or the search.

MaximumIterationStopper, TimeoutStopper, one TrialPlateauStopper and one ExperimentPlateauStopper
become rules of the head. The others see every result in the driver, in order. A trial continues
only after the driver has decided about its newest result.
"""

from __future__ import annotations

import datetime
import math
import time
from abc import ABC, abstractmethod
from collections import defaultdict, deque
from collections.abc import Iterable
from typing import Any, Callable, Optional, Union

from rt._json import flatten, is_number, shown, unboxed
from rt._slips import number, refuse_class, suggests_arguments, whole

_HEAD_RESULTS_MAX = 256  # Values that the head keeps for each trial, and for each search.


def _spread(values: Iterable[float]) -> float:
    """The deviation of the values; NaN, which is below no limit, if a value is not finite."""
    from statistics import pstdev  # Takes six milliseconds, and few scripts need it.

    values = list(values)
    return pstdev(values) if all(map(math.isfinite, values)) else math.nan


def _deviation(std: Any) -> Any:
    if not is_number(unboxed(std)) or math.isnan(std):
        raise ValueError(f"std must be a number, not {shown(std)}")
    return std


class Stopper(ABC):
    """Called with every result. Subclasses define both methods."""

    @abstractmethod
    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Whether this trial ends after this result."""

    @abstractmethod
    def stop_all(self) -> bool:
        """Whether the search ends now."""


class NoopStopper(Stopper):
    """Stops nothing."""

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """False."""
        return False

    def stop_all(self) -> bool:
        """False."""
        return False


class FunctionStopper(Stopper):
    """Stops a trial when function(trial_id, result) is true. ValueError: not a function."""

    def __init__(self, function: Callable[[str, dict[str, Any]], bool]) -> None:
        if not callable(function):
            raise ValueError(f"FunctionStopper takes a function of (trial_id, result): {function}")
        self._function = function

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """The result of the function."""
        return bool(self._function(trial_id, result))

    def stop_all(self) -> bool:
        """False."""
        return False

    @classmethod
    def is_valid_function(cls, function: Any) -> bool:
        """Whether it can be called, and is not a stopper itself."""
        return callable(function) and not isinstance(function, Stopper)


class MaximumIterationStopper(Stopper):
    """Ends every trial after max_iter results."""

    def __init__(self, max_iter: int) -> None:
        whole("max_iter", max_iter, 1)
        self.max_iter = int(max_iter)
        self._results: dict[str, int] = defaultdict(int)

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Whether this is the trial's last result."""
        self._results[trial_id] += 1
        return self._results[trial_id] >= self.max_iter

    def stop_all(self) -> bool:
        """False."""
        return False


class TimeoutStopper(Stopper):
    """Ends the search after `timeout` (seconds or a timedelta) from its first trial on."""

    def __init__(self, timeout: Union[float, datetime.timedelta]) -> None:
        if isinstance(timeout, datetime.timedelta):
            self.timeout_s = timeout.total_seconds()
        else:
            self.timeout_s = float(number("timeout", timeout, "seconds or a datetime.timedelta"))
        if self.timeout_s <= 0:
            raise ValueError("timeout must be above 0")
        self._started: Optional[float] = None

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """False: all trials end together."""
        return False

    def stop_all(self) -> bool:
        """Whether the time has passed, counted from the first call."""
        now = time.monotonic()
        if self._started is None:
            self._started = now
        return now >= self._started + self.timeout_s


@suggests_arguments
class TrialPlateauStopper(Stopper):
    """Ends a trial whose metric no longer changes: the deviation of its last values is <= std.

    num_results: the number of values that are compared (one value never deviates: with 1 every
    trial ends at its result grace_period, as in Ray); grace_period: results before that;
    metric_threshold with mode: only trials above (max) or below (min) it are ended. The head has
    the rule; a trial that is restarted begins to count anew there.
    """

    def __init__(
        self,
        metric: str,
        std: float = 0.01,
        num_results: int = 4,
        grace_period: int = 4,
        metric_threshold: Optional[float] = None,
        mode: Optional[str] = None,
    ) -> None:
        if metric_threshold is not None and mode not in ("min", "max"):
            raise ValueError("metric_threshold needs mode='min' or mode='max'")
        if metric_threshold is not None:
            number("metric_threshold", metric_threshold)
        _deviation(std)
        whole("num_results", num_results, least=1)
        number("grace_period", grace_period)
        self._metric = metric
        self._std = std
        self._grace_period = grace_period
        self._threshold = metric_threshold
        self._mode = mode
        self._seen: dict[str, int] = defaultdict(int)
        self._values: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=num_results))
        self._num_results = num_results

    def to_spec(self) -> dict[str, Any]:
        """The rule for the head; empty where it needs this script, as with very many values."""
        counts = (self._num_results, self._grace_period)
        are_whole = all(isinstance(each, int) and not isinstance(each, bool) for each in counts)
        numbers = (self._std, 0.0 if self._threshold is None else self._threshold)
        are_numbers = all(isinstance(x, (int, float)) and math.isfinite(x) for x in numbers)
        if not are_whole or not are_numbers or not isinstance(self._metric, str):
            return {}
        if not (1 <= self._num_results <= _HEAD_RESULTS_MAX and 0 <= self._grace_period < 2**32):
            return {}
        if self._std < 0 or not self._metric:
            return {}
        rule = {
            "metric": self._metric,
            "std": float(self._std),
            "num_results": self._num_results,
            "grace_period": self._grace_period,
        }
        if self._threshold is not None:
            rule.update(metric_threshold=float(self._threshold), mode=self._mode)
        return rule

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Whether the trial has reached its plateau."""
        value = flatten(result).get(self._metric)
        if not isinstance(value, (int, float)):
            return False
        values = self._values[trial_id]
        values.append(float(value))
        self._seen[trial_id] += 1
        if self._seen[trial_id] < self._grace_period or len(values) < self._num_results:
            return False
        if self._threshold is not None:
            beyond = value >= self._threshold if self._mode == "max" else value <= self._threshold
            if not beyond:
                return False
        return _spread(values) <= self._std

    def stop_all(self) -> bool:
        """False."""
        return False


@suggests_arguments
class ExperimentPlateauStopper(Stopper):
    """Ends the search once the `top` best values agree within std for `patience` results.

    The values are those of all results, so that one trial may have several of the best. The head
    has the rule, and counts a result that a trial repeats after a restart once.
    """

    def __init__(
        self, metric: str, std: float = 0.001, top: int = 10, mode: str = "min", patience: int = 0
    ) -> None:
        if mode not in ("min", "max"):
            raise ValueError(f"mode must be 'min' or 'max', not {mode!r}")
        if not isinstance(top, int) or top <= 1:
            raise ValueError(f"top must be a whole number above 1, not {top!r}")
        if not isinstance(patience, int) or patience < 0:
            raise ValueError(f"patience must be a whole number of 0 or more, not {patience!r}")
        if _deviation(std) <= 0:
            raise ValueError("std must be above 0")
        self._metric = metric
        self._std = std
        self._top = top
        self._reverse = mode == "max"
        self._patience = patience
        self._in_row = 0
        self._best: list[float] = []

    def to_spec(self) -> dict[str, Any]:
        """The rule for the head; empty where it needs this script, as with very many values."""
        std = self._std
        is_finite = isinstance(std, (int, float)) and math.isfinite(std)
        if not is_finite or not isinstance(self._metric, str) or not self._metric:
            return {}
        if self._top > _HEAD_RESULTS_MAX or self._patience >= 2**32 or self._in_row or self._best:
            return {}
        return {
            "metric": self._metric,
            "std": float(std),
            "top": self._top,
            "patience": int(self._patience),
            "mode": "max" if self._reverse else "min",
        }

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Records the value; a trial ends when all trials end. NaN is never among the best."""
        value = flatten(result).get(self._metric)
        if isinstance(value, (int, float)):
            self._best += [] if math.isnan(value) else [float(value)]
            self._best = sorted(self._best, reverse=self._reverse)[: self._top]
            agree = len(self._best) == self._top and _spread(self._best) <= self._std
            self._in_row = self._in_row + 1 if agree else 0
        return self.stop_all()

    def has_plateaued(self) -> bool:
        """Whether the best values agree now."""
        return self._in_row > 0

    def stop_all(self) -> bool:
        """Whether the best values have agreed for long enough."""
        return self._in_row > 0 and self._in_row >= self._patience


class CombinedStopper(Stopper):
    """Combines stoppers: stops a trial when any of them does."""

    def __init__(self, *stoppers: Stopper) -> None:
        for stopper in stoppers:
            refuse_class("one of the stoppers", stopper)
            if not isinstance(stopper, Stopper):
                raise ValueError(f"{type(stopper).__name__} is not a Stopper")
        self.stoppers = list(stoppers)

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Asks all of them, so that each sees every result."""
        said = [stopper(trial_id, result) for stopper in self.stoppers]
        return any(said)

    def stop_all(self) -> bool:
        """Whether any of them ends the search."""
        said = [stopper.stop_all() for stopper in self.stoppers]
        return any(said)


def parts(stop: Any) -> list[Stopper]:
    """The stoppers of a Stopper or function; none for a dict, an expression or None."""
    if stop is None or isinstance(stop, (dict, str)):
        return []
    if isinstance(stop, CombinedStopper):
        return [part for stopper in stop.stoppers for part in parts(stopper)]
    if isinstance(stop, Stopper):
        return [] if isinstance(stop, NoopStopper) else [stop]
    refuse_class("stop", stop)
    if isinstance(stop, (list, tuple)):
        return [part for each in stop for part in parts(each)]
    if callable(stop):
        return [FunctionStopper(stop)]
    raise ValueError(
        "stop must be a dict {metric: threshold}, an expression such as 'loss < 0.1', a Stopper "
        "or a function"
    )


__all__ = [
    "CombinedStopper",
    "ExperimentPlateauStopper",
    "FunctionStopper",
    "MaximumIterationStopper",
    "NoopStopper",
    "Stopper",
    "TimeoutStopper",
    "TrialPlateauStopper",
]
