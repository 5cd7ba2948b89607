"""What steps cost: count, mean and variance per configuration, and the model fitted to them."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional

from rt.elastic._fit import Point, fit_perf_params
from rt.elastic.goodput import PerfParams

POINTS_MAX = 256  # Configurations that are remembered; batch sizes change at most every second.
LINE_POINTS_MAX = 32  # Points of one profile line; a worker drops a line with more.
SYNC_MAX = 0.999  # Of a step: something of it is always computation.


class Key(NamedTuple):
    """A configuration of steps. accumulation: micro-batches of a rank before the last one."""

    nodes: int
    ranks: int
    local: int
    accumulation: int
    gpu_type: str


class Tally:
    """Count, mean and variance of a number of seconds (Welford's method)."""

    def __init__(self) -> None:
        self.count = 0
        self.mean = 0.0
        self._squares = 0.0

    def add(self, value: float) -> None:
        """One more value."""
        self.count += 1
        off = value - self.mean
        self.mean += off / self.count
        self._squares += off * (value - self.mean)

    @property
    def variance(self) -> float:
        """The mean square of their distances from the mean: so variances can be merged."""
        return self._squares / self.count if self.count else 0.0

    def state(self) -> list[float]:
        """For a checkpoint."""
        return [self.count, self.mean, self._squares]

    def load(self, state: list[float]) -> None:
        """From a checkpoint."""
        self.count, self.mean, self._squares = int(state[0]), float(state[1]), float(state[2])


class Times(NamedTuple):
    """Of one configuration: micro-batches before the last one, the last one, and what the last one
    spends on synchronisation alone."""

    early: Tally
    step: Tally
    sync: Tally


class Profile:
    """What this run has measured, and what of it was not sent yet."""

    def __init__(self) -> None:
        self._known: dict[Key, Times] = {}
        self._fresh: dict[Key, Times] = {}
        self._fitted: Optional[PerfParams] = None
        self._fitted_count = -1

    def add(self, key: Key, early: list[float], step_s: float, sync_s: float) -> None:
        """One step: the seconds of its early micro-batches, of the last, and of synchronisation."""
        for times in (self._known, self._fresh):
            if key not in times and len(times) >= POINTS_MAX:
                times.pop(next(iter(times)))
            found = times.setdefault(key, Times(Tally(), Tally(), Tally()))
            for each in early:
                found.early.add(each)
            found.step.add(step_s)
            found.sync.add(min(max(sync_s, 0.0), SYNC_MAX * step_s))

    @property
    def count(self) -> int:
        """How many steps were measured."""
        return sum(each.step.count for each in self._known.values())

    def fit(self) -> Optional[PerfParams]:
        """The throughput model; None before the first measured step."""
        if self.count != self._fitted_count and self._known:
            points = [_point(key, times) for key, times in self._known.items()]
            self._fitted = fit_perf_params(points, self._fitted)
            self._fitted_count = self.count
        return self._fitted

    def forget_fresh(self) -> None:
        """What `fresh` returned was sent."""
        for key, _ in self._next_points():
            del self._fresh[key]

    def _next_points(self) -> list[tuple[Key, Times]]:
        by_count = sorted(self._fresh.items(), key=lambda each: -each[1].step.count)
        return by_count[:LINE_POINTS_MAX]

    def fresh(self) -> list[dict[str, Any]]:
        """The points of the next profile line, of what was measured and not sent yet: those with
        the most steps. The others are for later lines."""
        return [
            {
                "nodes": key.nodes, "ranks": key.ranks, "local": key.local,
                "accum": key.accumulation, "gpu_type": key.gpu_type, "count": times.step.count,
                "step": [times.step.mean, times.step.variance],
                "sync": [times.sync.mean, times.sync.variance],
            }
            for key, times in self._next_points()
        ]  # fmt: skip

    def state(self) -> list[Any]:
        """For a checkpoint."""
        return [[list(key), [each.state() for each in times]] for key, times in self._known.items()]

    def load(self, state: list[Any]) -> None:
        """From a checkpoint."""
        for key, tallies in state:
            times = self._known.setdefault(Key(*key), Times(Tally(), Tally(), Tally()))
            for tally, each in zip(times, tallies):
                tally.load(each)


def _point(key: Key, times: Times) -> Point:
    """The mean seconds of a computation alone, from all micro-batches, and of the last one."""
    alone = max(times.step.mean - times.sync.mean, 1e-6)
    early = times.early
    counts = early.count + times.step.count
    compute = (early.mean * early.count + alone * times.step.count) / counts
    return Point(key.nodes, key.ranks, key.local, max(compute, 1e-6), max(times.step.mean, 1e-6))
