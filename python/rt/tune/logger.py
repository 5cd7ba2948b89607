"""Loggers. The head always writes result.json, progress.csv and params.json for every trial."""

from __future__ import annotations

from typing import Any

from rt._json import shown


class LoggerCallback:
    """The base of the loggers below."""


class JsonLoggerCallback(LoggerCallback):
    """Accepted and needless: result.json is always written."""


class CSVLoggerCallback(LoggerCallback):
    """Accepted and needless: progress.csv is always written."""


DEFAULT_LOGGERS = (JsonLoggerCallback, CSVLoggerCallback)


def pretty_print(result: dict[str, Any], exclude: Any = None) -> str:
    """The result as indented text, a key a line; nested maps are indented by two more."""
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


def check_callbacks(callbacks: Any) -> None:
    """Raises ValueError for a callback that would never be called."""
    for callback in callbacks or []:
        if not isinstance(callback, (JsonLoggerCallback, CSVLoggerCallback)):
            name = type(callback).__name__
            raise ValueError(
                f"callbacks are not available: {name} would never be called (result.json and "
                "progress.csv are always written)"
            )


__all__ = [
    "DEFAULT_LOGGERS",
    "CSVLoggerCallback",
    "JsonLoggerCallback",
    "LoggerCallback",
    "pretty_print",
]
