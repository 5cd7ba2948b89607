"""What those who choose among trials want of one, whether a head or a directory knows it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, Optional

from rt._checkpoint import Checkpoint
from rt._errors import TrialError
from rt._json import flatten

_STATES = {
    "STARTING": "PENDING",
    "STOPPING": "RUNNING",
    "COMPLETED": "TERMINATED",
    "STOPPED": "TERMINATED",
    "FAILED": "ERROR",
}


class AnyTrial(ABC):
    """One trial: its configuration, its rows and its checkpoints."""

    trial_id: str
    trial_name: str
    state: str  # As rt calls it.
    config: dict[str, Any]
    path: str  # Its results directory.

    @property
    @abstractmethod
    def rows(self) -> list[dict[str, Any]]:
        """All rows, oldest first, with the fields that rt fills in."""

    @property
    @abstractmethod
    def last_metrics(self) -> dict[str, Any]:
        """The newest row; empty when nothing was reported."""

    @property
    @abstractmethod
    def error(self) -> Optional[TrialError]:
        """What ended the trial, when it failed."""

    @property
    @abstractmethod
    def checkpoints(self) -> list[tuple[Checkpoint, dict[str, Any]]]:
        """Committed checkpoints, oldest first, each with the row that it came with."""

    @property
    def status(self) -> str:
        """The state as Ray calls it."""
        return _STATES.get(self.state, self.state)

    @property
    def last_result(self) -> dict[str, Any]:
        """The same as last_metrics."""
        return self.last_metrics

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

    def value(
        self, metric: str, mode: str, scope: str, finite_only: bool = True
    ) -> Optional[float]:
        """The trial's value of `metric` under `scope`, or None when it reported none."""
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
    """A float of what is a number; None of anything else."""
    return float(value) if isinstance(value, (int, float)) else None
