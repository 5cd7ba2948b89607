"""The live screen of a search: in place on a terminal, one updating display in a notebook.

`rt` draws the frames (the bridge's operation experiment_screen), and this module only shows them.
Output of the script itself appears above the frame.
"""

from __future__ import annotations

import io
import os
import sys
import threading
import time
from abc import ABC, abstractmethod
from typing import Any, Optional, TextIO

from rt._driver import Driver
from rt._errors import RtError

FRAME_EVERY_S = 0.25
NOTEBOOK_EVERY_S = 1.0
NOTEBOOK_COLUMNS = 100


def open_screen(driver: Driver, experiment_id: int) -> Optional[Screen]:
    """The screen for this process; None on pipes, on dumb terminals and in jobs."""
    if driver.inside_job:
        return None
    if _in_notebook():
        return NotebookScreen(driver, experiment_id)
    if os.environ.get("TERM", "dumb") != "dumb" and _is_terminal(sys.stderr):
        return TerminalScreen(driver, experiment_id)
    return None


def _in_notebook() -> bool:
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and hasattr(shell, "kernel")


def _is_terminal(stream: Any) -> bool:
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):
        return False


class Screen(ABC):
    """The common part of the kinds below: when a frame is due, and how it is requested."""

    every_s = FRAME_EVERY_S

    def __init__(self, driver: Driver, experiment_id: int) -> None:
        self._driver = driver
        self._id = experiment_id
        self._shown_at = float("-inf")

    def __enter__(self) -> Screen:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    @abstractmethod
    def leave(self) -> None:
        """Leaves the last frame where it is, for good; safe to repeat."""

    def show(self, final: bool) -> None:
        """Draws a frame unless the last one is too recent."""
        now = time.monotonic()
        if not final and now - self._shown_at < self.every_s:
            return
        try:
            self.draw()
        except RtError:
            return  # The wait that follows reports the error.
        self._shown_at = now

    @abstractmethod
    def draw(self) -> None:
        """Draws one frame now."""

    @abstractmethod
    def above(self, text: str) -> None:
        """Prints one line that stays."""

    def _frame(self, **fields: Any) -> dict[str, Any]:
        return dict(self._driver.call("experiment_screen", experiment_id=self._id, **fields))


class TerminalScreen(Screen):
    """A frame at the bottom of the terminal of standard error."""

    def __init__(self, driver: Driver, experiment_id: int) -> None:
        super().__init__(driver, experiment_id)
        self._terminal: TextIO = sys.stderr
        self._lock = threading.RLock()
        self._widths: list[int] = []  # Widths of the frame's lines while it is shown.
        self._open_line = False  # The script printed something without ending the line.
        self._replaced: dict[str, Any] = {}

    def __enter__(self) -> Screen:
        for name in ("stdout", "stderr"):
            stream = getattr(sys, name)
            if _is_terminal(stream):
                self._replaced[name] = (stream, _Above(self, stream))
                setattr(sys, name, self._replaced[name][1])
        return self

    def leave(self) -> None:
        """Leaves the last frame where it is, for good; safe to repeat."""
        for name, (stream, above) in self._replaced.items():
            if getattr(sys, name) is above:
                setattr(sys, name, stream)
        self._replaced.clear()

    def draw(self) -> None:
        """Draws one frame over the one before."""
        size = self._size()
        color = not os.environ.get("NO_COLOR")
        with self._lock:
            frame = self._frame(
                columns=size.columns, rows=size.lines, color=color, paint=True, over=self._widths
            )
            text = ("\r\n" if self._open_line else "") + frame["text"]
            self._open_line = False
            self._terminal.write(text)
            self._terminal.flush()
            self._widths = [int(width) for width in frame["widths"]]

    def above(self, text: str) -> None:
        """Prints one line above the next frame."""
        self.write_above(self._terminal, text + "\n")

    def write_above(self, stream: TextIO, text: str) -> int:
        """Writes output of the script over the frame, and draws the frame again below it."""
        with self._lock:
            if self._widths and text:
                columns = max(1, self._size().columns)
                rows = sum(max(1, -(-width // columns)) for width in self._widths)
                self._terminal.write(f"\x1b[{rows}A\r\x1b[J")
                self._terminal.flush()
                self._widths = []
            written = stream.write(text)
            stream.flush()
            if text:
                self._open_line = not text.endswith("\n")
            return written

    def _size(self) -> os.terminal_size:
        try:
            size = os.get_terminal_size(self._terminal.fileno())
        except (OSError, ValueError, io.UnsupportedOperation):
            return os.terminal_size((80, 24))
        return os.terminal_size((size.columns or 80, size.lines or 24))


class _Above:
    """Replaces a stream of the script while a frame is on the same terminal."""

    def __init__(self, screen: TerminalScreen, stream: TextIO) -> None:
        self._screen = screen
        self._stream = stream

    def write(self, text: str) -> int:
        return self._screen.write_above(self._stream, text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class NotebookScreen(Screen):
    """One display of the running cell, updated in place."""

    every_s = NOTEBOOK_EVERY_S

    def __init__(self, driver: Driver, experiment_id: int) -> None:
        super().__init__(driver, experiment_id)
        self._handle: Any = None

    def leave(self) -> None:
        """Leaves the display in the notebook unchanged."""

    def draw(self) -> None:
        """Shows one frame as plain text."""
        from IPython.display import display

        frame = self._frame(columns=NOTEBOOK_COLUMNS, rows=40, color=False)
        bundle = {"text/plain": frame["text"]}
        if self._handle is None:
            self._handle = display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)

    def above(self, text: str) -> None:
        """Prints one line in the cell's output."""
        print(text, file=sys.stderr, flush=True)
