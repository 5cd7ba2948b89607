"""rt.elastic: training whose batch size follows the number of ranks, under the names of AdaptDL.

A script written for AdaptDL needs only its imports changed: `import rt.elastic as adaptdl`, or
`import rt.elastic.torch as adl`. PyTorch is imported with `rt.elastic.torch`, and not before.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING

from rt._paths import no_attribute
from rt.elastic import checkpoint, collective, env, goodput

if TYPE_CHECKING:
    from rt.elastic import torch

__all__ = ["checkpoint", "collective", "env", "goodput", "torch"]


def __getattr__(name: str) -> ModuleType:
    """Imports `rt.elastic.torch` when it is first used."""
    if name == "torch":
        return importlib.import_module("rt.elastic.torch")
    no_attribute(__name__, name)
