"""XGBoost: `xgboost.train(..., evals=..., callbacks=[TuneReportCheckpointCallback()])`."""

from __future__ import annotations

import os
from typing import Any, Optional

import xgboost
from xgboost.callback import TrainingCallback

from rt._checkpoint import Checkpoint
from rt.tune.integration._boosting import BoostingReports, Metrics, PostProcess

MODEL_FILE = "model.ubj"


class TuneReportCheckpointCallback(TrainingCallback):  # type: ignore[misc]
    """Reports what `evals` gave after each round, such as "eval-logloss", and the model.

    Its arguments are those of BoostingReports.
    """

    def __init__(
        self,
        metrics: Metrics = None,
        filename: str = MODEL_FILE,
        frequency: int = 0,
        checkpoint_at_end: bool = True,
        results_postprocessing_fn: Optional[PostProcess] = None,
    ) -> None:
        super().__init__()
        self._reports = BoostingReports(
            metrics, filename, frequency, checkpoint_at_end, results_postprocessing_fn
        )

    @classmethod
    def get_model(cls, checkpoint: Checkpoint, filename: str = MODEL_FILE) -> xgboost.Booster:
        """The model in a checkpoint of this callback."""
        booster = xgboost.Booster()
        with checkpoint.as_directory() as directory:
            booster.load_model(os.path.join(directory, filename))
        return booster

    def after_iteration(self, model: Any, epoch: int, evals_log: dict[str, Any]) -> bool:
        """A round is over; never asks to stop."""
        values = {
            f"{data}-{name}": _mean(rounds[-1])
            for data, metrics in evals_log.items()
            for name, rounds in metrics.items()
        }
        self._reports.round(epoch + 1, values, model.save_model)
        return False

    def after_training(self, model: Any) -> Any:
        """All rounds are over."""
        self._reports.end(model.num_boosted_rounds(), model.save_model)
        return model


def _mean(value: Any) -> Any:
    """Of a fold's (mean, deviation), as xgboost.cv has them, the mean."""
    return value[0] if isinstance(value, (tuple, list)) else value


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
