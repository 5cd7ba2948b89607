"""Where a plan runs. Today that is the consumer's process: one thread reads, one applies functions.

An executor is an argument of a pass. Its two methods get everything that they need as values, so
that another one can send (source, block, operators) to other processes.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Optional, Protocol

from rt.data._arrow import BLOCK_BYTES_MAX, Table, table_bytes
from rt.data._operators import Operator
from rt.data._source import Source

Piece = tuple[int, Table]  # The index of a block, and some of its rows; pieces come in order.

AHEAD_BYTES_MAX = 2 * BLOCK_BYTES_MAX  # One block waits while the next one is being made.
_AHEAD_PIECES_MAX = 256  # Small pieces: enough that a thread does not wait after each of them.
_JOIN_S = 5.0  # A thread that is in a user's function ends after it; nobody waits longer for that.


class Executor(Protocol):
    """Runs operators on blocks."""

    def run(
        self, source: Source, first: int, stop: int, operators: Sequence[Operator]
    ) -> Iterator[Piece]:
        """The pieces of blocks [first, stop) of a source after the operators, in order."""

    def apply(self, pieces: Iterator[Piece], operators: Sequence[Operator]) -> Iterator[Piece]:
        """The pieces of blocks that exist already after the operators, in order."""


def applied(pieces: Iterator[Piece], operators: Sequence[Operator]) -> Iterator[Piece]:
    """Applies operators block by block, as the pieces are asked for."""
    for block, group in itertools.groupby(pieces, key=lambda piece: piece[0]):
        tables: Iterator[Table] = (table for _, table in group)
        for operator in operators:
            tables = operator(tables)
        for table in tables:
            if table.num_rows:
                yield block, table


def read(source: Source, first: int, stop: int) -> Iterator[Piece]:
    """The pieces of blocks [first, stop) of a source."""
    for block in range(first, stop):
        for table in source.read(block):
            if table.num_rows:
                yield block, table


class InlineExecutor:
    """Runs everything when the consumer asks for it."""

    def run(
        self, source: Source, first: int, stop: int, operators: Sequence[Operator]
    ) -> Iterator[Piece]:
        return applied(read(source, first, stop), operators)

    def apply(self, pieces: Iterator[Piece], operators: Sequence[Operator]) -> Iterator[Piece]:
        return applied(pieces, operators)


class ThreadExecutor:
    """Reads in one thread and applies functions in another; both are at most some bytes ahead.

    Functions of the user are never called from two threads at a time. What is in memory already
    and needs no function is given without a thread.
    """

    def __init__(self, ahead_bytes_max: Optional[int] = None) -> None:
        self.ahead_bytes_max = AHEAD_BYTES_MAX if ahead_bytes_max is None else ahead_bytes_max

    def run(
        self, source: Source, first: int, stop: int, operators: Sequence[Operator]
    ) -> Iterator[Piece]:
        pieces = read(source, first, stop)
        if not source.in_memory:
            pieces = ahead(pieces, self.ahead_bytes_max)
        return self.apply(pieces, operators)

    def apply(self, pieces: Iterator[Piece], operators: Sequence[Operator]) -> Iterator[Piece]:
        if not operators:
            return pieces
        return ahead(applied(pieces, operators), self.ahead_bytes_max)


class _Channel:
    """A bounded queue from one thread to another. Either side can end it."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._pieces: deque[Piece] = deque()
        self._changed = threading.Condition()
        self._finished = False
        self._error: Optional[BaseException] = None
        self._stopped = False

    def put(self, piece: Piece) -> bool:
        """Waits for capacity; False when the consumer has left."""
        size = table_bytes(piece[1])
        with self._changed:
            while not self._stopped and self._is_full(size):
                self._changed.wait()
            if self._stopped:
                return False
            self._pieces.append(piece)
            self._bytes += size
            self._changed.notify_all()
            return True

    def _is_full(self, size: int) -> bool:
        if not self._pieces:
            return False
        full = len(self._pieces) >= _AHEAD_PIECES_MAX
        return full or self._bytes + size > self._bytes_max

    def finish(self, error: Optional[BaseException]) -> None:
        with self._changed:
            self._finished, self._error = True, error
            self._changed.notify_all()

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._pieces.clear()
            self._changed.notify_all()

    def get(self) -> Optional[Piece]:
        """The next piece, or None at the end; raises the producer's error."""
        with self._changed:
            while not self._pieces and not self._finished:
                self._changed.wait()
            if self._pieces:
                piece = self._pieces.popleft()
                self._bytes -= table_bytes(piece[1])
                self._changed.notify_all()
                return piece
            if self._error is not None:
                raise self._error
            return None


def ahead(pieces: Iterator[Piece], bytes_max: int) -> Iterator[Piece]:
    """The same pieces, made by a thread that is at most `bytes_max` (or one piece) ahead.

    The thread starts with the first piece that is asked for, and ends when the iterator is closed.
    """
    channel = _Channel(bytes_max)

    def produce() -> None:
        error: Optional[BaseException] = None
        try:
            for piece in pieces:
                if not channel.put(piece):
                    break
        except BaseException as raised:
            error = raised
        finally:
            close = getattr(pieces, "close", None)
            if close is not None:
                close()
            channel.finish(error)

    thread = threading.Thread(target=produce, name="rt-data", daemon=True)
    thread.start()
    try:
        while True:
            piece = channel.get()
            if piece is None:
                return
            yield piece
    finally:
        channel.stop()
        if thread is not threading.current_thread():
            thread.join(_JOIN_S)
