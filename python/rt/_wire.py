"""JSON lines over a Unix socket without deadlock: a sender that waits also reads.

One object is one connection. One thread at a time may use it; its owner locks. Every failure of the
peer is a ConnectionError, after which the object is closed and a new one is needed.
"""

from __future__ import annotations

import select
import socket
import time
from collections import deque
from typing import Any, Callable, Optional

from rt._json import dump, parse

LINE_BYTES_MAX = 64 << 20  # A longer answer means a broken peer.
HELLO_WAIT_S = 30.0
NO_HELLO = f"the worker did not answer the hello within {HELLO_WAIT_S:g} s"
_READ_BYTES = 1 << 16


class Wire:
    """A connected, non-blocking line socket."""

    def __init__(self, connected: socket.socket) -> None:
        connected.setblocking(False)
        self._socket = connected
        self._partial = bytearray()
        self._messages: deque[dict[str, Any]] = deque()

    @classmethod
    def dial(cls, path: str, deadline_s: float) -> Wire:
        """Connects to the socket at `path`, trying again for `deadline_s` seconds.

        Raises ConnectionError when there is no answer in that time.
        """
        end = time.monotonic() + deadline_s
        pause = 0.02
        while True:
            attempt = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            attempt.settimeout(max(0.1, min(5.0, end - time.monotonic())))
            try:
                attempt.connect(path)
                return cls(attempt)
            except OSError as error:
                attempt.close()
                if time.monotonic() + pause >= end:
                    raise ConnectionError(f"{path}: {error}") from error
            time.sleep(pause)
            pause = min(pause * 1.5, 0.5)

    def close(self) -> None:
        """Closes the connection; safe to repeat."""
        self._socket.close()

    def fileno(self) -> int:
        """The descriptor, -1 once closed."""
        return self._socket.fileno()

    def send(self, line: bytes) -> None:
        """Sends all of `line`; blocks while the peer is behind, but reads its messages."""
        view = memoryview(line)
        while view:
            try:
                view = view[self._socket.send(view) :]
            except (BlockingIOError, InterruptedError):
                self._wait(select.POLLIN | select.POLLOUT, None)
                self._read()
            except OSError as error:
                raise ConnectionError(str(error)) from error

    def receive(self, timeout_s: Optional[float]) -> Optional[dict[str, Any]]:
        """The next message, or None after `timeout_s` seconds (None: waits without end)."""
        end = None if timeout_s is None else time.monotonic() + timeout_s
        while not self._messages:
            left = None if end is None else max(0.0, end - time.monotonic())
            if left != 0.0:
                self._wait(select.POLLIN, left)
            self._read()
            if not self._messages and end is not None and time.monotonic() >= end:
                return None
        return self._messages.popleft()

    def _wait(self, events: int, timeout_s: Optional[float]) -> None:
        poller = select.poll()
        poller.register(self._socket, events)
        poller.poll(None if timeout_s is None else max(1, int(timeout_s * 1000)))

    def _read(self) -> None:
        while True:
            try:
                data = self._socket.recv(_READ_BYTES)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                raise ConnectionError(str(error)) from error
            if not data:
                if self._messages:
                    return
                raise ConnectionError("the other side closed the connection")
            self._partial += data
            self._split()
            if len(data) < _READ_BYTES:
                return

    def _split(self) -> None:
        if len(self._partial) > LINE_BYTES_MAX:
            raise ConnectionError("the other side sent a line that is too long")
        if b"\n" not in self._partial:
            return
        *lines, rest = bytes(self._partial).split(b"\n")
        self._partial = bytearray(rest)
        for line in lines:
            if not line:
                continue
            try:
                message = parse(line)
            except ValueError as error:
                raise ConnectionError(f"the other side did not send JSON: {error}") from error
            if isinstance(message, dict):
                self._messages.append(message)


def greet(wire: Wire, token: str, take: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """A worker's answer to hello; `take` gets the messages before it.

    Raises RuntimeError when the worker refuses the token.
    """
    wire.send(dump({"op": "hello", "token": token}))
    while True:
        message = wire.receive(HELLO_WAIT_S)
        if message is None:
            raise ConnectionError(NO_HELLO)
        if "ok" in message and not message["ok"]:
            error = message.get("error") or {}
            text = error.get("message", error) if isinstance(error, dict) else error
            raise RuntimeError(f"the worker refused this process: {text}")
        if "spooled_seq" in message:
            return message
        take(message)


def refusal(error: Any) -> Exception:
    """The exception for the `error` of a worker's answer to a report: a ValueError if the row
    itself is invalid."""
    given = error if isinstance(error, dict) else {"message": error}
    text = f"the worker refused the report: {given.get('message')}"
    if given.get("hint"):
        text += f"; {given['hint']}"
    return (ValueError if given.get("code") == "INVALID_ARGUMENT" else RuntimeError)(text)
