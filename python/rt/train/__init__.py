"""rt.train: training on several ranks, under the names of ray.train."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any, Optional

from rt import _api
from rt._api import checkpoint_requested, get_checkpoint
from rt._checkpoint import Checkpoint
from rt._config import CheckpointConfig, FailureConfig, RunConfig, SyncConfig
from rt._paths import alias, announce_missing, no_attribute
from rt._resources import ScalingConfig
from rt.train import _shards
from rt.train._loop import TrainContext
from rt.train._shards import get_dataset_shard
from rt.train._trainer import DataParallelTrainer, TrainingFailedError
from rt.tune._results import Result

if TYPE_CHECKING:
    from rt.train import torch

__all__ = [
    "TRAIN_DATASET_KEY",
    "Checkpoint",
    "CheckpointConfig",
    "DataParallelTrainer",
    "FailureConfig",
    "Result",
    "RunConfig",
    "ScalingConfig",
    "SyncConfig",
    "TrainContext",
    "TrainingFailedError",
    "checkpoint_requested",
    "get_checkpoint",
    "get_context",
    "get_dataset_shard",
    "report",
    "torch",
]


TRAIN_DATASET_KEY = "train"  # The name that Ray's examples give to the data set in `datasets`.


def report(
    metrics: Optional[dict[str, Any]] = None,
    checkpoint: Optional[Checkpoint] = None,
    **named: Any,
) -> None:
    """Reports one row, with a checkpoint or without. Every rank must call it equally often.

    It returns once all ranks have called it as often as this one. The checkpoints that ranks pass
    with their n-th report are the shards of one checkpoint, which is committed once all of them are
    stored; it contains the files of all shards, and the positions of the data sets. The metrics of
    rank 0 are those of the run. Raises ValueError when the metrics are not a dict, and RuntimeError
    when a rank has ended, or is missing for longer than RT_TRAIN_BARRIER_TIMEOUT_S.
    """
    if checkpoint is not None and isinstance(checkpoint, Checkpoint):
        _shards.add_positions(checkpoint)
    _api.report_at_barrier(metrics, checkpoint, **named)


def get_context() -> TrainContext:
    """The context of the training run: rank, world size, names and paths."""
    return TrainContext()


def __getattr__(name: str) -> ModuleType:
    """Imports `rt.train.torch` when it is first used: it imports PyTorch."""
    if name == "torch":
        return importlib.import_module("rt.train.torch")
    no_attribute(__name__, name)


alias(
    [sys.modules[__name__]],
    {
        "rt.train.base_trainer": ["TrainingFailedError"],
        "rt.train.context": ["TrainContext", "get_context"],
        "rt.train.data_parallel_trainer": ["DataParallelTrainer"],
    },
)
announce_missing(*(each for name, each in sys.modules.items() if name.startswith("rt.train")))
