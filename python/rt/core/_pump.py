"""One loop for the connections of a process, driven by whichever thread waits.

A thread that waits in `run_until` polls by itself, so that an answer needs no change of threads.
Other waiting threads follow the one that polls. When no thread waits, a background thread polls
(`start`).
"""

from __future__ import annotations

import os
import select
import threading
import time
import traceback
from typing import Callable, Optional, Protocol

_FOLLOW_S = 0.05  # A follower looks again, should it have missed the end of the leader.
_TICK_S = 0.1
_YIELD_S = 0.002  # The background thread leaves the polling to a thread that waits.
_EVENTS_MAX = 64


class Port(Protocol):
    """A connection in the loop. Its methods are called with the lock held."""

    def fileno(self) -> int:
        """The descriptor."""

    def on_readable(self) -> None:
        """Bytes have arrived, or the other side has gone."""

    def flush(self) -> bool:
        """Sends what is to be sent. Whether all of it was."""


class Pump:
    """Connections, and the lock of all that their messages change."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._epoll = select.epoll()
        self._role = threading.Lock()  # Of the thread that polls.
        self._arrived = threading.Condition(self.lock)
        self._followers = 0
        self._ports: dict[int, Port] = {}
        self._dirty: dict[Port, None] = {}  # To be flushed.
        self._next_tick = 0.0
        self._closed = False
        self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC) if _HAS_EVENTFD else -1
        self._pipe: Optional[tuple[int, int]] = None
        if self._wake_fd < 0:
            self._pipe = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._epoll.register(self._waker, select.EPOLLIN)
        self.on_tick: list[Callable[[float], None]] = []
        self.waiters: dict[int, None] = {}  # Threads that wait in run_until.

    @property
    def _waker(self) -> int:
        return self._pipe[0] if self._pipe is not None else self._wake_fd

    def fileno(self) -> int:
        """A descriptor that is readable when a connection is."""
        return self._epoll.fileno()

    def start(self) -> None:
        """Starts the background thread."""
        threading.Thread(target=self._background, name="rt-core", daemon=True).start()

    # With the lock held.

    def add(self, port: Port) -> None:
        """Watches a connection."""
        self._ports[port.fileno()] = port
        self._epoll.register(port.fileno(), select.EPOLLIN)

    def remove(self, port: Port) -> None:
        """Stops watching it, before it is closed; safe to repeat."""
        fd = port.fileno()
        if self._ports.get(fd) is port:
            del self._ports[fd]
            self._epoll.unregister(fd)
        self._dirty.pop(port, None)

    def mark(self, port: Port) -> None:
        """It has something to send, at the latest when the loop runs next."""
        self._dirty[port] = None

    def flush(self) -> None:
        """Sends what marked connections have to send."""
        while self._dirty:
            port, _ = self._dirty.popitem()
            self.flush_port(port)

    def flush_port(self, port: Port) -> None:
        """Sends what it has to send; the rest follows when the socket has room."""
        fd = port.fileno()
        if fd < 0 or fd not in self._ports:
            return
        if not port.flush() and port.fileno() == fd and fd in self._ports:
            self._epoll.modify(fd, select.EPOLLIN | select.EPOLLOUT)

    # Without the lock.

    def wake(self) -> None:
        """Lets a waiting thread look again."""
        if self._pipe is None:
            os.eventfd_write(self._wake_fd, 1)
        else:
            os.write(self._pipe[1], b"\0")

    def run_until(self, done: Callable[[], bool], end: Optional[float] = None) -> bool:
        """Runs the loop until `done()`, which is asked with the lock held, or until the time `end`
        (time.monotonic). Whether it is done."""
        self.waiters[threading.get_ident()] = None
        try:
            return self._run_until(done, end)
        finally:
            self.waiters.pop(threading.get_ident(), None)

    def _run_until(self, done: Callable[[], bool], end: Optional[float]) -> bool:
        while True:
            if self._role.acquire(blocking=False):
                try:
                    found = self._lead(done, end)
                finally:
                    self._step_down()
                return found
            with self.lock:
                if done():
                    return True
                if end is not None and time.monotonic() >= end:
                    return False
                self._followers += 1
                try:
                    self._arrived.wait(_FOLLOW_S)
                finally:
                    self._followers -= 1

    def _lead(self, done: Callable[[], bool], end: Optional[float]) -> bool:
        while True:
            with self.lock:
                self.flush()
                if done():
                    return True
            wait_s = _TICK_S
            if end is not None:
                left = end - time.monotonic()
                if left <= 0:
                    self._turn(0.0)
                    with self.lock:
                        self.flush()
                        return done()
                wait_s = min(left, wait_s)
            self._turn(wait_s)

    def turn(self, wait_s: float) -> None:
        """One turn of the loop, unless another thread runs it."""
        if self._role.acquire(blocking=False):
            try:
                with self.lock:
                    self.flush()
                self._turn(wait_s)
            finally:
                self._step_down()

    def _step_down(self) -> None:
        """Another thread may poll: one that follows does so next."""
        self._role.release()
        if self._followers:
            with self.lock:
                self._arrived.notify_all()

    def _turn(self, wait_s: float) -> None:
        events = self._epoll.poll(wait_s, _EVENTS_MAX)
        now = time.monotonic()
        if not events and now < self._next_tick:
            return
        with self.lock:
            for fd, event in events:
                self._take(fd, event)
            if now >= self._next_tick:
                self._next_tick = now + _TICK_S
                try:
                    for tick in self.on_tick:
                        tick(now)
                except Exception:  # It must not end the rt.get of the thread that polls.
                    traceback.print_exc()
            self.flush()
            if self._followers and events:
                self._arrived.notify_all()

    def _take(self, fd: int, event: int) -> None:
        if fd == self._waker:
            try:
                os.read(fd, 8)
            except BlockingIOError:
                pass
            return
        port = self._ports.get(fd)
        if port is None:
            return
        if event & select.EPOLLOUT and port.flush() and self._ports.get(fd) is port:
            self._epoll.modify(fd, select.EPOLLIN)
        if event & ~select.EPOLLOUT and self._ports.get(fd) is port:
            port.on_readable()

    def _background(self) -> None:
        poller = select.poll()
        poller.register(self._epoll.fileno(), select.POLLIN)
        while not self._closed:
            poller.poll(_TICK_S * 1000)
            if self._closed:
                return
            if self._role.acquire(blocking=False):
                try:
                    if not self._closed:
                        self._turn(0.0)
                finally:
                    self._step_down()
            else:
                time.sleep(_YIELD_S)

    def close(self) -> None:
        """Ends the loop; the connections are their owner's to close."""
        self._closed = True
        self.wake()

    def forget_in_child(self) -> None:
        """After a fork: the copies of the descriptors are closed, nothing is said."""
        self._closed = True
        for fd in [*self._ports, *(self._pipe or (self._wake_fd,))]:
            try:
                os.close(fd)
            except OSError:
                pass
        self._ports.clear()
        self._epoll.close()


_HAS_EVENTFD = hasattr(os, "eventfd")  # From Python 3.10 on.
