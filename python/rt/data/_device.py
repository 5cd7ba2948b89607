"""The device on which batches of tensors are wanted."""

from __future__ import annotations

import os
import sys
from typing import Any


def chosen_device(device: Any) -> Any:
    """A torch.device, or None to leave tensors on the cpu.

    "auto" is what rt.train.torch.get_device() says in a trial that uses it, else the cpu.
    """
    import torch

    if device == "auto":
        training = sys.modules.get("rt.train.torch")
        if training is None or not os.environ.get("RT_TRIAL_ID"):
            return None
        device = training.get_device()
    elif device is None:
        return None
    found = torch.device(device)
    return None if found.type == "cpu" else found
