"""Frames of messages over a stream socket, with descriptors of shared values.

A frame is a header (the length of its body, the number of its descriptors) and a pickled list of
messages. Messages are collected until `flush`, so that many small ones cost one system call. The
socket is non-blocking. The owner holds the lock, and reads nothing before the other side has shown
the secret.
"""

from __future__ import annotations

import array
import pickle
import socket
import struct
from collections import deque
from typing import Any, Optional

from rt.core._values import frame

_HEADER = struct.Struct("<QI")
_READ_BYTES = 1 << 18
_FDS_MAX = 250  # Of one byte of the stream: the kernel's limit is 253.
_BATCH_MAX = 1 << 10  # Messages of one frame.
FRAME_BYTES_MAX = 8 << 30  # A longer one means a broken peer.
_ANCILLARY = socket.CMSG_SPACE(253 * 4)

Message = tuple[Any, ...]


class Channel:
    """One connection. Errors of the other side are ConnectionError."""

    __slots__ = ("_batch", "_fds", "_out", "_partial", "is_local", "sock")

    def __init__(self, sock: socket.socket, is_local: bool = True) -> None:
        """is_local: the other side is on this machine, so descriptors can be passed."""
        sock.setblocking(False)
        self.sock = sock
        self.is_local = is_local
        self._batch: list[Message] = []
        self._out: deque[tuple[memoryview, list[int], list[Any]]] = deque()
        self._partial = bytearray()
        self._fds: list[int] = []  # Received, and of frames that are not whole yet.

    def fileno(self) -> int:
        """The socket's descriptor."""
        return self.sock.fileno()

    def post(self, message: Message) -> int:
        """Adds a message to the next frame. The number of messages in it."""
        self._batch.append(message)
        return len(self._batch)

    @property
    def post_count(self) -> int:
        """The number of messages that were posted and not sent."""
        return len(self._batch)

    def flush(self) -> bool:
        """Sends what was posted, as far as the socket takes it. Whether all was sent."""
        while self._batch:
            batch, self._batch = self._batch[:_BATCH_MAX], self._batch[_BATCH_MAX:]
            self._queue(batch)
        while self._out:
            view, fds, kept = self._out[0]
            try:
                done = self._send(view, fds)
            except (BlockingIOError, InterruptedError):
                return False
            except OSError as error:
                raise ConnectionError(str(error)) from error
            if done == len(view):
                self._out.popleft()
            else:
                self._out[0] = (view[done:], [], kept)
        return True

    def _send(self, view: memoryview, fds: list[int]) -> int:
        if not fds:
            return self.sock.send(view)
        attached = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]
        return self.sock.sendmsg([view], attached)

    def _queue(self, batch: list[Message]) -> None:
        fds: Optional[list[int]] = [] if self.is_local else None
        frame.fds = fds
        try:
            body = pickle.dumps(batch, 5)
        finally:
            frame.fds = None
        head = _HEADER.pack(len(body), len(fds or ()))
        if len(body) < _READ_BYTES:
            head, body = head + body, b""
        # Each byte carries as many descriptors as the kernel passes at a time. The batch is kept
        # until it was sent, because it holds them open.
        at = 0
        for first in range(0, len(fds or ()), _FDS_MAX):
            if at == len(head):
                head, body, at = body, b"", 0
            assert fds is not None
            piece = (memoryview(head)[at : at + 1], fds[first : first + _FDS_MAX], batch)
            self._out.append(piece)
            at += 1
        self._out.append((memoryview(head)[at:], [], []))
        if body:
            self._out.append((memoryview(body), [], []))

    def read(self) -> list[Message]:
        """The messages of all frames that have arrived whole; does not block."""
        found: list[Message] = []
        while True:
            try:
                data, ancillary, flags, _ = self.sock.recvmsg(
                    _READ_BYTES, _ANCILLARY, socket.MSG_CMSG_CLOEXEC
                )
            except (BlockingIOError, InterruptedError):
                return found
            except OSError as error:
                if found:
                    return found  # The error comes again.
                raise ConnectionError(str(error)) from error
            if flags & socket.MSG_CTRUNC:
                raise ConnectionError("too many files are open; raise the limit (ulimit -n)")
            for _, _, payload in ancillary:
                self._fds.extend(array.array("i", payload[: len(payload) // 4 * 4]))
            if not data:
                if found:
                    return found
                raise ConnectionError("the other side closed the connection")
            self._take(data, found)
            if len(data) < _READ_BYTES:
                return found

    def _take(self, data: bytes, found: list[Message]) -> None:
        if self._partial:
            self._partial += data
            whole: Any = self._partial
        else:
            whole = data
        view, at, size = memoryview(whole), 0, _HEADER.size
        while len(view) - at >= size:
            length, fds = _HEADER.unpack_from(view, at)
            if length > FRAME_BYTES_MAX:
                raise ConnectionError("the other side sent a frame that is too long")
            if len(view) - at - size < length:
                break
            found.extend(self._loads(view[at + size : at + size + length], fds))
            at += size + length
        rest = bytes(view[at:]) if at else None
        view.release()
        if rest is not None:
            self._partial = bytearray(rest)
        elif whole is data:
            self._partial = bytearray(data)

    def _loads(self, body: memoryview, count: int) -> list[Message]:
        fds, self._fds = self._fds[:count], self._fds[count:]
        frame.fds = fds
        try:
            messages: list[Message] = pickle.loads(body)
            return messages
        finally:
            frame.fds = None
            body.release()

    def close(self) -> None:
        """Closes the connection; safe to repeat."""
        self.sock.close()
