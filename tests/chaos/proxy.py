"""A TCP proxy that delays, jitters and resets: this kernel may have no netem.

Runs in a thread of its own. `delay_s` and `jitter_s` hold for both directions and may be changed
while connections live; bytes never overtake each other.
"""

from __future__ import annotations

import collections
import random
import selectors
import socket
import struct
import threading
import time
from typing import Optional

PIECE = 64 << 10


class Flow:
    """Bytes in one direction, each piece with the time at which it is due."""

    def __init__(self, source: socket.socket, target: socket.socket) -> None:
        self.source, self.target = source, target
        self.pieces: collections.deque[tuple[float, bytes]] = collections.deque()
        self.other: Optional[Flow] = None


class Proxy(threading.Thread):
    def __init__(self, host: str, upstream: tuple[str, int], seed: int = 0) -> None:
        super().__init__(daemon=True)
        self.upstream = upstream
        self.delay_s = self.jitter_s = 0.0
        self.resets = 0
        self._rng = random.Random(seed)
        self._flows: dict[socket.socket, Flow] = {}
        self._reset = False
        self._selector = selectors.DefaultSelector()
        self._listener = socket.create_server((host, 0), backlog=128)
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self.address = f"{host}:{self._listener.getsockname()[1]}"
        self._stopping = False
        self.start()

    def reset(self) -> None:
        """RST for every connection; new ones are taken."""
        self._reset = True

    def close(self) -> None:
        self._stopping = True
        self.join(10)

    def run(self) -> None:
        while not self._stopping:
            for key, _ in self._selector.select(self._wait_s()):
                if key.fileobj is self._listener:
                    self._accept()
                else:
                    self._read(key.fileobj)  # type: ignore[arg-type]
            if self._reset:
                self._reset = False
                for source in list(self._flows):
                    self._drop(source)
            self._forward()
        for source in list(self._flows):
            self._drop(source)
        self._listener.close()

    def _wait_s(self) -> float:
        dues = [flow.pieces[0][0] for flow in self._flows.values() if flow.pieces]
        return max(0.0, min([0.05, *(due - time.monotonic() for due in dues)]))

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        try:
            server = socket.create_connection(self.upstream, timeout=1)
        except OSError:
            client.close()
            return
        there, back = Flow(client, server), Flow(server, client)
        there.other, back.other = back, there
        for flow in (there, back):
            flow.source.setblocking(False)
            flow.source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._flows[flow.source] = flow
            self._selector.register(flow.source, selectors.EVENT_READ)

    def _read(self, source: socket.socket) -> None:
        flow = self._flows.get(source)
        if flow is None:
            return
        try:
            piece = source.recv(PIECE)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        if not piece:
            self._drop(source)
            return
        due = time.monotonic() + self.delay_s + self._rng.uniform(0, self.jitter_s)
        if flow.pieces:
            due = max(due, flow.pieces[-1][0])
        flow.pieces.append((due, piece))

    def _forward(self) -> None:
        for source, flow in list(self._flows.items()):
            while flow.pieces and flow.pieces[0][0] <= time.monotonic():
                due, piece = flow.pieces[0]
                try:
                    sent = flow.target.send(piece)
                except BlockingIOError:
                    break
                except OSError:
                    self._drop(source)
                    break
                flow.pieces.popleft()
                if sent < len(piece):
                    flow.pieces.appendleft((due, piece[sent:]))
                    break

    def _drop(self, source: socket.socket) -> None:
        flow = self._flows.get(source)
        if flow is None:
            return
        self.resets += 1
        for one in (flow.source, flow.target):
            if self._flows.pop(one, None) is not None:
                self._selector.unregister(one)
            try:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            except OSError:
                pass  # It is closed already; what follows is harmless.
            one.close()
