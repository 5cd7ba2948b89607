"""pyarrow and NumPy, which rt.data needs, and the size of a block.

Every module of rt.data takes `pa` and `np` from here, so that a missing package is reported once
and in one way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

try:
    import numpy as np
    import pyarrow as pa
except ImportError as error:
    raise ImportError(
        f"rt.data needs pyarrow and NumPy ({error.name} is missing): pip install 'rt[data]'"
    ) from None

BLOCK_BYTES_MAX = 32 << 20  # Large enough to hide the cost of a call, small enough to hold several.

Table = Any  # A pyarrow.Table.


def table_bytes(table: Table) -> int:
    """Bytes of the rows of a table. A slice counts only its own rows."""
    return int(table.nbytes)


def rows_per_block(table: Table, block_bytes_max: int = BLOCK_BYTES_MAX) -> int:
    """How many rows of the size of this table's rows fit in a block; at least 1."""
    if table.num_rows == 0:
        return 1
    return max(1, int(block_bytes_max * table.num_rows / max(1, table_bytes(table))))


def cut(table: Table, block_bytes_max: int = BLOCK_BYTES_MAX) -> Iterator[Table]:
    """The table in slices of at most `block_bytes_max`, without a copy; nothing if it is empty."""
    step = rows_per_block(table, block_bytes_max)
    for start in range(0, table.num_rows, step):
        yield table.slice(start, step) if step < table.num_rows else table


def concat(tables: Iterable[Table]) -> Table:
    """One table of all rows. A column that a table lacks is null there; int and float give float.

    Raises ValueError when a column has types that no common type can hold.
    """
    found = list(tables)
    if len(found) == 1:
        return found[0]
    first = found[0].schema
    if all(each.schema.equals(first) for each in found[1:]):
        return pa.concat_tables(found)
    try:
        return pa.concat_tables(found, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise ValueError(
            f"blocks of the data set have columns of different types: {error}. Cast the column to "
            "one type with map_batches, or name its type when the file is read"
        ) from None


def contiguous(table: Table) -> Table:
    """The table with one chunk per column; copies only when there are several."""
    if all(column.num_chunks == 1 for column in table.itercolumns()):
        return table
    return table.combine_chunks()


__all__ = [
    "BLOCK_BYTES_MAX",
    "Table",
    "concat",
    "contiguous",
    "cut",
    "np",
    "pa",
    "rows_per_block",
    "table_bytes",
]
