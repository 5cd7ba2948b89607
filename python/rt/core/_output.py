"""What tasks print also reaches the driver, line by line, with the name of the task and its pid."""

from __future__ import annotations

import io
import os
import sys
import threading
from typing import Any

Borrower = Any  # rt.core._borrower.Borrower, which imports this module.

_LINE_MAX = 64 << 10  # Characters; a longer line comes in pieces.


class _Output(io.TextIOBase):
    """Writes to the executor's log, and sends whole lines to the driver."""

    def __init__(self, borrower: Borrower, stream: str, under: Any) -> None:
        self._borrower = borrower
        self._stream = stream
        self._under = under
        self._partial = ""
        self._writing = threading.Lock()

    encoding = "utf-8"  # type: ignore[assignment]
    errors = "backslashreplace"

    def write(self, text: str) -> int:
        """Writes text."""
        self._under.write(text)
        with self._writing:
            self._partial += text
            if "\n" not in text and len(self._partial) < _LINE_MAX:
                return len(text)
            whole, newline, rest = self._partial.rpartition("\n")
            if not newline:
                whole, rest = rest, ""
            self._partial = rest
        self._borrower.post(("o", self._stream, whole + "\n"))
        return len(text)

    def flush(self) -> None:
        """Flushes the log."""
        self._under.flush()

    def fileno(self) -> int:
        """The descriptor that C libraries and child processes use."""
        return 1 if self._stream == "out" else 2

    def isatty(self) -> bool:
        """False."""
        return False

    def writable(self) -> bool:
        """True."""
        return True

    @property
    def buffer(self) -> Any:
        """The bytes of the log; what is written there does not reach the driver."""
        return self._under.buffer


def catch_output(borrower: Borrower) -> None:
    """From here on print() reaches the driver."""
    sys.stdout = _Output(borrower, "out", _log_of(sys.stdout))
    sys.stderr = _Output(borrower, "err", _log_of(sys.stderr))


def _log_of(stream: Any) -> Any:
    """The log by a descriptor of our own: a task may close the one that it knows, and the number
    is then another file's. By lines, since a process of an executor is often killed."""
    stream.flush()
    copy = os.dup(stream.fileno())
    return open(copy, "w", buffering=1, encoding="utf-8", errors="backslashreplace")


def print_out(stream: str, text: str) -> None:
    """Prints what a task has printed, in the driver."""
    out = sys.stderr if stream == "err" else sys.stdout
    try:
        out.write(text)
        out.flush()
    except (OSError, ValueError, AttributeError):
        pass
