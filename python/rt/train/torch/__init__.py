"""rt.train.torch: TorchTrainer, and helpers for training functions that use PyTorch."""

from __future__ import annotations

import sys

from rt._paths import announce_missing
from rt.train.torch._prepare import (
    enable_reproducibility,
    get_device,
    get_devices,
    prepare_data_loader,
    prepare_model,
)
from rt.train.torch._trainer import TorchConfig, TorchTrainer

__all__ = [
    "TorchConfig",
    "TorchTrainer",
    "enable_reproducibility",
    "get_device",
    "get_devices",
    "prepare_data_loader",
    "prepare_model",
]

announce_missing(sys.modules[__name__])
