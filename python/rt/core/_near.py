"""The executors of this machine: their sockets, how their processes ended, and the sources of the
user's modules, which each new process gets.

Only `Sources.known` is for callers with the hub's lock: all else may take a while.
"""

from __future__ import annotations

import contextlib
import sys
import time
from typing import Any, Callable, Optional

from rt._pack import read_sources
from rt.core._dial import KILL, dial, greet

LISTENS_WITHIN_S = 20.0  # An executor listens soon after it has started.
_CAUSE_WITHIN_S = 0.3


class Sources:
    """The sources of the user's modules, read again once more modules are imported."""

    def __init__(self) -> None:
        self._read: tuple[int, dict[str, Any]] = (0, {})  # (modules that were imported, sources)

    def known(self) -> Optional[dict[str, Any]]:
        """The sources; None: they are to be read."""
        count, found = self._read
        return found if count == len(sys.modules) else None

    def read(self) -> dict[str, Any]:
        """The sources, from the files if need be."""
        found = self.known()
        if found is None:
            count = len(sys.modules)
            found = dict(read_sources())
            self._read = (count, found)
        return found


def kill_near(trial_dir: str, secret: str, pid: int) -> None:
    """Has the executor kill a process of its own. An executor that is gone has none."""
    with contextlib.suppress(OSError), dial(trial_dir) as sock:
        greet(sock, secret, KILL, pid)


def listens(trial_dir: str, is_wanted: Callable[[], bool]) -> bool:
    """Waits until the executor's socket is there."""
    end = time.monotonic() + LISTENS_WITHIN_S
    while time.monotonic() < end and is_wanted():
        with contextlib.suppress(OSError), dial(trial_dir):
            return True
        time.sleep(0.001)
    return False


_silent: set[str] = set()  # Executors that did not say how a process ended.


def cause_in(trial_dir: str, pid: int) -> str:
    """How a process of an executor ended, from the executor's notes: they come a moment after the
    end of the connection. Nobody waits twice for an executor that says nothing."""
    end = time.monotonic() + (0.0 if trial_dir in _silent else _CAUSE_WITHIN_S)
    while True:
        with contextlib.suppress(OSError), open(f"{trial_dir}/ends", encoding="ascii") as file:
            for line in file:
                number, _, text = line.rstrip("\n").partition(" ")
                if number == str(pid):
                    return text
        if time.monotonic() >= end:
            _silent.add(trial_dir)
            return ""
        time.sleep(0.002)


def raise_open_files() -> None:
    """Large values and processes need a descriptor each."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
