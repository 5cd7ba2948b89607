"""Batches of a stream of tables: cutting them to size, and making NumPy or PyTorch values.

A table is converted in chunks of about a megabyte, because a conversion has a fixed cost per
column; a batch is then a slice of the converted chunk. The memory of a chunk belongs to its batches
alone, so user code may change them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, Callable, Optional

from rt.data._arrow import Table, concat, contiguous, np, pa, rows_per_block
from rt.data._formats import Batch, numpy_of, pandas_of
from rt.data._position import Window
from rt.data._tensors import stacked_lists

_CHUNK_BYTES = 1 << 20  # Fits the processor's cache; a batch that is kept keeps no more than this.


def batch_tables(
    tables: Iterable[Table], sizes: Iterator[int], rest: bool
) -> Iterator[tuple[Table, list[int]]]:
    """Tables of whole batches, and the sizes of those batches.

    The sizes are taken one after the other. With `rest` the rows that are too few for the next size
    are a last batch.
    """
    waiting: deque[Table] = deque()
    count = 0
    size = next(sizes, None)
    for table in tables:
        waiting.append(table)
        count += table.num_rows
        most = rows_per_block(table, _CHUNK_BYTES)
        while size is not None and count >= size:
            total, taken = 0, []
            while size is not None and total + size <= min(count, max(most, size)):
                taken.append(size)
                total += size
                size = next(sizes, None)
            yield _pop(waiting, total), taken
            count -= total
        if size is None:
            return
    if count and rest:
        yield _pop(waiting, count), [count]


def _pop(waiting: deque[Table], rows: int) -> Table:
    """The next `rows` rows as one table with one chunk per column."""
    found = []
    while rows > 0:
        table = waiting.popleft()
        if table.num_rows > rows:
            waiting.appendleft(table.slice(rows))
            table = table.slice(0, rows)
        found.append(table)
        rows -= table.num_rows
    return contiguous(concat(found))


def shuffled(
    tables: Iterable[Table], window: Window, epoch: int, rank: int, taken: int
) -> Iterator[Table]:
    """The rows in windows, each permuted. `taken` rows of the share are left out.

    The first table begins with the window of the first row that is not taken.
    """
    number = taken // window.rows
    skip = taken - number * window.rows

    def permuted(rows: list[Table]) -> Table:
        table = contiguous(concat(rows))
        order = window.order(table.num_rows, epoch, rank, number)
        return table.take(pa.array(order[skip:]))

    waiting: list[Table] = []
    count = 0
    for table in tables:
        while count + table.num_rows >= window.rows:
            head = table.slice(0, window.rows - count)
            yield permuted([*waiting, head])
            table = table.slice(head.num_rows)
            waiting, count, skip, number = [], 0, 0, number + 1
        if table.num_rows:
            waiting.append(table)
            count += table.num_rows
    if count > skip:
        yield permuted(waiting)


def _writable(array: Any) -> Any:
    return array if array.flags.writeable and array.flags.owndata else array.copy()


def numpy_batches(table: Table, sizes: list[int]) -> Iterator[Batch]:
    """Dicts of ndarrays of their own."""
    columns = {name: _writable(array) for name, array in numpy_of(table).items()}
    yield from _slices(columns, sizes)


def _slices(columns: dict[str, Any], sizes: list[int]) -> Iterator[dict[str, Any]]:
    start = 0
    for size in sizes:
        stop = start + size
        yield {name: column[start:stop] for name, column in columns.items()}
        start = stop


def table_batches(table: Table, sizes: list[int]) -> Iterator[Batch]:
    """pyarrow.Table of each batch."""
    start = 0
    for size in sizes:
        yield table.slice(start, size)
        start += size


def pandas_batches(table: Table, sizes: list[int]) -> Iterator[Batch]:
    """pandas.DataFrame of each batch, with an index from 0."""
    return map(pandas_of, table_batches(table, sizes))


def batches_in(batch_format: Optional[str]) -> Callable[[Table, list[int]], Iterator[Batch]]:
    """The function that makes the batches of a format from a table."""
    if batch_format == "pandas":
        return pandas_batches
    if batch_format in ("pyarrow", None):
        return table_batches
    return numpy_batches


class TorchBatches:
    """Dicts of tensors. `dtypes` is a torch.dtype for all columns, or a dict by column."""

    def __init__(self, dtypes: Any, device: Any, pin_memory: bool) -> None:
        self._dtypes = dtypes
        self._device = device
        self._pin_memory = pin_memory

    def __call__(self, table: Table, sizes: list[int]) -> Iterator[Batch]:
        columns = {
            name: self._tensor(name, column)
            for name, column in zip(table.column_names, table.itercolumns())
        }
        batches = _slices(columns, sizes)
        return map(self._placed, batches) if self._device or self._pin_memory else batches

    def _placed(self, batch: dict[str, Any]) -> dict[str, Any]:
        if self._pin_memory:
            batch = {name: tensor.pin_memory() for name, tensor in batch.items()}
        if self._device is None:
            return batch
        return {
            name: tensor.to(self._device, non_blocking=self._pin_memory)
            for name, tensor in batch.items()
        }

    def _tensor(self, name: str, column: Any) -> Any:
        import torch

        array = stacked_lists(column)
        if array is None:
            array = numpy_of(pa.table({name: column}))[name]
        if array.dtype.kind not in "biuf":
            raise TypeError(
                f"column {name!r} has the type {column.type}, of which PyTorch makes no tensor. "
                "Encode it with map_batches, leave it out with drop_columns, or give a collate_fn"
            )
        if array.dtype.kind == "u" and array.dtype.itemsize > 1:
            array = array.astype(np.int64)  # PyTorch can do little with wide unsigned integers.
        wanted = self._dtypes.get(name) if isinstance(self._dtypes, dict) else self._dtypes
        tensor = torch.from_numpy(_writable(array))
        return tensor if wanted is None else tensor.to(wanted)
