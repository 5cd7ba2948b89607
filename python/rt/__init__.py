"""rt: hyperparameter search on one machine or many, under the names of Ray.

`from rt import tune, train` is all that most scripts need; `import rt as ray` serves those that
call `ray.init(...)` first. Importing this package starts nothing: the first search does.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING

from rt._errors import RtError, TrialError
from rt._runtime import init, is_initialized, shutdown

if TYPE_CHECKING:
    from rt import train, tune

__version__ = "0.1.0"
__all__ = ["RtError", "TrialError", "init", "is_initialized", "shutdown", "train", "tune"]


def __getattr__(name: str) -> ModuleType:
    """Imports `rt.tune` and `rt.train` when they are first asked for."""
    if name in ("tune", "train"):
        return importlib.import_module(f"rt.{name}")
    raise AttributeError(f"module 'rt' has no attribute {name!r}")
