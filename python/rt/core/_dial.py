"""How a driver reaches an executor on its machine: a socket in the directory of its attempt."""

from __future__ import annotations

import hmac
import os
import socket
import struct
from typing import Optional

SOCKET_NAME = "tasks.sock"
GREETING = struct.Struct("<8s32sBQ")  # Magic, secret, what follows, a number.
_MAGIC = b"rt-tasks"
# A process for tasks with this number; the end of the process with this pid; the actor; a process
# that keeps values; the value that it keeps under this serial.
TASKS, KILL, ACTOR, KEEP, TAKE = 1, 2, 3, 4, 5
ACTORS_PROCESS = 0  # With KILL: the process of the detached actor, whose pid is not known yet.
_TIMEOUT_S = 5.0


def _short(directory: str) -> tuple[int, str]:
    """The directory, open, and a path in it that fits into a socket's address (107 bytes)."""
    fd = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    return fd, f"/proc/self/fd/{fd}/{SOCKET_NAME}"


def dial(directory: str) -> socket.socket:
    """A connection to the executor. Raises OSError."""
    fd, path = _short(directory)
    try:
        return dial_path(path)
    finally:
        os.close(fd)


def dial_at_once(directory: str) -> socket.socket:
    """The same without waiting. Raises BlockingIOError when the executor has so many connections
    to accept that it would wait, and OSError."""
    fd, path = _short(directory)
    try:
        return dial_path(path, 0.0)
    finally:
        os.close(fd)


def dial_path(path: str, timeout_s: float = _TIMEOUT_S) -> socket.socket:
    """A connection to a Unix socket with a short path; "@name" is in the abstract namespace. Raises
    OSError."""
    if path.startswith("@"):
        path = "\0" + path[1:]
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.settimeout(timeout_s)
        sock.connect(path)
        return sock
    except BaseException:
        sock.close()
        raise


def listen(directory: str) -> socket.socket:
    """The executor's socket."""
    fd, path = _short(directory)
    try:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.bind(path)
        sock.listen(1024)
        return sock
    finally:
        os.close(fd)


def boot_id() -> str:
    """The boot of this machine, as the kernel numbers it; empty if it does not say."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def greet(sock: socket.socket, secret: str, what: int, number: int) -> None:
    """The first bytes of a connection."""
    sock.sendall(GREETING.pack(_MAGIC, secret.encode("ascii"), what, number))


class Greeting:
    """The first bytes of an accepted connection, read without waiting for them."""

    def __init__(self, sock: socket.socket, deadline: float) -> None:
        self.sock = sock
        self.deadline = deadline  # On the monotonic clock.
        self._data = b""
        sock.setblocking(False)

    def read(self, secret: str) -> Optional[tuple[int, int]]:
        """(what follows, the number); None: there is more to come. Raises PermissionError when it
        is not the session's driver, and OSError."""
        try:
            piece = self.sock.recv(GREETING.size - len(self._data))
        except BlockingIOError:
            return None
        if not piece:
            raise PermissionError("the connection ended before its greeting")
        self._data += piece
        if len(self._data) < GREETING.size:
            return None
        magic, shown, what, number = GREETING.unpack(self._data)
        if magic != _MAGIC or not hmac.compare_digest(shown, secret.encode("ascii")):
            raise PermissionError("a connection did not show the secret of the session")
        self.sock.setblocking(True)
        return what, number
