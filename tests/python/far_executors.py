"""A driver without a head whose executors are on another machine, as far as it can see: its
connections pass through relays that carry bytes, count them, and drop descriptors."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Any

from local_executors import LocalExecutors
from rt.core import _dial

_PIECE_BYTES = 1 << 18


class FarExecutors(LocalExecutors):
    """Answers executor_dial as well."""

    inside_job = True

    def __init__(self, cpus: int) -> None:
        super().__init__(cpus)
        self.bytes_there = 0  # That went to that machine.
        self.bytes_back = 0
        self.silent = 0  # The executor that takes connections and answers nothing.
        self.silent_dials = 0
        self.cuts: list[int] = []  # Bytes there at which all connections end, as with a daemon.
        self._dials = 0
        self._listeners: list[socket.socket] = []
        self._open: list[socket.socket] = []
        self._counting = threading.Lock()

    def _item(self, number: int, state: str, reason: str) -> dict[str, Any]:
        item = super()._item(number, state, reason)
        return {**item, "node": {"id": "2", "name": "there", "boot_id": "elsewhere"}}

    def executor_dial(self, id: int) -> Any:
        """The path of a socket that takes one connection to the executor."""
        if id == self.silent:
            return self._dial_silent()
        there = _dial.dial(f"{self.directory}/{id}/trial")
        there.settimeout(None)
        with self._counting:
            self._dials += 1
            path = f"{self.directory}/dial-{self._dials}"
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(path)
        listener.listen(1)
        threading.Thread(target=self._carry, args=(listener, there), daemon=True).start()
        return {"socket": path}

    def _dial_silent(self) -> Any:
        path = f"{self.directory}/silent-{self.silent_dials}"
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(path)
        listener.listen(1)
        self._listeners.append(listener)
        self.silent_dials += 1
        return {"socket": path}

    def _carry(self, listener: socket.socket, there: socket.socket) -> None:
        with listener:
            here, _ = listener.accept()
        with self._counting:
            self._open += [here, there]
        threading.Thread(target=self._pump, args=(here, there, True), daemon=True).start()
        self._pump(there, here, False)

    def _pump(self, source: socket.socket, target: socket.socket, is_there: bool) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(_PIECE_BYTES):
                with self._counting:
                    if is_there:
                        self.bytes_there += len(piece)
                    else:
                        self.bytes_back += len(piece)
                    is_cut = bool(self.cuts) and self.bytes_there >= self.cuts[0]
                    if is_cut:
                        self.cuts.pop(0)
                if is_cut:
                    self.cut()
                target.sendall(piece)
        for each in (source, target):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def cut(self) -> None:
        """Ends all connections."""
        with self._counting:
            cut, self._open = self._open, []
        for each in cut:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Ends all."""
        self.cut()
        for each in self._listeners:
            each.close()
        super().close()
