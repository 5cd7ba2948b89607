"""The older path of the callback for Keras."""

from rt.train.tensorflow.keras import ReportCheckpointCallback

__all__ = ["ReportCheckpointCallback"]
