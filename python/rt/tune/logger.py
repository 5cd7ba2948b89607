"""Loggers. The head always writes result.json, progress.csv and params.json for every trial."""

from __future__ import annotations

from typing import Any

from rt._json import shown
from rt._slips import refuse_class
from rt.tune.callback import Callback


class LoggerCallback(Callback):
    """A callback with the method names of a logger: subclasses override the log_ methods."""

    def log_trial_start(self, trial: Any) -> None:
        """Called when the trial's process runs."""

    def log_trial_restore(self, trial: Any) -> None:
        """Called when it resumes from a checkpoint."""

    def log_trial_save(self, trial: Any) -> None:
        """Called when one of its checkpoints was stored."""

    def log_trial_result(self, iteration: int, trial: Any, result: dict[str, Any]) -> None:
        """Called when it reported a row."""

    def log_trial_end(self, trial: Any, failed: bool = False) -> None:
        """Called when it has ended."""

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Calls log_trial_start."""
        self.log_trial_start(trial)

    def on_trial_restore(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Calls log_trial_restore."""
        self.log_trial_restore(trial)

    def on_trial_save(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Calls log_trial_save."""
        self.log_trial_save(trial)

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        """Calls log_trial_result."""
        self.log_trial_result(iteration, trial, result)

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Calls log_trial_end."""
        self.log_trial_end(trial, failed=False)

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Calls log_trial_end."""
        self.log_trial_end(trial, failed=True)


class JsonLoggerCallback(LoggerCallback):
    """Accepted and not needed: result.json is always written."""


class CSVLoggerCallback(LoggerCallback):
    """Accepted and not needed: progress.csv is always written."""


class TBXLoggerCallback(LoggerCallback):
    """Accepted and not needed: TensorBoard's event files are always written."""


DEFAULT_LOGGERS = (JsonLoggerCallback, CSVLoggerCallback, TBXLoggerCallback)


def pretty_print(result: dict[str, Any], exclude: Any = None) -> str:
    """The result as text, one key per line; nested maps are indented by two more spaces."""
    left_out = {"config", "hist_stats", *(exclude or ())}
    lines: list[str] = []

    def add(tree: dict[str, Any], indent: str) -> None:
        for key, value in tree.items():
            if value is None or (not indent and key in left_out):
                continue
            if isinstance(value, dict):
                lines.append(f"{indent}{key}:")
                add(value, indent + "  ")
            else:
                lines.append(f"{indent}{key}: {value if isinstance(value, str) else shown(value)}")

    add(result, "")
    return "\n".join(lines) + "\n"


def asked_callbacks(callbacks: Any) -> list[Callback]:
    """The loggers to call, without those for files that the head writes. ValueError otherwise."""
    if callbacks is not None and not isinstance(callbacks, (list, tuple)):
        raise ValueError(f"callbacks is a list of tune.Callback, not {shown(callbacks)}")
    asked = []
    for callback in callbacks or []:
        refuse_class("one of callbacks", callback)
        if isinstance(callback, DEFAULT_LOGGERS):
            continue
        if not isinstance(callback, Callback):
            raise ValueError(f"{type(callback).__name__} is not a tune.Callback")
        asked.append(callback)
    return asked


__all__ = [
    "DEFAULT_LOGGERS",
    "CSVLoggerCallback",
    "JsonLoggerCallback",
    "LoggerCallback",
    "TBXLoggerCallback",
    "pretty_print",
]
