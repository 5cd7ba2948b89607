"""The traceback of an error in user code."""

from __future__ import annotations

import os
import traceback

_OWN_DIR = os.path.dirname(os.path.abspath(__file__)) + os.sep


def user_traceback(error: BaseException) -> str:
    """The traceback as text, without the frames of this package, also in chained exceptions."""
    shown = traceback.TracebackException.from_exception(error, capture_locals=False)
    pending = [shown]
    while pending:
        each = pending.pop()
        kept = [frame for frame in each.stack if not _is_own(frame.filename)]
        each.stack = traceback.StackSummary.from_list(kept)
        pending += [link for link in (each.__cause__, each.__context__) if link is not None]
    return "".join(shown.format())


def message_of(error: BaseException) -> str:
    """What the error says; also of one whose __str__ raises, as a traceback shows it."""
    try:
        return str(error)
    except Exception:
        return f"<{type(error).__name__}.__str__ raised an error>"


def _is_own(filename: str) -> bool:
    examples = os.path.join(_OWN_DIR, "tune", "examples") + os.sep
    runpy = filename.startswith("<frozen") or filename.endswith(os.sep + "runpy.py")
    return runpy or (filename.startswith(_OWN_DIR) and not filename.startswith(examples))
