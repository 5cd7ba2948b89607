"""A large value that a process of the same node keeps: how a task's process gets its descriptor."""

from __future__ import annotations

import os
import socket
from typing import Any, Optional

from rt.core._current import get_client
from rt.core._dial import TAKE, dial, greet
from rt.core._values import Elsewhere, Layout, Packed, Shared

# The value may still be on its way to the node. After this time the driver is asked for it.
_TAKE_S = 600.0


class Kept(Elsewhere):
    """A packed value, in place of its bytes: it is fetched where it is unpacked."""

    __slots__ = ("_directory", "_fetched", "_layout", "_number", "_serial", "_size")

    def __init__(self, directory: str, serial: int, number: int, size: int, layout: Layout) -> None:
        """directory: of the executor that the keeper is a process of."""
        self._directory = directory
        self._serial = serial
        self._number = number
        self._size = size
        self._layout = layout
        self._fetched: Optional[Packed] = None

    def __reduce__(self) -> Any:
        return (Kept, (self._directory, self._serial, self._number, self._size, self._layout))

    def fetch(self) -> Packed:
        """The value: as a descriptor from the keeper; if it has it no more, from the driver."""
        if self._fetched is None:
            client = get_client()
            self._fetched = self._take(client.secret) or client.ask_value(self._number)
        return self._fetched

    def _take(self, secret: str) -> Optional[Shared]:
        try:
            with dial(self._directory) as sock:
                greet(sock, secret, TAKE, self._serial)
                sock.settimeout(_TAKE_S)
                _, fds, _, _ = socket.recv_fds(sock, 1, 1)
        except OSError:
            return None
        if not fds:
            return None
        os.set_inheritable(fds[0], False)
        return Shared(fds[0], self._size, self._layout)
