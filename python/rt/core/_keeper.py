"""The process of a node that keeps large values for the other processes of its session there
(adr/0041). It runs no code of the user, so it answers while they compute.

The driver sends each value once, under a serial that grows. A process that needs it connects to the
executor, shows the secret of the session and the serial, and gets the descriptor of the memory
file. The executor passes such connections on over `control`.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import struct
import traceback
from typing import NoReturn

from rt.core._channel import Channel, Message
from rt.core._store import memory_bytes
from rt.core._values import Shared

SERIAL = struct.Struct("<Q")
KEEPER_SHARE = 0.3  # Of the node's memory; the driver sends no more than that.
_TAKERS_MAX = 1024  # That wait for a value; a further one asks the driver instead.


class Keeper:
    """Values by serial, and who waits for one that is still to come."""

    def __init__(self, channel: Channel, control: socket.socket) -> None:
        self._channel = channel
        self._control = control
        self._values: dict[int, Shared] = {}
        self._last = 0  # The newest serial that has come.
        self._takers: list[tuple[int, socket.socket]] = []

    def run(self) -> None:
        """Until the driver or the executor is gone."""
        self._channel.post(("h", os.getpid(), int(KEEPER_SHARE * memory_bytes())))
        self._channel.flush()
        poll = select.poll()
        poll.register(self._channel.fileno(), select.POLLIN)
        poll.register(self._control.fileno(), select.POLLIN)
        while True:
            for fd, _ in poll.poll():
                if fd == self._control.fileno():
                    if not self._accept():
                        return
                    continue
                try:
                    messages = self._channel.read()
                except (ConnectionError, OSError):
                    return
                for message in messages:
                    self._take(message)
                del messages

    def _take(self, message: Message) -> None:
        kind = message[0]
        if kind == "k":
            serial, packed = message[1:]
            self._last = serial
            if packed is not None:
                self._values[serial] = packed
            waiting, self._takers = self._takers, []
            for each in waiting:
                self._serve(*each)
        elif kind == "x":
            self._values.pop(message[1], None)

    def _accept(self) -> bool:
        data, fds, _, _ = socket.recv_fds(self._control, SERIAL.size, 1)
        if not data:
            return False
        for fd in fds:
            os.set_inheritable(fd, False)
            self._serve(SERIAL.unpack(data)[0], socket.socket(fileno=fd))
        return True

    def _serve(self, serial: int, taker: socket.socket) -> None:
        """Gives the value to a process, now or when it comes; one that is not kept is refused by
        closing the connection."""
        found = self._values.get(serial)
        if found is None and serial > self._last and len(self._takers) < _TAKERS_MAX:
            self._takers.append((serial, taker))
            return
        with taker:
            if found is not None:
                taker.setblocking(False)
                with contextlib.suppress(OSError):
                    socket.send_fds(taker, [b"k"], [found.fd])


def run_keeper(sock: socket.socket, control: socket.socket) -> NoReturn:
    """Runs in the child of an executor; it never returns."""
    try:
        Keeper(Channel(sock, is_local=False), control).run()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
    os._exit(1)
