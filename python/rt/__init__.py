"""rt: hyperparameter search on one machine or many, under the names of Ray.

Most scripts need only `from rt import tune, train`, and `from rt import data` for data sets.
Scripts that call `ray.init(...)` first use `import rt as ray`. Importing this package starts no
process; the first search does.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING

from rt._errors import RtError, TrialError
from rt._paths import announce_missing, no_attribute
from rt._runtime import (
    available_resources,
    cluster_resources,
    init,
    is_initialized,
    shutdown,
)

if TYPE_CHECKING:
    from rt import air, autoscaler, data, elastic, train, tune

__version__ = "0.1.0"
__all__ = [
    "RtError",
    "TrialError",
    "air",
    "autoscaler",
    "available_resources",
    "cluster_resources",
    "data",
    "elastic",
    "init",
    "is_initialized",
    "shutdown",
    "train",
    "tune",
]


def __getattr__(name: str) -> ModuleType:
    """Imports `rt.tune` and the other modules when they are first used."""
    if name in ("air", "autoscaler", "data", "elastic", "train", "tune"):
        return importlib.import_module(f"rt.{name}")
    no_attribute(__name__, name)


announce_missing(sys.modules[__name__])
