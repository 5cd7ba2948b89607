"""Sources whose rows are in memory, or computed: items, ranges, arrays, frames and tables."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, Optional

from rt.data._arrow import Table, np, pa, rows_per_block, table_bytes
from rt.data._source import Source

_RANGE_ROWS = 1 << 20  # 8 MB of numbers in a block.
_IDENTITY_ROWS = 3  # Of each table, from its begin and its end.


class TableSource(Source):
    """Arrow tables in memory. They travel with the plan."""

    in_memory = True

    def __init__(self, tables: Sequence[Table], title: str) -> None:
        self.tables = list(tables)
        self.title = title
        self._blocks: list[tuple[int, int, int]] = []  # (table, first row, rows)
        self._cut()

    def __getstate__(self) -> dict[str, Any]:
        # Arrow's stream has only the rows of a slice; its pickle has all of what was sliced.
        return {**self.__dict__, "tables": [_stream_of(each) for each in self.tables]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        streams = state["tables"]
        self.__dict__ = {**state, "tables": [pa.ipc.open_stream(s).read_all() for s in streams]}

    def _cut(self) -> None:
        for number, table in enumerate(self.tables):
            step = rows_per_block(table)
            for start in range(0, table.num_rows, step):
                self._blocks.append((number, start, min(step, table.num_rows - start)))

    def block_count(self) -> int:
        return len(self._blocks)

    def read(self, block: int) -> Iterator[Table]:
        number, start, rows = self._blocks[block]
        yield self.tables[number].slice(start, rows)

    def counts(self) -> Optional[list[int]]:
        return [rows for _, _, rows in self._blocks]

    def schema(self) -> Optional[Any]:
        return self.tables[0].schema if self.tables else None

    def bytes_estimate(self) -> int:
        return sum(table_bytes(each) for each in self.tables)

    def identity(self) -> str:
        digest = hashlib.sha256()
        for table in self.tables:
            digest.update(f"{table.num_rows} {table.schema.names}".encode())
            for part in (table.slice(0, _IDENTITY_ROWS), table.slice(max(0, table.num_rows - 3))):
                digest.update(repr(part.to_pylist()).encode())
        return digest.hexdigest()


class RangeSource(Source):
    """The numbers 0 to n - 1 in the column `id`."""

    in_memory = True
    title = "Range"

    def __init__(self, n: int) -> None:
        self.n = n

    def block_count(self) -> int:
        return -(-self.n // _RANGE_ROWS)

    def read(self, block: int) -> Iterator[Table]:
        start = block * _RANGE_ROWS
        numbers = np.arange(start, min(start + _RANGE_ROWS, self.n), dtype=np.int64)
        yield pa.table({"id": numbers})

    def counts(self) -> Optional[list[int]]:
        blocks = range(self.block_count())
        return [min(_RANGE_ROWS, self.n - block * _RANGE_ROWS) for block in blocks]

    def schema(self) -> Optional[Any]:
        return pa.schema([("id", pa.int64())])

    def bytes_estimate(self) -> int:
        return 8 * self.n

    def identity(self) -> str:
        return f"range {self.n}"


def _stream_of(table: Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())
