"""What a script says to the cluster about its size; see rt.autoscaler.sdk."""

from __future__ import annotations

import sys

from rt._paths import announce_missing
from rt.autoscaler import sdk

__all__ = ["sdk"]

announce_missing(sys.modules[__name__], sdk)
