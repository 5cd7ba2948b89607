"""Transformers: `trainer.add_callback(RayTrainReportCallback())`, then `trainer.train()`."""

from __future__ import annotations

import os
import shutil
from typing import Any

from transformers import TrainerCallback
from transformers.trainer_utils import get_last_checkpoint

from rt import _api, train
from rt.tune.integration._saving import checkpoint_directory, numbers_of


class RayTrainReportCallback(TrainerCallback):  # type: ignore[misc]
    """Reports the logged metrics with each checkpoint that the Trainer saves.

    The files are in the directory `checkpoint` of the checkpoint, from which
    `trainer.train(resume_from_checkpoint=...)` continues. Rank 0 passes them.
    """

    CHECKPOINT_NAME = "checkpoint"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.metrics: dict[str, Any] = {}

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Called when a checkpoint has been saved."""
        for row in state.log_history:
            self.metrics.update(row)
        row = {**numbers_of(self.metrics), "step": state.global_step, "epoch": state.epoch}
        saved = get_last_checkpoint(args.output_dir)
        if saved is None or _api.get_context().get_world_rank() != 0:
            train.report(row)
            return
        with checkpoint_directory() as (path, checkpoint):
            shutil.copytree(saved, os.path.join(path, self.CHECKPOINT_NAME))
            train.report(row, checkpoint)


def prepare_trainer(trainer: Any) -> Any:
    """The trainer, which needs no preparation: it reads the ranks from the environment."""
    return trainer


__all__ = ["RayTrainReportCallback", "prepare_trainer"]
