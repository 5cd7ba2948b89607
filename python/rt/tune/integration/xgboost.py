"""XGBoost: `xgboost.train(..., evals=..., callbacks=[TuneReportCheckpointCallback()])`."""

from __future__ import annotations

import os
from typing import Any

import xgboost
from xgboost.callback import TrainingCallback

from rt._checkpoint import Checkpoint
from rt.tune.integration._boosting import BoostingReports, WithoutCheckpoints


class TuneReportCheckpointCallback(BoostingReports, TrainingCallback):  # type: ignore[misc]
    """Reports the metrics of `evals` after each round, such as "eval-logloss", and the model."""

    model_file = "model.ubj"

    @classmethod
    def get_model(cls, checkpoint: Checkpoint, filename: str = model_file) -> xgboost.Booster:
        """The model in a checkpoint of this callback."""
        booster = xgboost.Booster()
        with checkpoint.as_directory() as directory:
            booster.load_model(os.path.join(directory, filename))
        return booster

    def after_iteration(self, model: Any, epoch: int, evals_log: dict[str, Any]) -> bool:
        """Called when a round has ended; never asks for a stop."""
        values = {
            f"{data}-{name}": _mean(rounds[-1])
            for data, metrics in evals_log.items()
            for name, rounds in metrics.items()
        }
        self.round(epoch + 1, values, model.save_model)
        return False

    def after_training(self, model: Any) -> Any:
        """Called when all rounds have ended."""
        self.end(model.num_boosted_rounds(), model.save_model)
        return model


def _mean(value: Any) -> Any:
    """The mean of a fold's (mean, deviation), which xgboost.cv uses."""
    return value[0] if isinstance(value, (tuple, list)) else value


class TuneReportCallback(WithoutCheckpoints, TuneReportCheckpointCallback):
    """The same without checkpoints."""
