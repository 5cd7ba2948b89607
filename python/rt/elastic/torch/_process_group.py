"""init_process_group: the ranks meet, under rt, under torchrun, or one process alone."""

from __future__ import annotations

import atexit
import datetime
import os
import sys
from typing import Any, Optional

import torch
import torch.distributed as dist

from rt.elastic import collective, env
from rt.elastic.torch import _job, _trial

TIMEOUT_S = 1800


def init_process_group(
    backend: Optional[str] = None,
    init_method: Optional[str] = None,
    world_size: Optional[int] = None,
    rank: Optional[int] = None,
    *,
    checkpoint_interval_s: Optional[float] = None,
) -> None:
    """Starts torch.distributed and rt.elastic.collective.

    backend: "gloo" or "nccl"; by default nccl where there is a gpu. Ranks are found by rt's or
    torchrun's variables, or by the arguments. `checkpoint_interval_s`: a checkpoint is saved when
    the last one is that old (60). A process group that there is already, is used.
    """
    job = _job.current()
    if checkpoint_interval_s is not None:
        if checkpoint_interval_s < 0:
            raise ValueError(f"checkpoint_interval_s is at least 0, not {checkpoint_interval_s}")
        job.checkpoint_interval_s = checkpoint_interval_s
    size = env.num_replicas() if world_size is None else world_size
    own = env.replica_rank() if rank is None else rank
    if not dist.is_initialized():
        arguments: dict[str, Any] = {
            "backend": backend or ("nccl" if torch.cuda.is_available() else "gloo"),
            "rank": own,
            "world_size": size,
            "timeout": datetime.timedelta(seconds=TIMEOUT_S),
        }
        if size == 1:  # A single rank meets nobody, and needs no port.
            arguments["store"] = dist.HashStore()
        else:
            meet = f"tcp://{env.master_addr()}:{env.master_port()}"
            under = "env://" if _has_torchrun() else meet
            arguments["init_method"] = init_method or under
        dist.init_process_group(**arguments)
        if size > 1:
            atexit.register(_leave)
    size = dist.get_world_size()
    store = dist.PrefixStore("rt.elastic", dist.distributed_c10d._get_default_store())
    collective.initialize(store if size > 1 else None, dist.get_rank(), size)
    _trial.catch_signals()


def _leave() -> None:
    """At a regular end of the process, which PyTorch otherwise aborts now and then (134) because
    gloo's threads still run. It would wait for other ranks if a sum were under way."""
    own = _trial.session()
    failed = getattr(sys, "last_type", None) is not None or (own is not None and own.terminated)
    if failed or not dist.is_initialized() or dist.get_backend() != "gloo":
        return
    if _job.current().exchange.is_idle:
        dist.destroy_process_group()


def _has_torchrun() -> bool:
    return all(name in os.environ for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"))
