"""Progress reporters: accepted for scripts written for Ray. rt shows progress in its own way."""

from __future__ import annotations

from typing import Any


class ProgressReporter:
    """The base of the reporters below. Accepts any arguments, and has no effect."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self._columns: list[str] = []

    def add_metric_column(self, metric: str, representation: Any = None) -> None:
        """Notes the column; nothing shows it."""
        self._columns.append(metric)

    def add_parameter_column(self, parameter: str, representation: Any = None) -> None:
        """Notes the column; nothing shows it."""
        self._columns.append(parameter)


class CLIReporter(ProgressReporter):
    """Accepted and not needed: a terminal shows a live screen, a pipe gets a line every 5 s."""


class JupyterNotebookReporter(ProgressReporter):
    """Accepted and not needed, like CLIReporter."""


__all__ = ["CLIReporter", "JupyterNotebookReporter", "ProgressReporter"]
