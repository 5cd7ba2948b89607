"""LightGBM: `lightgbm.train(..., valid_sets=..., callbacks=[TuneReportCheckpointCallback()])`."""

from __future__ import annotations

import os
from typing import Any, Optional

import lightgbm

from rt._checkpoint import Checkpoint
from rt.tune.integration._boosting import BoostingReports, Metrics, PostProcess

MODEL_FILE = "model.txt"


class TuneReportCheckpointCallback:
    """Reports what the validation sets gave after each round, such as "eval-binary_error", and the
    model.

    Its arguments are those of BoostingReports.
    """

    order = 20  # After LightGBM's own, as it orders them.

    def __init__(
        self,
        metrics: Metrics = None,
        filename: str = MODEL_FILE,
        frequency: int = 0,
        checkpoint_at_end: bool = True,
        results_postprocessing_fn: Optional[PostProcess] = None,
    ) -> None:
        self._reports = BoostingReports(
            metrics, filename, frequency, checkpoint_at_end, results_postprocessing_fn
        )

    @classmethod
    def get_model(cls, checkpoint: Checkpoint, filename: str = MODEL_FILE) -> lightgbm.Booster:
        """The model in a checkpoint of this callback."""
        with checkpoint.as_directory() as directory:
            return lightgbm.Booster(model_file=os.path.join(directory, filename))

    def __call__(self, env: Any) -> None:
        """A round is over, perhaps the last one."""
        values = {}
        for data, name, value, _, *deviation in env.evaluation_result_list or ():
            # Of folds (lightgbm.cv) the first is no name of data, and there is a deviation.
            values[name if deviation else f"{data}-{name}"] = value
        self._reports.round(env.iteration + 1, values, env.model.save_model)
        if env.iteration + 1 == env.end_iteration:
            self._reports.end(env.iteration + 1, env.model.save_model)


class TuneReportCallback(TuneReportCheckpointCallback):
    """The same without checkpoints."""

    def __init__(
        self, metrics: Metrics = None, results_postprocessing_fn: Optional[PostProcess] = None
    ) -> None:
        super().__init__(
            metrics,
            checkpoint_at_end=False,
            results_postprocessing_fn=results_postprocessing_fn,
        )
