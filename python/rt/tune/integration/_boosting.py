"""The common part of the callbacks for boosted trees: which metrics and models are reported."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from typing import Any, Callable, Optional, Union

from rt import _api
from rt._checkpoint import Checkpoint

Metrics = Union[None, str, list[str], Mapping[str, str]]
PostProcess = Callable[[dict[str, Any]], dict[str, Any]]


def chosen(metrics: Metrics, values: dict[str, Any]) -> dict[str, Any]:
    """The requested entries of `values`, such as {"eval-error": 0.1}, under the requested names.

    All by default; or one name, a list of names, or {name in the report: name here}. Raises
    KeyError, which lists the available names, for a missing name.
    """
    if not metrics:
        return dict(values)
    if isinstance(metrics, str):
        metrics = [metrics]
    wanted = metrics if isinstance(metrics, Mapping) else {name: name for name in metrics}
    for name in wanted.values():
        if name not in values:
            raise KeyError(f"no metric {name!r}; there are: {', '.join(sorted(values))}")
    return {name: values[source] for name, source in wanted.items()}


class BoostingReports:
    """Reports rows, and models as checkpoints.

    metrics: see chosen(). filename: of the model in its checkpoint. frequency: N means that every
    N-th row has a checkpoint, and 0 means only at the end. checkpoint_at_end: the last row has a
    checkpoint. results_postprocessing_fn: makes the row from the metrics.
    """

    model_file = ""

    def __init__(
        self,
        metrics: Metrics = None,
        filename: str = "",
        frequency: int = 0,
        checkpoint_at_end: bool = True,
        results_postprocessing_fn: Optional[PostProcess] = None,
    ) -> None:
        super().__init__()
        if frequency < 0:
            raise ValueError(f"frequency must be 0 or more, not {frequency!r}")
        self._metrics = metrics
        self._filename = filename or self.model_file
        self._frequency = frequency
        self._at_end = checkpoint_at_end
        self._process = results_postprocessing_fn
        self._saved_at = 0  # A round, counted from 1.
        self._newest: dict[str, Any] = {}

    def round(
        self,
        number: int,
        values: dict[str, Any],
        save: Callable[[str], Any],
        is_last: bool = False,
    ) -> None:
        """Called when round `number`, counted from 1, has ended. `save(path)` writes the model.

        is_last: set if it is known, so that the last row has the model.
        """
        row = chosen(self._metrics, values)
        self._newest = self._process(row) if self._process is not None else row
        if (self._frequency and number % self._frequency == 0) or (is_last and self._at_end):
            self._report(number, save)
        else:
            _api.report(self._newest)

    def end(self, rounds: int, save: Callable[[str], Any]) -> None:
        """Called when all `rounds` have ended. Unless the last row had the model, it is reported
        with a row that repeats the last, as in Ray."""
        if self._at_end and self._saved_at != rounds:
            self._report(rounds, save)

    def _report(self, number: int, save: Callable[[str], Any]) -> None:
        directory = tempfile.mkdtemp(prefix="rt-model-")
        try:
            save(os.path.join(directory, self._filename))
            _api.report(self._newest, checkpoint=Checkpoint(directory))
        finally:
            shutil.rmtree(directory, ignore_errors=True)
        self._saved_at = number


class WithoutCheckpoints(BoostingReports):
    """Reports only the rows."""

    def __init__(
        self, metrics: Metrics = None, results_postprocessing_fn: Optional[PostProcess] = None
    ) -> None:
        super().__init__(
            metrics,
            checkpoint_at_end=False,
            results_postprocessing_fn=results_postprocessing_fn,
        )
