"""LightGBM: `lightgbm.train(..., valid_sets=..., callbacks=[TuneReportCheckpointCallback()])`."""

from __future__ import annotations

import os
from typing import Any

import lightgbm

from rt._checkpoint import Checkpoint
from rt.tune.integration._boosting import BoostingReports, WithoutCheckpoints


class TuneReportCheckpointCallback(BoostingReports):
    """Reports the metrics of the validation sets after each round, such as "eval-binary_error", and
    the model."""

    model_file = "model.txt"
    order = 20  # After LightGBM's own callbacks.

    @classmethod
    def get_model(cls, checkpoint: Checkpoint, filename: str = model_file) -> lightgbm.Booster:
        """The model in a checkpoint of this callback."""
        with checkpoint.as_directory() as directory:
            return lightgbm.Booster(model_file=os.path.join(directory, filename))

    def __call__(self, env: Any) -> None:
        """Called when a round has ended, perhaps the last one."""
        values = {}
        for data, name, value, _, *deviation in env.evaluation_result_list or ():
            # With folds (lightgbm.cv) the first item is no data set, and there is a deviation.
            values[name if deviation else f"{data}-{name}"] = value
        number = env.iteration + 1
        self.round(number, values, env.model.save_model, number == env.end_iteration)


class TuneReportCallback(WithoutCheckpoints, TuneReportCheckpointCallback):
    """The same without checkpoints."""
