"""rt: hyperparameter search, training and tasks on one machine or many, under the names of Ray.

Most scripts need only `from rt import tune, train`, and `from rt import data` for data sets.
Scripts that call `ray.init(...)` first use `import rt as ray`. Importing this package starts no
process; the first search does.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

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
    from rt import actor, air, autoscaler, core, data, elastic, exceptions, train, tune, util
    from rt.core import (
        DynamicObjectRefGenerator,
        ObjectRef,
        ObjectRefGenerator,
        cancel,
        get,
        get_actor,
        get_gpu_ids,
        get_runtime_context,
        kill,
        method,
        nodes,
        put,
        remote,
        wait,
    )

__version__ = "0.1.0"
__all__ = [
    "DynamicObjectRefGenerator",
    "ObjectRef",
    "ObjectRefGenerator",
    "RtError",
    "TrialError",
    "actor",
    "air",
    "autoscaler",
    "available_resources",
    "cancel",
    "cluster_resources",
    "core",
    "data",
    "elastic",
    "exceptions",
    "get",
    "get_actor",
    "get_gpu_ids",
    "get_runtime_context",
    "init",
    "is_initialized",
    "kill",
    "method",
    "nodes",
    "put",
    "remote",
    "shutdown",
    "train",
    "tune",
    "util",
    "wait",
]


_MODULES = (
    "actor", "air", "autoscaler", "core", "data", "elastic", "exceptions", "train", "tune", "util",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    """Imports `rt.tune` and the other modules, and what tasks need, when they are first used."""
    if name in _MODULES:
        return importlib.import_module(f"rt.{name}")
    if name in __all__:
        found = getattr(importlib.import_module("rt.core"), name)
        globals()[name] = found
        return found
    no_attribute(__name__, name)


announce_missing(sys.modules[__name__])
