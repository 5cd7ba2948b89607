"""Keras: `model.fit(..., callbacks=[TuneReportCheckpointCallback()])`, with any backend."""

from __future__ import annotations

import os
from typing import Any, Optional

try:
    import keras
except ImportError:
    from tensorflow import keras

from rt import _api
from rt._checkpoint import Checkpoint
from rt.tune.integration._boosting import Metrics, chosen
from rt.tune.integration._saving import Events, checkpoint_directory, events, numbers_of

_EVENTS = [
    f"{phase}_{edge}"
    for phase in ("epoch", "train_batch", "test_batch", "predict_batch", "train", "test", "predict")
    for edge in ("begin", "end")
]


class TuneReportCheckpointCallback(keras.callbacks.Callback):  # type: ignore[misc]
    """Reports the values of `logs`, and the model, at the end of each epoch or at other events.

    checkpoint_on, report_metrics_on: events such as "epoch_end", or lists of them; one report
    serves both. metrics: all by default; a name, a list, or {name in the report: name of Keras}.
    The model is saved by rank 0, as `model.keras`.
    """

    model_file = "model.keras"

    def __init__(
        self,
        checkpoint_on: Events = "epoch_end",
        report_metrics_on: Events = "epoch_end",
        metrics: Metrics = None,
    ) -> None:
        super().__init__()
        self._saves = events("checkpoint_on", checkpoint_on, _EVENTS) if checkpoint_on else []
        self._reports = events("report_metrics_on", report_metrics_on, _EVENTS)
        self._metrics = metrics

    @classmethod
    def get_model(cls, checkpoint: Checkpoint, filename: str = model_file) -> Any:
        """The model in a checkpoint of this callback."""
        with checkpoint.as_directory() as directory:
            return keras.models.load_model(os.path.join(directory, filename))

    def _handle(self, logs: Optional[dict[str, Any]], event: str) -> None:
        if event not in self._saves and event not in self._reports:
            return
        row = chosen(self._metrics, numbers_of(dict(logs or {})))
        if event not in self._saves or _api.get_context().get_world_rank() != 0:
            self._report(row, None)
            return
        with checkpoint_directory() as (path, checkpoint):
            self.model.save(os.path.join(path, self.model_file))
            self._report(row, checkpoint)

    def _report(self, row: dict[str, Any], checkpoint: Optional[Checkpoint]) -> None:
        _api.report(row, checkpoint=checkpoint)


def _hook(event: str) -> Any:
    """The method of an event. Keras passes the logs last, after a number for epochs and batches."""

    def called(self: Any, *args: Any, logs: Any = None) -> None:
        last = args[-1] if args else None
        self._handle(last if isinstance(last, dict) else logs, event)

    return called


for _event in _EVENTS:
    setattr(TuneReportCheckpointCallback, f"on_{_event}", _hook(_event))


class TuneReportCallback(TuneReportCheckpointCallback):
    """The same without checkpoints. on: the event of the reports."""

    def __init__(self, metrics: Metrics = None, on: Events = "epoch_end") -> None:
        super().__init__(checkpoint_on=(), report_metrics_on=on, metrics=metrics)
