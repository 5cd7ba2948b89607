"""The common interface of trials, whether they come from a head or from a directory."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Optional

from rt._checkpoint import Checkpoint
from rt._encode import constants
from rt._errors import TrialError
from rt._json import flatten
from rt._paths import Explained
from rt._values import Path

_STATES = {
    "STARTING": "PENDING",
    "STOPPING": "RUNNING",
    "COMPLETED": "TERMINATED",
    "STOPPED": "TERMINATED",
    "FAILED": "ERROR",
}


class AnyTrial(Explained, ABC):
    """One trial: its configuration, its rows and its checkpoints."""

    _ray_name = "rt.tune.Trial"
    PENDING, RUNNING, PAUSED = "PENDING", "RUNNING", "PAUSED"  # The states in Ray's terms.
    TERMINATED, ERROR = "TERMINATED", "ERROR"

    trial_id: str
    trial_name: str
    state: str  # In rt's terms.
    config: dict[str, Any]
    path: str  # The results directory.
    trainable_name: str = ""
    num_failures: int = 0
    space: Mapping[str, Any] = {}  # The space of its search, in the form of the head.

    @property
    @abstractmethod
    def rows(self) -> list[dict[str, Any]]:
        """All rows, oldest first, with the fields that rt adds."""

    @property
    @abstractmethod
    def last_metrics(self) -> dict[str, Any]:
        """The newest row; empty when there was no report."""

    @property
    @abstractmethod
    def error(self) -> Optional[TrialError]:
        """The error that ended the trial, if it failed."""

    @property
    @abstractmethod
    def checkpoints(self) -> list[tuple[Checkpoint, dict[str, Any]]]:
        """Committed checkpoints, oldest first, each with its row."""

    @property
    def status(self) -> str:
        """The state in Ray's terms."""
        return _STATES.get(self.state, self.state)

    def is_finished(self) -> bool:
        """Whether it has ended."""
        return self.status in ("TERMINATED", "ERROR")

    @property
    def evaluated_params(self) -> dict[str, Any]:
        """The values drawn or suggested for it: its configuration without the constants."""
        return evaluated(self.config, self.space)

    @property
    def experiment_tag(self) -> str:
        """Its number and drawn values, "3_lr=0.1000,width=64", once it has reported."""
        return str(self.last_metrics.get("experiment_tag") or "")

    @property
    def metric_analysis(self) -> dict[str, dict[str, float]]:
        """Metric -> its "max", "min", "avg" and "last"."""
        summary = MetricSummary()
        for row in self.rows:
            summary.add(row)
        return summary.values

    @property
    def last_result(self) -> dict[str, Any]:
        """The newest row; of a clone that ended without a row of its own, the one before it."""
        return self.last_metrics or self._row_before_clone()

    def _row_before_clone(self) -> dict[str, Any]:
        return {}

    @property
    def local_path(self) -> str:
        """The trial's results directory, on the machine of the head."""
        return self.path

    @property
    def logdir(self) -> str:
        """The older name of local_path."""
        return self.path

    @property
    def checkpoint(self) -> Optional[Checkpoint]:
        """The newest committed checkpoint, or None."""
        found = self.checkpoints
        return found[-1][0] if found else None

    @property
    def has_checkpoint(self) -> bool:
        """Whether a checkpoint was stored."""
        return bool(self.checkpoints)

    def value(
        self, metric: str, mode: str, scope: str, finite_only: bool = True
    ) -> Optional[float]:
        """The trial's value of `metric` under `scope`, or None without a report of it."""
        if scope == "last":
            found = as_number(flatten(self.last_metrics).get(metric))
            return None if found is None or (finite_only and not math.isfinite(found)) else found
        values = [as_number(flatten(row).get(metric)) for row in self.rows]
        kept = [v for v in values if v is not None and (not finite_only or math.isfinite(v))]
        if not kept:
            return None
        if scope == "all":
            return max(kept) if mode == "max" else min(kept)
        if scope != "avg":
            kept = kept[-int(scope.split("-")[1]) :]
        return sum(kept) / len(kept)

    def __repr__(self) -> str:
        return self.trial_name


def as_number(value: Any) -> Optional[float]:
    """A number as a float; None for anything else."""
    return float(value) if isinstance(value, (int, float)) else None


class MetricSummary:
    """Extremes, mean and newest value of every metric, row by row; booleans are ignored."""

    def __init__(self) -> None:
        self.values: dict[str, dict[str, float]] = {}
        self.counts: dict[str, int] = {}

    def add(self, row: dict[str, Any]) -> None:
        """Adds one row."""
        for name, value in flatten(row).items():
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                continue
            count = self.counts[name] = self.counts.get(name, 0) + 1
            known = self.values.setdefault(name, dict.fromkeys(("max", "min", "avg"), value))
            known["max"], known["min"] = max(known["max"], value), min(known["min"], value)
            known["avg"] += (value - known["avg"]) / count
            known["last"] = value


def drawn(config: Any, space: Any) -> dict[Path, Any]:
    """Path -> value of every parameter that is not a constant in `space` (JSON form)."""
    found: dict[Path, Any] = {}
    if isinstance(config, list):
        config, space = dict(enumerate(config)), dict(enumerate(space))
    fixed = constants(space)
    for key, value in config.items():
        constant = fixed.get(key)
        if isinstance(constant, dict) and list(constant) == ["constant"]:
            continue
        if isinstance(value, (dict, list)) and isinstance(constant, type(value)):
            found.update({(key, *path): each for path, each in drawn(value, constant).items()})
        elif key not in fixed or (constant is None and value is not None):
            found[(key,)] = value  # None is a placeholder for computed values.
    return found


def evaluated(config: dict[str, Any], space: Mapping[str, Any]) -> dict[str, Any]:
    """The same in Ray's form: paths are texts with slashes."""
    return {"/".join(map(str, path)): value for path, value in drawn(config, space).items()}


def tag_of(number: int, config: dict[str, Any], space: Mapping[str, Any]) -> str:
    """A trial's experiment_tag: "3_lr=0.1000,width=64", in the order of the paths."""
    pairs = sorted(drawn(config, space).items(), key=lambda pair: [str(step) for step in pair[0]])
    parts = [f"{_tag_text(path[-1])}={_tag_text(value)}" for path, value in pairs]
    return "_".join([str(number), *([",".join(parts)] if parts else [])])


def _tag_text(value: Any) -> str:
    """The text without characters that are invalid in a directory's name."""
    if isinstance(value, float):
        return f"{value:.4f}"
    return re.sub("[^a-zA-Z0-9_-]+", "_", str(value)).strip("_")
