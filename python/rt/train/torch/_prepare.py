"""Models, data loaders and devices for a rank. They also work under torchrun, outside a trial."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator
from typing import Any, Optional

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset, RandomSampler

from rt import _api
from rt._ddp import fix_buckets


def get_devices() -> list[torch.device]:
    """The devices of this rank: its gpus, or the cpu."""
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if count == 0:
        return [torch.device("cpu")]
    context = _api.get_context()
    # The ranks of a node see the gpus of all of them, in the order of the ranks.
    ranks, local = context.get_local_world_size(), context.get_local_rank()
    if count < ranks:
        return [torch.device("cuda", local * count // ranks)]
    each = count // ranks
    return [torch.device("cuda", local * each + index) for index in range(each)]


def get_device() -> torch.device:
    """The first of get_devices()."""
    return get_devices()[0]


def _world_size() -> int:
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def prepare_model(
    model: torch.nn.Module,
    move_to_device: bool = True,
    parallel_strategy: Optional[str] = "ddp",
    parallel_strategy_kwargs: Optional[dict[str, Any]] = None,
) -> torch.nn.Module:
    """The model on this rank's device and, with several ranks, in DistributedDataParallel.

    The order in which gradients are summed is fixed before the first step: otherwise DDP changes it
    after the first step, and a run that was restored would differ from one that was not.
    parallel_strategy: "ddp", or None for the model alone. Raises ValueError for another one.
    """
    if parallel_strategy not in ("ddp", None):
        raise ValueError(
            f"parallel_strategy {parallel_strategy!r}: 'ddp' or None; for FSDP call "
            "torch.distributed.fsdp in the training function"
        )
    if not isinstance(model, torch.nn.Module):
        raise ValueError(f"prepare_model() takes a torch.nn.Module, not {type(model).__name__}")
    device = get_device()
    if move_to_device:
        model = model.to(device)
    if parallel_strategy is None or _world_size() == 1:
        return model
    if not any(parameter.requires_grad for parameter in model.parameters()):
        return model  # DDP refuses a model that is not trained.
    arguments = dict(parallel_strategy_kwargs or {})
    if device.type == "cuda" and move_to_device:
        arguments.setdefault("device_ids", [device])
        arguments.setdefault("output_device", device)
    wrapped = DistributedDataParallel(model, **arguments)
    if not arguments.get("find_unused_parameters"):
        fix_buckets(wrapped)
    return wrapped


def prepare_data_loader(
    data_loader: DataLoader[Any],
    add_dist_sampler: bool = True,
    move_to_device: bool = True,
    auto_transfer: bool = True,
) -> Any:
    """A loader of this rank's part of the data, whose batches are moved to the rank's device.

    The part is made by a DistributedSampler, which shuffles if the loader did: call
    `data_loader.sampler.set_epoch(epoch)` before each epoch. auto_transfer: the next batch is
    copied to the gpu while the current one is used. Raises ValueError for a loader with a
    batch_sampler of its own.
    """
    size = _world_size()
    if add_dist_sampler and size > 1 and not isinstance(data_loader.sampler, DistributedSampler):
        data_loader = _split(data_loader)
    device = get_device()
    if move_to_device and device.type == "cuda":
        return _MovedLoader(data_loader, device, auto_transfer)
    return data_loader


def _split(loader: DataLoader[Any]) -> DataLoader[Any]:
    if isinstance(loader.dataset, IterableDataset):
        return loader  # It has no indices to share out: the user splits it.
    if loader.batch_size is None or type(loader.batch_sampler).__name__ != "BatchSampler":
        raise ValueError(
            "prepare_data_loader cannot split a loader with a batch_sampler of its own; split it "
            "in the training function, and pass add_dist_sampler=False"
        )
    arguments: dict[str, Any] = {
        "batch_size": loader.batch_size,
        "drop_last": loader.drop_last,
        "num_workers": loader.num_workers,
        "collate_fn": loader.collate_fn,
        "pin_memory": loader.pin_memory,
        "timeout": loader.timeout,
        "worker_init_fn": loader.worker_init_fn,
        "multiprocessing_context": loader.multiprocessing_context,
        "generator": loader.generator,
    }
    if loader.num_workers > 0:
        arguments["prefetch_factor"] = loader.prefetch_factor
        arguments["persistent_workers"] = loader.persistent_workers
    shuffles = isinstance(loader.sampler, RandomSampler)
    sampler: DistributedSampler[Any] = DistributedSampler(loader.dataset, shuffle=shuffles)
    return DataLoader(loader.dataset, sampler=sampler, **arguments)


class _MovedLoader:
    """A loader whose batches are on a gpu. Everything else is the loader's."""

    def __init__(self, loader: DataLoader[Any], device: torch.device, ahead: bool) -> None:
        self._loader = loader
        self._device = device
        self._stream = torch.cuda.Stream(device) if ahead else None

    def __len__(self) -> int:
        return len(self._loader)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def __iter__(self) -> Iterator[Any]:
        batches = map(self._move, self._loader)
        if self._stream is None:
            yield from batches
            return
        current = next(batches, None)
        while current is not None:
            torch.cuda.current_stream(self._device).wait_stream(self._stream)
            _record(current, torch.cuda.current_stream(self._device))
            following = next(batches, None)  # Its copy runs beside the user's step.
            yield current
            current = following

    def _move(self, batch: Any) -> Any:
        if self._stream is None:
            return _moved(batch, self._device)
        with torch.cuda.stream(self._stream):
            return _moved(batch, self._device)


def _moved(value: Any, device: torch.device) -> Any:
    if isinstance(value, torch.Tensor):
        return value.to(device, non_blocking=True)
    if isinstance(value, dict):
        return {key: _moved(each, device) for key, each in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_moved(each, device) for each in value))
    if isinstance(value, (list, tuple)):
        return type(value)(_moved(each, device) for each in value)
    return value


def _record(value: Any, stream: Any) -> None:
    if isinstance(value, torch.Tensor):
        value.record_stream(stream)
    elif isinstance(value, dict):
        for each in value.values():
            _record(each, stream)
    elif isinstance(value, (list, tuple)):
        for each in value:
            _record(each, stream)


def enable_reproducibility(seed: int = 0) -> None:
    """Seeds random generators, and makes PyTorch choose deterministic algorithms."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    random.seed(seed)
    torch.manual_seed(seed)
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed(seed)
    torch.backends.cudnn.benchmark = False
    torch.use_deterministic_algorithms(True)
