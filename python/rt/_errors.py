"""The exceptions that rt raises for its users."""

from __future__ import annotations

import os
import sys
from types import TracebackType
from typing import Any, Optional


class RtError(RuntimeError):
    """The cluster could not perform the request. `code` is one word; `hint` may be empty."""

    def __init__(self, message: str, code: str = "UNKNOWN", hint: str = "") -> None:
        super().__init__(f"{message} ({hint})" if hint else message)
        self.code = code
        self.hint = hint


class TuneError(RtError):
    """A search failed, for example because some trials did not complete."""


class MetricError(TuneError, ValueError):
    """Trials failed because they did not report the metric of their search."""


class TrialError(RtError):
    """The error that ended one trial, with a traceback of the user's own frames if it has one."""

    def __init__(self, trial_id: str, kind: str, message: str, traceback: str = "") -> None:
        shown = traceback.rstrip() or (f"{kind}: {message}" if message else kind)
        super().__init__(f"trial {trial_id} failed:\n{shown}", code="TRIAL_FAILED")
        self.trial_id = trial_id
        self.kind = kind
        self.message = message
        self.traceback = traceback


_OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep
_hides_frames = False


def hide_own_frames() -> None:
    """Hides this package's own frames when one of its exceptions ends a script.

    Only the printing of an uncaught exception changes, and only for refusals, failed searches and
    Ctrl-C. An exception hook that was set before is still called. Safe to repeat.
    """
    global _hides_frames
    if _hides_frames:
        return
    _hides_frames = True
    shown_before = sys.excepthook

    def show(kind: type[BaseException], error: BaseException, tb: Optional[TracebackType]) -> None:
        if isinstance(error, (RtError, ValueError, KeyboardInterrupt)) and _raised_here(tb):
            tb = _without_own(tb)
            error.__traceback__ = tb
        shown_before(kind, error, tb)

    sys.excepthook = show


def _is_own(tb: TracebackType) -> bool:
    return tb.tb_frame.f_code.co_filename.startswith(_OWN)


def _raised_here(tb: Optional[TracebackType]) -> bool:
    while tb is not None and tb.tb_next is not None:
        tb = tb.tb_next
    return tb is not None and _is_own(tb)


def _without_own(tb: Optional[TracebackType]) -> Optional[TracebackType]:
    if tb is None:
        return None
    rest = _without_own(tb.tb_next)
    if _is_own(tb):
        return rest
    return TracebackType(rest, tb.tb_frame, tb.tb_lasti, tb.tb_lineno)


def error_from_reply(error: Optional[dict[str, Any]]) -> Exception:
    """The exception for an `error` object: ValueError for mistakes of the user, else RtError."""
    error = error or {}
    code = str(error.get("code") or "UNKNOWN").upper()
    message = str(error.get("message") or "the cluster refused without saying why")
    hint = str(error.get("hint") or "")
    if code in ("INVALID_ARGUMENT", "INVALID", "VALIDATION", "USAGE", "2"):
        return ValueError(f"{message} ({hint})" if hint else message)
    return RtError(message, code, hint)
