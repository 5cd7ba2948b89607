"""rt.train.torch: TorchTrainer, and helpers for training functions that use PyTorch."""

from __future__ import annotations

import sys

from rt._paths import alias, announce_missing
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

alias(
    [sys.modules[__name__]],
    {
        "rt.train.torch.config": ["TorchConfig"],
        "rt.train.torch.torch_trainer": ["TorchTrainer"],
        "rt.train.torch.train_loop_utils": [
            "enable_reproducibility", "get_device", "get_devices", "prepare_data_loader",
            "prepare_model",
        ],
    },
)  # fmt: skip
announce_missing(*(each for name, each in sys.modules.items() if name.startswith("rt.train.torch")))
