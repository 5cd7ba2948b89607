"""A random order of all rows, as a function of (seed, epoch).

Each row is assigned to a bucket, and each bucket is permuted; together that makes every order
equally likely. The blocks of this node are the buckets. A process reads all blocks below once per
pass, and keeps the rows of the buckets that it needs: in memory up to SPILL_BYTES, else in a
temporary file that has no name, so that nothing is left behind even by SIGKILL.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from typing import Any, Optional

from rt.data._arrow import BLOCK_BYTES_MAX, Table, concat, contiguous, cut, np, pa, table_bytes
from rt.data._executor import Executor, Piece
from rt.data._plan import Node
from rt.data._random import buckets, generator, permutation

_BUCKET_BYTES = BLOCK_BYTES_MAX // 2  # By the estimate of the source; functions may enlarge rows.
_BUCKETS_MAX = (
    4096  # Each spill writes one batch per bucket; smaller ones cost more than they save.
)
SPILL_BYTES = 32 << 20  # Sorting for a spill holds this twice more.


class Shuffle(Node):
    """The rows of the node below in a random order. Its blocks are the buckets."""

    def __init__(self, below: Node, seed: int, is_seeded: bool) -> None:
        super().__init__()
        self.below: Node = below
        self.seed = seed
        self.is_seeded = is_seeded  # The user gave the seed.

    def title(self) -> str:
        return "RandomShuffle"

    def block_count(self) -> int:
        estimate = self.source().bytes_estimate()
        return max(1, min(_BUCKETS_MAX, -(-estimate // _BUCKET_BYTES)))

    def depends_on_epoch(self) -> bool:
        return True

    def schema(self) -> Optional[Any]:
        return self.below.schema()

    def drawn(self) -> Optional[int]:
        return self.seed

    def set_drawn(self, number: int) -> None:
        self.seed = number

    def _draws(self, epoch: int, block: int) -> Any:
        return generator(self.seed, epoch, "bucket of", block)

    def known_counts(self, epoch: int) -> Optional[Any]:
        found = super().known_counts(epoch)
        below = self.below.known_counts(epoch) if found is None else None
        if below is None:
            return found
        found = np.zeros(self.block_count(), dtype=np.int64)
        if len(found) == 1:
            found[0] = below.sum()
        else:
            for block, rows in enumerate(below):
                drawn = buckets(int(rows), len(found), self._draws(epoch, block))
                found += np.bincount(drawn, minlength=len(found))
        self.remember_counts(epoch, found)
        return found

    def counts(self, epoch: int) -> Any:
        """Counts below once for all epochs: the buckets of an epoch follow from that."""
        if self.known_counts(epoch) is None:
            self.below.counts(epoch)
        found = self.known_counts(epoch)
        assert found is not None
        return found

    def stream(self, epoch: int, first: int, stop: int, executor: Executor) -> Iterator[Piece]:
        if first >= stop:
            return
        kept = self._fill(epoch, first, stop, executor)
        try:
            for bucket in range(first, stop):
                table = kept.take(bucket)
                if table is None:
                    continue
                order = permutation(table.num_rows, self.seed, epoch, "order of", bucket)
                for part in _parts(table, order):
                    yield bucket, part
                del table
        finally:
            kept.close()

    def _fill(self, epoch: int, first: int, stop: int, executor: Executor) -> _Buckets:
        total = self.block_count()
        kept = _Buckets(first, stop)
        at, draws, counts = -1, None, np.zeros(self.below.block_count(), dtype=np.int64)
        try:
            for block, table in self.below.stream(epoch, 0, self.below.block_count(), executor):
                if block != at:
                    at, draws = block, self._draws(epoch, block)
                counts[block] += table.num_rows
                kept.add(table, buckets(table.num_rows, total, draws))
            kept.finish()
        except BaseException:
            kept.close()
            raise
        self.below.remember_counts(epoch, counts)
        return kept


def _parts(table: Table, order: Any) -> Iterator[Table]:
    """The rows of the table in that order, in tables of at most a block."""
    table = contiguous(table)
    sizes = [part.num_rows for part in cut(table)]
    start = 0
    for size in sizes:
        yield table.take(pa.array(order[start : start + size]))
        start += size


class _Buckets:
    """The rows of the buckets [first, stop), in the order in which they were added."""

    def __init__(self, first: int, stop: int) -> None:
        self._first, self._stop = first, stop
        self._waiting: list[tuple[Table, Any]] = []
        self._bytes = 0
        self._sorted: Optional[tuple[Table, Any]] = None  # The rows when nothing was spilled.
        self._files: list[_SpillFile] = []

    def add(self, table: Table, assigned: Any) -> None:
        """Adds rows; `assigned` is the bucket of each, int64 of shape (rows,)."""
        wanted = (assigned >= self._first) & (assigned < self._stop)
        if not wanted.all():
            rows = np.flatnonzero(wanted)
            if not len(rows):
                return
            table, assigned = table.take(pa.array(rows)), assigned[rows]
        self._waiting.append((table, assigned))
        self._bytes += table_bytes(table)
        if self._bytes > SPILL_BYTES:
            self._spill()

    def finish(self) -> None:
        """After the last row."""
        if self._files:
            self._spill()
            for file in self._files:
                file.finish()
        elif self._waiting:
            self._sorted = self._sort()

    def _sort(self) -> tuple[Table, Any]:
        """All waiting rows by bucket, and the bounds of the buckets in them."""
        table = concat(each for each, _ in self._waiting)
        assigned = np.concatenate([each for _, each in self._waiting])
        self._waiting, self._bytes = [], 0
        if self._stop - self._first > 1:
            table = contiguous(table).take(pa.array(np.argsort(assigned, kind="stable")))
        ids = np.arange(self._first, self._stop + 1)
        return table, np.searchsorted(np.sort(assigned), ids)

    def _spill(self) -> None:
        if not self._waiting:
            return
        table, bounds = self._sort()
        if not self._files or not self._files[-1].schema.equals(table.schema):
            self._files.append(_SpillFile(table.schema))
        for at in range(self._stop - self._first):
            if bounds[at] < bounds[at + 1]:
                rows = table.slice(bounds[at], bounds[at + 1] - bounds[at])
                self._files[-1].write(self._first + at, rows)

    def take(self, bucket: int) -> Optional[Table]:
        """The rows of a bucket, or None when it is empty."""
        if self._sorted is not None:
            table, bounds = self._sorted
            at = bucket - self._first
            rows = table.slice(bounds[at], bounds[at + 1] - bounds[at])
            return rows if rows.num_rows else None
        found = [part for file in self._files for part in file.read(bucket)]
        return concat(found) if found else None

    def close(self) -> None:
        self._waiting, self._sorted = [], None
        for file in self._files:
            file.close()
        self._files = []


def _spill_folder() -> str:
    """RT_DATA_SPILL_DIR, else the trial's directory, which is on a disk, else the system's."""
    for name in ("RT_DATA_SPILL_DIR", "RT_TRIAL_DIR"):
        path = os.environ.get(name)
        if path and os.path.isdir(path):
            return path
    return tempfile.gettempdir()


class _SpillFile:
    """A temporary file of Arrow batches of one schema, each with the number of its bucket."""

    def __init__(self, schema: Any) -> None:
        self.schema = schema
        self._folder = _spill_folder()
        self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115 (see close)
        self._writer = pa.ipc.new_file(pa.PythonFile(self._file, mode="w"), schema)
        self._reader: Any = None
        self._batches: dict[int, list[int]] = {}
        self._written = 0

    def write(self, bucket: int, table: Table) -> None:
        try:
            for batch in contiguous(table).to_batches():
                self._writer.write_batch(batch)
                self._batches.setdefault(bucket, []).append(self._written)
                self._written += 1
        except OSError as error:
            raise OSError(
                f"the shuffle cannot write to {self._folder}: {error}. Free some space, or set "
                "RT_DATA_SPILL_DIR to a directory on a larger disk"
            ) from None

    def finish(self) -> None:
        self._writer.close()
        self._file.flush()
        self._reader = pa.ipc.open_file(pa.PythonFile(self._file, mode="r"))

    def read(self, bucket: int) -> Iterator[Table]:
        for number in self._batches.get(bucket, []):
            yield pa.Table.from_batches([self._reader.get_batch(number)])

    def close(self) -> None:
        self._reader = self._writer = None
        self._file.close()
