"""Accumulator: a dict of sums over all ranks and restarts."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import IO, Any, Optional, Union

from rt.elastic import checkpoint, collective
from rt.elastic.torch import _job

Updates = Union[Mapping[Any, Any], Iterable[tuple[Any, Any]]]


class Sum:
    """An exact sum of numbers: it does not depend on their order, nor on how ranks share them.

    Its parts do not overlap, and their sum is exact (Shewchuk, 1997).
    """

    def __init__(self, parts: Iterable[float] = ()) -> None:
        self.parts = list(parts)

    def add(self, value: Any) -> None:
        """Adds a number."""
        value = _number(value)
        if isinstance(value, int) and abs(value) >= 2**53:
            value = float(value)
        kept = []
        for part in self.parts:
            high, low = (value, part) if abs(value) >= abs(part) else (part, value)
            total = high + low
            rest = low - (total - high)
            if rest:
                kept.append(rest)
            value = total
        self.parts = [*kept, value]

    @property
    def value(self) -> Any:
        """The sum, rounded once."""
        return self.parts[-1] if len(self.parts) == 1 else sum(self.parts)


def _number(value: Any) -> Any:
    item = getattr(value, "item", None)
    value = item() if item is not None and not isinstance(value, (int, float)) else value
    if not isinstance(value, (int, float)):
        raise TypeError(f"an Accumulator adds up numbers, not a {type(value).__name__}")
    return value


class _Results(checkpoint.State):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.sums: dict[Any, Sum] = {}
        self.updates: dict[Any, Sum] = {}  # Of this rank, not yet in `sums`.
        # What was read, by the epoch: of the epoch in hand, and outside of epochs (None).
        self.history: dict[Optional[int], list[dict[Any, Any]]] = {}
        checkpoint.load_state(self)

    def sync(self) -> None:
        """Adds up what the ranks have. (Also called when the results are read.)"""
        own = {key: each.parts for key, each in self.updates.items()}
        for parts in collective.gather(own):
            for key, numbers in parts.items():
                total = self.sums.setdefault(key, Sum())
                for number in numbers:
                    total.add(number)
        self.updates = {}

    def reads_in(self, epoch: Optional[int]) -> list[dict[Any, Any]]:
        """What was read in this epoch; that of other epochs, which do not run again, is dropped."""
        self.history = {key: each for key, each in self.history.items() if key in (None, epoch)}
        return self.history.setdefault(epoch, [])

    def save(self, fileobj: IO[bytes]) -> None:
        """Writes sums and history."""
        sums = {key: each.parts for key, each in self.sums.items()}
        fileobj.write(collective.encode([sums, self.history]))

    def load(self, fileobj: IO[bytes]) -> None:
        """Reads them."""
        sums, self.history = collective.decode(fileobj.read())
        self.sums = {key: Sum(parts) for key, parts in sums.items()}


class Accumulator(MutableMapping[Any, Any]):
    """A dict of numbers that every rank adds to, and that all read together.

    `stats["correct"] += 3` on any rank; inside `with stats.synchronized():`, which every rank
    enters, it is a plain dict with the sums of all ranks. A loop that goes on after a restart goes
    on with its sums. Raises RuntimeError if it is made inside a loop over a data loader, and when
    sums are read outside `synchronized()`.
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        job = _job.current()
        if job.loader is not None:
            raise RuntimeError("make the Accumulator before the loop over the data loader")
        self._results = _Results(job.epochs.name_for("accumulator"))
        job.epochs.own(self._results, self)
        self._reads: dict[Optional[int], int] = {}  # By the epoch, as `history`.
        self._open: Optional[dict[Any, Any]] = None
        if not self._results.sums and job.rank == 0:
            self.update(*given, **named)

    @contextlib.contextmanager
    def synchronized(self) -> Iterator[Accumulator]:
        """Inside, the accumulator is a dict of the sums; every rank must do the same there."""
        if self._open is not None:
            yield self
            return
        results, epoch = self._results, _job.current().epochs.current
        history, number = results.reads_in(epoch), self._reads.get(epoch, 0)
        self._reads = {None: self._reads.get(None, 0), epoch: number + 1}
        if number < len(history):  # The code before the interruption runs again.
            self._open = dict(history[number])
            try:
                yield self
            finally:
                self._open = None
            return
        results.sync()
        self._open = {key: each.value for key, each in results.sums.items()}
        history.append(dict(self._open))
        before = dict(self._open)
        try:
            yield self
        finally:
            for key in [key for key in results.sums if key not in self._open]:
                del results.sums[key]
            for key, value in self._open.items():
                if key not in before or before[key] is not value:
                    results.sums[key] = Sum([value])
            self._open = None

    def update(self, *given: Any, **named: Any) -> None:
        """Adds the numbers of a mapping or of pairs."""
        for key, value in _pairs(*given, **named):
            self._add(key, value, 1)

    def subtract(self, *given: Any, **named: Any) -> None:
        """Subtracts the numbers of a mapping or of pairs."""
        for key, value in _pairs(*given, **named):
            self._add(key, value, -1)

    def __iadd__(self, other: Updates) -> Accumulator:
        self.update(other)
        return self

    def __isub__(self, other: Updates) -> Accumulator:
        self.subtract(other)
        return self

    def _add(self, key: Any, value: Any, sign: int) -> None:
        if self._open is not None:
            self._open[key] = self._open.get(key, 0) + sign * _number(value)
            return
        self._results.updates.setdefault(key, Sum()).add(sign * _number(value))

    def __getitem__(self, key: Any) -> Any:
        return self._open[key] if self._open is not None else _Change()

    def __setitem__(self, key: Any, value: Any) -> None:
        if self._open is not None:
            self._open[key] = value
        elif isinstance(value, _Change):
            for each in value.added:
                self._add(key, each, 1)
        else:
            raise TypeError("outside synchronized(), an Accumulator takes += and -= only")

    def _read(self) -> dict[Any, Any]:
        if self._open is None:
            raise RuntimeError("read an Accumulator inside `with accumulator.synchronized():`")
        return self._open

    def __delitem__(self, key: Any) -> None:
        del self._read()[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())

    def __contains__(self, key: object) -> bool:
        return key in self._read()

    def __repr__(self) -> str:
        return repr(self._open) if self._open is not None else "<Accumulator, not synchronized>"


class _Change:
    """What `accumulator[key]` is outside synchronized(): it remembers what is added to it."""

    def __init__(self) -> None:
        self.added: list[Any] = []

    def __add__(self, value: Any) -> _Change:
        self.added.append(value)
        return self

    def __sub__(self, value: Any) -> _Change:
        self.added.append(-value)
        return self


def _pairs(*given: Any, **named: Any) -> list[tuple[Any, Any]]:
    return list(dict(*given, **named).items())
