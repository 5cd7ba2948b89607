"""One of our daemons as a child of this process, with a folder of its own; its log is in there."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
from typing import Collection, Optional


class Daemon:
    """`inside`: a command that runs it somewhere else, in a network namespace for example."""

    def __init__(self, folder: pathlib.Path, argv: list[str], inside: Collection[str] = ()) -> None:
        self.folder = folder
        self.argv = [*argv, "--state-dir", str(folder)]
        self.inside = list(inside)
        self.process: Optional[subprocess.Popen[bytes]] = None

    def start(self, prefix: Collection[str] = (), failpoints: str = "") -> None:
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                [*self.inside, *prefix, *self.argv], stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, start_new_session=True, cwd=self.folder,
                env={**os.environ, "RT_FAILPOINTS": failpoints})

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def ended(self) -> Optional[int]:
        """Its exit status, once it has ended."""
        assert self.process is not None
        return self.process.poll()

    def log(self, since: int = 0) -> str:
        """What it has written after that many bytes."""
        try:
            with open(self.folder / "log", "rb") as log:
                log.seek(since)
                return log.read().decode(errors="replace")
        except FileNotFoundError:
            return ""

    def logged_bytes(self) -> int:
        path = self.folder / "log"
        return path.stat().st_size if path.exists() else 0

    def signal(self, number: int) -> None:
        assert self.ended() is None, f"{self.folder.name} has ended by itself: {self.ended()}"
        os.kill(self.pid, number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        assert self.process is not None
        self.process.wait(timeout=10)

    def end(self) -> None:
        """SIGTERM, after which it ends with 0 and leaves what runs alone."""
        self.signal(signal.SIGTERM)
        assert self.process is not None
        status = self.process.wait(timeout=30)
        assert status == 0, f"{self.folder.name} ended with {status}"
