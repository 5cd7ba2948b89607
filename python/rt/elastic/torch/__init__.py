"""rt.elastic.torch: adaptive batch sizes for PyTorch, under the names of adaptdl.torch."""

from __future__ import annotations

import gc
import importlib
from collections.abc import Iterator
from typing import Any, Optional

from rt._collector import rarely_collecting
from rt.elastic.torch import accumulator, data, epoch, gradient_noise_scale, parallel, scaling_rules
from rt.elastic.torch._job import current as _current
from rt.elastic.torch._process_group import init_process_group
from rt.elastic.torch.accumulator import Accumulator
from rt.elastic.torch.data import (
    AdaptiveDataLoader,
    ElasticSampler,
    current_dataloader,
    current_dataset,
)
from rt.elastic.torch.parallel import AdaptiveDataParallel
from rt.elastic.torch.scaling_rules import (
    AdamScale,
    AdaScale,
    LEGWScale,
    LinearScale,
    SqrtScale,
)

__all__ = [
    "Accumulator",
    "AdaScale",
    "AdamScale",
    "AdaptiveDataLoader",
    "AdaptiveDataParallel",
    "ElasticSampler",
    "LEGWScale",
    "LinearScale",
    "SqrtScale",
    "accumulator",
    "current_dataloader",
    "current_dataset",
    "current_epoch",
    "data",
    "epoch",
    "finished_epochs",
    "gradient_noise_scale",
    "init_process_group",
    "metrics",
    "parallel",
    "remaining_epochs_until",
    "report",
    "scaling_rules",
]


# The first optimiser imports it, which takes a second: a fork server has it before.
with rarely_collecting():
    importlib.import_module("torch._dynamo")

# Half a million objects of PyTorch's modules. Without it an exit looks through all of them, which
# takes a second, and a resize waits for it.
gc.freeze()


def remaining_epochs_until(epochs: int) -> Iterator[int]:
    """The epochs that are left of `epochs`, from the one in which a restarted run was interrupted.

    At the end of each epoch its row is reported, and a checkpoint is saved if the last one is old.
    """
    return _current().epochs.remaining(epochs)


def current_epoch() -> Optional[int]:
    """The epoch in hand, from 0; None outside the loop of remaining_epochs_until."""
    return _current().epochs.current


def finished_epochs() -> int:
    """How many epochs have ended."""
    return _current().epochs.finished


def report(metrics: Optional[dict[str, Any]] = None, **named: Any) -> None:
    """Adds metrics to the row that is reported at the end of the epoch; every rank calls it."""
    _current().row.update(metrics or {}, **named)


def metrics() -> dict[str, Any]:
    """What is known of the run now: batch sizes, gain, noise scale, efficiency, goodput, and so on.

    `throughput` is that of the steps since the last call or row, if there were any.
    """
    return _current().values()
