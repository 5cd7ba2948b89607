"""The callback of ray.train.lightgbm."""

import sys

from rt._paths import announce_missing
from rt.tune.integration.lightgbm import TuneReportCheckpointCallback


class RayTrainReportCallback(TuneReportCheckpointCallback):
    """The same as TuneReportCheckpointCallback of rt.tune.integration.lightgbm."""

    CHECKPOINT_NAME = TuneReportCheckpointCallback.model_file


announce_missing(sys.modules[__name__])
