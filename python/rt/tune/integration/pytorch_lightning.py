"""PyTorch Lightning: `Trainer(callbacks=[TuneReportCheckpointCallback(...)])`.

The package that the script has imported is used: `lightning` or `pytorch_lightning`.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
from typing import Any, Optional

from rt import _api
from rt.tune.integration._boosting import Metrics
from rt.tune.integration._saving import Events, checkpoint_directory, events, numbers_of


def import_lightning() -> Any:
    """The module. Raises ImportError when neither package is installed."""
    names = ("lightning.pytorch", "pytorch_lightning")
    for name in names:
        if name in sys.modules:
            return sys.modules[name]
    for name in names:
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise ImportError("PyTorch Lightning is not installed here: pip install lightning")


_pl = import_lightning()
_HOOKS = {name[len("on_") :] for name in dir(_pl.Callback) if name.startswith("on_")}


class TuneCallback(_pl.Callback):  # type: ignore[misc,name-defined]
    """The base: calls _handle(trainer, module) at the events of `on`, such as "validation_end"."""

    def __init__(self, on: Events = "validation_end") -> None:
        for event in events("on", on, _HOOKS):
            setattr(self, f"on_{event}", functools.partial(self._called, event))

    def _called(self, event: str, trainer: Any, pl_module: Any, *_: Any, **__: Any) -> None:
        if not trainer.sanity_checking:
            self._handle(trainer, pl_module)

    def _handle(self, trainer: Any, pl_module: Any) -> None:
        raise NotImplementedError(type(self).__name__)


class TuneReportCheckpointCallback(TuneCallback):
    """Reports logged metrics, and a checkpoint of the trainer.

    metrics: all by default; a name, a list, or {name in the report: name in Lightning}; those that
    are not logged yet are left out. filename: of the trainer's checkpoint. Rank 0 saves.
    """

    def __init__(
        self,
        metrics: Metrics = None,
        filename: str = "checkpoint",
        save_checkpoints: bool = True,
        on: Events = "validation_end",
    ) -> None:
        super().__init__(on)
        self._metrics = [metrics] if isinstance(metrics, str) else metrics
        self._filename = filename
        self._save = save_checkpoints

    def _row(self, trainer: Any) -> dict[str, Any]:
        known = numbers_of(dict(trainer.callback_metrics))
        wanted = self._metrics
        if not wanted:
            return known
        names = wanted if isinstance(wanted, dict) else {name: name for name in wanted}
        return {name: known[source] for name, source in names.items() if source in known}

    def _handle(self, trainer: Any, pl_module: Any) -> None:
        row = self._row(trainer)
        if not row:
            return
        if not self._save:
            _api.report(row)
            return
        with checkpoint_directory() as (path, checkpoint):
            file = os.path.join(path, self._filename)
            trainer.save_checkpoint(file)  # On all ranks; only some write.
            _api.report(row, checkpoint=checkpoint if os.path.exists(file) else None)


class TuneReportCallback(TuneReportCheckpointCallback):
    """The same without checkpoints."""

    def __init__(self, metrics: Metrics = None, on: Events = "validation_end") -> None:
        super().__init__(metrics=metrics, save_checkpoints=False, on=on)


_Optional = Optional  # For the annotations of users who import them from here.
