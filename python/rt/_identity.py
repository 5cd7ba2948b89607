"""Identifies the run of a script, so that a driver that is run again finds its searches.

A script on a cluster is identified by its path, its arguments, its user and its machine. Its
searches are numbered. A search that has ended is a new one the next time. While one process of the
script runs, a second process of the same script has another identity. Stored in RT_HOME/drivers.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import socket
import sys
from typing import Optional


class Identity:
    """One process's claim to be its script; released when the process ends."""

    def __init__(self) -> None:
        self._runs: dict[str, int] = {}
        self._file: Optional[int] = None
        self.base = os.urandom(8).hex()  # A shell or notebook cannot be run again.
        script = sys.argv[0] if sys.argv else ""
        if os.path.isfile(script):
            self._claim([socket.gethostname(), str(os.getuid()), os.path.abspath(script)])

    def _claim(self, names: list[str]) -> None:
        digest = hashlib.sha256("\0".join(names + sys.argv[1:]).encode()).hexdigest()[:24]
        home = os.environ.get("RT_HOME") or os.path.join(os.path.expanduser("~"), ".rt")
        folder = os.path.join(home, "drivers")
        try:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            file = os.open(
                os.path.join(folder, digest), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
            )
        except OSError:
            return  # The directory cannot be written: every run is then a new one.
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(file)
            return
        self._file, self.base = file, digest
        with contextlib.suppress(ValueError, AttributeError):
            known = json.loads(os.pread(file, 1 << 16, 0) or b"{}")
            self._runs = {str(key): int(value) for key, value in known.items()}

    def of(self, ordinal: int) -> str:
        """The name of this process's search number `ordinal`."""
        return f"{self.base}.{self._runs.get(str(ordinal), 1)}"

    def renew(self, ordinal: int) -> str:
        """A new name for it: the search with the previous name has ended."""
        self._runs[str(ordinal)] = self._runs.get(str(ordinal), 1) + 1
        if self._file is not None:
            text = json.dumps(self._runs).encode()
            os.pwrite(self._file, text, 0)
            os.ftruncate(self._file, len(text))
        return self.of(ordinal)


_identity: Optional[Identity] = None


def mine() -> Identity:
    """This process's identity."""
    global _identity
    if _identity is None:
        _identity = Identity()
    return _identity
