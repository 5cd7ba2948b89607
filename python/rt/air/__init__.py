"""rt.air: the names of ray.air in Ray 2.x; the same objects as in rt.train."""

import sys

from rt._checkpoint import Checkpoint
from rt._config import CheckpointConfig, FailureConfig, RunConfig
from rt._paths import alias, announce_missing
from rt._resources import ScalingConfig
from rt.air import session
from rt.tune._results import Result

__all__ = [
    "Checkpoint",
    "CheckpointConfig",
    "FailureConfig",
    "Result",
    "RunConfig",
    "ScalingConfig",
    "session",
]

alias(
    [sys.modules[__name__]],
    {
        "rt.air.checkpoint": ["Checkpoint"],
        "rt.air.config": ["CheckpointConfig", "FailureConfig", "RunConfig", "ScalingConfig"],
        "rt.air.result": ["Result"],
    },
)
announce_missing(*(each for name, each in sys.modules.items() if name.startswith("rt.air")))
