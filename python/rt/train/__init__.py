"""rt.train: the names that scripts import from ray.train."""

import sys

from rt._api import TrialContext, checkpoint_requested, get_checkpoint, get_context
from rt._api import report_together as report
from rt._checkpoint import Checkpoint
from rt._config import CheckpointConfig, FailureConfig, RunConfig, SyncConfig
from rt._paths import announce_missing
from rt._resources import ScalingConfig
from rt.tune._results import Result

TrainContext = TrialContext

__all__ = [
    "Checkpoint",
    "CheckpointConfig",
    "FailureConfig",
    "Result",
    "RunConfig",
    "ScalingConfig",
    "SyncConfig",
    "TrainContext",
    "checkpoint_requested",
    "get_checkpoint",
    "get_context",
    "report",
]

announce_missing(sys.modules[__name__])
