"""Helpers on top of tasks and actors, under the names of `ray.util`."""

from __future__ import annotations

import sys
from typing import Any

from rt._paths import announce_missing, no_attribute
from rt.util.actor_pool import ActorPool
from rt.util.queue import Queue

__all__ = ["ActorPool", "Queue"]


def __getattr__(name: str) -> Any:
    no_attribute(__name__, name)


announce_missing(sys.modules[__name__])
