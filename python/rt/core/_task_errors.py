"""The errors of tasks, on their way to the driver."""

from __future__ import annotations

import os
import traceback

from rt.core._values import Result, pack, unpack
from rt.exceptions import (
    NodeDiedError,
    OutOfMemoryError,
    RayError,
    TaskError,
    WorkerCrashedError,
)

_OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep


def pack_error(name: str, error: BaseException) -> Result:
    """The error of a task, with its traceback as text; without the exception if that cannot be
    pickled."""
    cause = error.cause if isinstance(error, TaskError) else error
    found = TaskError(name, format_error(error), cause)
    for by_state in (False, True):
        found.by_state = by_state  # Many classes cannot be pickled as Python does it.
        try:
            packed, refs = pack(found)
            unpack(packed)
            return packed, refs
        except Exception as failure:
            why = str(failure)
    text = f"{found.traceback_str}\n(the exception itself cannot be pickled: {why})"
    return pack(TaskError(name, text, None))


def format_error(error: BaseException) -> str:
    """The traceback, from the user's first frame on."""
    tb = error.__traceback__
    while tb is not None and tb.tb_frame.f_code.co_filename.startswith(_OWN):
        tb = tb.tb_next
    if isinstance(error, TaskError):
        head = "".join(traceback.format_tb(tb))
        return f"Traceback (most recent call last):\n{head}{error}"
    return "".join(traceback.format_exception(type(error), error, tb))


def crash_error(name: str, pid: int, node: str, cause: str) -> RayError:
    """The error for a task whose process has ended."""
    text = f"the process of {name} (pid {pid} on {node}) ended: {cause}"
    if "memory" in cause:
        return OutOfMemoryError(text)
    if "lost" in cause:
        return NodeDiedError(text)
    return WorkerCrashedError(text)
