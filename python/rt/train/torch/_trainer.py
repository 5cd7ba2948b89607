"""TorchTrainer: the training function runs on each rank inside a process group."""

from __future__ import annotations

import contextlib
import datetime
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Callable, Optional

from rt import _api
from rt._slips import suggests_arguments
from rt.train._loop import Backend
from rt.train._trainer import DataParallelTrainer, _check_kind


@suggests_arguments
@dataclass
class TorchConfig:
    """The process group. backend None: "nccl" for ranks with gpus, else "gloo".

    timeout_s: after which a collective operation fails because a rank does not take part in it.
    """

    backend: Optional[str] = None
    init_method: str = "env"
    timeout_s: int = 1800

    def __post_init__(self) -> None:
        if self.init_method != "env":
            raise ValueError(f"init_method {self.init_method!r}: ranks meet by 'env' only")
        if self.timeout_s <= 0:
            raise ValueError(f"timeout_s must be more than 0, not {self.timeout_s!r}")


class TorchTrainer(DataParallelTrainer):
    """Runs a training function on several ranks, each with torch.distributed ready to use."""

    _name = "TorchTrainer"
    _more_arguments = ("torch_config",)

    def __init__(
        self,
        train_loop_per_worker: Optional[Callable[..., Any]] = None,
        *,
        torch_config: Optional[TorchConfig] = None,
        **arguments: Any,
    ) -> None:
        super().__init__(train_loop_per_worker, **arguments)
        _check_kind("torch_config", torch_config, TorchConfig)
        self._torch = torch_config or TorchConfig()

    def _backend(self) -> Backend:
        return _ProcessGroup(self._torch)


class _ProcessGroup:
    """Makes the context in which a rank trains."""

    def __init__(self, config: TorchConfig) -> None:
        self._config = config

    def __call__(self) -> contextlib.AbstractContextManager[None]:
        return process_group(self._config)


@contextlib.contextmanager
def process_group(config: TorchConfig) -> Iterator[None]:
    """torch.distributed is initialised inside, over MASTER_ADDR and MASTER_PORT."""
    import torch.distributed as dist

    from rt.train.torch._prepare import get_device

    context, device = _api.get_context(), get_device()
    size = context.get_world_size()
    if device.type == "cuda":
        import torch

        torch.cuda.set_device(device)
    arguments: dict[str, Any] = {
        "backend": config.backend or ("nccl" if device.type == "cuda" else "gloo"),
        "rank": context.get_world_rank(),
        "world_size": size,
        "timeout": datetime.timedelta(seconds=config.timeout_s),
    }
    if size > 1:
        arguments["init_method"] = "env://"
    else:  # A single rank has nobody to meet, and no port.
        arguments["store"] = dist.HashStore()
        for name in ("RANK", "LOCAL_RANK", "NODE_RANK", "GROUP_RANK"):
            os.environ.setdefault(name, "0")
        for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE"):
            os.environ.setdefault(name, "1")
    dist.init_process_group(**arguments)
    yield
    # Only here: after an error, other ranks may be waiting in an operation that never ends.
    if dist.is_initialized():
        dist.destroy_process_group()
