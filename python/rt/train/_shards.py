"""The parts of the trainer's data sets that this rank reads, and their positions in checkpoints."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from rt import _api
from rt._checkpoint import Checkpoint

datasets: dict[str, Any] = {}  # Of the trainer, by name.
_iterators: dict[str, Any] = {}


def get_dataset_shard(dataset_name: str = "train") -> Any:
    """This rank's part of a data set of the trainer, as an rt.data.DataIterator.

    After a restart it continues behind the rows that the checkpoint's rank had taken. Raises
    KeyError for a data set that the trainer was not given.
    """
    if dataset_name not in datasets:
        known = ", ".join(sorted(datasets)) or "none"
        raise KeyError(f"the trainer has no data set {dataset_name!r}; it has: {known}")
    if dataset_name not in _iterators:
        context = _api.get_context()
        rank, size = context.get_world_rank(), context.get_world_size()
        data = importlib.import_module("rt.data")
        _share_counts()
        iterator = data.shard(datasets[dataset_name], rank, size)
        checkpoint = _api.get_checkpoint()
        if checkpoint is not None:
            positions = data.read_positions(checkpoint.path)
            iterator.resume(positions.get(dataset_name, []))
        _iterators[dataset_name] = iterator
    return _iterators[dataset_name]


def _share_counts() -> None:
    """Rows that must be counted are counted by one rank, where the ranks have a process group."""
    dist: Any = sys.modules.get("torch.distributed")
    if dist is None or not dist.is_available() or not dist.is_initialized():
        return
    if dist.get_world_size() > 1:
        counts = importlib.import_module("rt.data._shared_counts")
        counts.share_counts(dist.distributed_c10d._get_default_store())


def add_positions(checkpoint: Checkpoint) -> None:
    """Writes the positions of the data sets in use into the directory of a checkpoint."""
    if not _iterators:
        return
    data = importlib.import_module("rt.data")
    data.write_positions(checkpoint.path, _api.get_context().get_world_rank(), dict(_iterators))
