"""Keras in a training function: `model.fit(..., callbacks=[ReportCheckpointCallback()])`."""

from __future__ import annotations

import sys
from typing import Any, Optional

from rt import train
from rt._checkpoint import Checkpoint
from rt._paths import announce_missing
from rt.tune.integration.keras import TuneReportCheckpointCallback


class ReportCheckpointCallback(TuneReportCheckpointCallback):
    """As TuneReportCheckpointCallback; every rank calls it equally often."""

    def _report(self, row: dict[str, Any], checkpoint: Optional[Checkpoint]) -> None:
        train.report(row, checkpoint)


RayReportCallback = ReportCheckpointCallback
announce_missing(sys.modules[__name__])
