"""The callback of ray.train.xgboost."""

import sys

from rt._paths import announce_missing
from rt.tune.integration.xgboost import TuneReportCheckpointCallback


class RayTrainReportCallback(TuneReportCheckpointCallback):
    """The same as TuneReportCheckpointCallback of rt.tune.integration.xgboost."""

    CHECKPOINT_NAME = TuneReportCheckpointCallback.model_file


announce_missing(sys.modules[__name__])
