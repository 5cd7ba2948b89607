"""The exceptions that rt raises towards its users."""

from __future__ import annotations

from typing import Any, Optional


class RtError(RuntimeError):
    """The cluster could not do what was asked. `code` is one word; `hint` may be empty."""

    def __init__(self, message: str, code: str = "UNKNOWN", hint: str = "") -> None:
        super().__init__(f"{message} ({hint})" if hint else message)
        self.code = code
        self.hint = hint


class TuneError(RtError):
    """A search as a whole failed: some trials did not complete, for one."""


class TrialError(RtError):
    """What ended one trial. Shown with the traceback of the user's own frames, if it has one."""

    def __init__(self, trial_id: str, kind: str, message: str, traceback: str = "") -> None:
        shown = traceback.rstrip() or (f"{kind}: {message}" if message else kind)
        super().__init__(f"trial {trial_id} failed:\n{shown}", code="TRIAL_FAILED")
        self.trial_id = trial_id
        self.kind = kind
        self.message = message
        self.traceback = traceback


def error_from_reply(error: Optional[dict[str, Any]]) -> Exception:
    """The exception for an `error` object: ValueError for the user's mistakes, else RtError."""
    error = error or {}
    code = str(error.get("code") or "UNKNOWN").upper()
    message = str(error.get("message") or "the cluster refused without saying why")
    hint = str(error.get("hint") or "")
    if code in ("INVALID_ARGUMENT", "INVALID", "VALIDATION", "USAGE", "2"):
        return ValueError(f"{message} ({hint})" if hint else message)
    return RtError(message, code, hint)
