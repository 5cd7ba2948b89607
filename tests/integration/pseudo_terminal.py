"""A program on a pseudo-terminal, and the screen that a person would see."""

from __future__ import annotations

import fcntl
import os
import pathlib
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from typing import Any, Callable

from harness import ROOT, wait_until

# The emulator stands in build/venv; the test itself runs under any Python 3.
sys.path += [str(path) for path in ROOT.glob("build/venv/lib/python3*/site-packages")]
import pyte  # noqa: E402


class Terminal:
    """Runs argv with a terminal of `columns` x `rows` as its standard streams."""

    def __init__(self, argv: list[str], env: dict[str, str], cwd: pathlib.Path,
                 size: tuple[int, int] = (80, 24), **changed: str) -> None:
        self.started = time.monotonic()
        self.raw = b""
        self.columns, self.rows = size
        self._screen = pyte.Screen(*size)
        self._stream = pyte.ByteStream(self._screen)
        self._lock = threading.Lock()
        self._master, slave = os.openpty()
        self._set_size(slave)
        self.process = subprocess.Popen(
            argv, env={**env, "TERM": "xterm-256color", **changed}, cwd=cwd, stdin=slave,
            stdout=slave, stderr=slave, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(slave)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _set_size(self, descriptor: int) -> None:
        fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", self.rows, self.columns,
                                                                0, 0))

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._master, 65536)
            except OSError:
                return  # The last process that had the terminal is gone.
            if not data:
                return
            with self._lock:
                self.raw += data
                self._stream.feed(data)

    def resize(self, columns: int, rows: int) -> None:
        """As a window does: the size, then SIGWINCH (from the kernel)."""
        with self._lock:
            self.columns, self.rows = columns, rows
            self._screen.resize(rows, columns)
        self._set_size(self._master)

    def lines(self) -> list[str]:
        """What stands on the screen now, without the blanks at the right."""
        with self._lock:
            return [line.rstrip() for line in self._screen.display]

    def text(self) -> str:
        return "\n".join(self.lines())

    def frames(self) -> int:
        return self.raw.count(b"\x1b[J")

    def wait_for(self, what: str, seen: Callable[[list[str]], Any]) -> Any:
        try:
            return wait_until(what, lambda: seen(self.lines()), 60)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.text()}") from None

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def echoes(self) -> bool:
        """Whether the terminal shows what is typed."""
        return bool(termios.tcgetattr(self._master)[3] & termios.ECHO)

    def interrupt(self) -> None:
        """Ctrl-C, typed."""
        self.type("\x03")

    def end(self, timeout: float = 60) -> int:
        """Waits for the program; its exit code."""
        code = self.process.wait(timeout)
        self.elapsed = time.monotonic() - self.started
        self._reader.join(10)
        return code

    def close(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self._reader.join(10)
        os.close(self._master)
