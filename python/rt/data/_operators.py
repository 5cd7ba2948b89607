"""Operators on one block: each takes the block's tables one after the other and gives tables.

A block's result depends on that block alone, so that running can begin at any block. The functions
belong to the user: an error in one keeps its traceback, and gets a note where Python has notes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Callable, Optional

from rt.data._arrow import BLOCK_BYTES_MAX, Table, cut, np, pa, table_bytes
from rt.data._formats import batches_of, format_of, rows_of, table_of_rows

_ROWS_AT_ONCE = 1024  # Rows that are Python dicts at the same time.


def name_of(fn: Any) -> str:
    """A function's name, as it is shown in plans and errors."""
    name = getattr(fn, "__name__", None) or type(getattr(fn, "func", fn)).__name__
    return str(name)


@dataclass
class Function:
    """A user's function with its arguments; a class is constructed once in each process."""

    fn: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    constructor_args: tuple[Any, ...] = ()
    constructor_kwargs: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._made: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_made": None}

    def __call__(self, value: Any) -> Any:
        fn = self.fn
        if isinstance(fn, type):
            if self._made is None:
                self._made = fn(*self.constructor_args, **self.constructor_kwargs)
            fn = self._made
        return fn(value, *self.args, **self.kwargs)

    @property
    def name(self) -> str:
        return name_of(self.fn)


class Operator:
    """Maps the tables of one block. `keeps_rows`: it never changes the number of rows."""

    keeps_rows = False
    title = ""

    def __call__(self, tables: Iterator[Table]) -> Iterator[Table]:
        raise NotImplementedError


def _row_tables(rows: Iterator[dict[str, Any]], block_bytes_max: int) -> Iterator[Table]:
    """Tables of rows, each at most about a block; rows are gathered `_ROWS_AT_ONCE` at a time."""
    gathered: list[dict[str, Any]] = []
    for row in rows:
        gathered.append(row)
        if len(gathered) >= _ROWS_AT_ONCE:
            yield from cut(table_of_rows(gathered), block_bytes_max)
            gathered = []
    if gathered:
        yield from cut(table_of_rows(gathered), block_bytes_max)


def _slices(table: Table, rows: int) -> Iterator[Table]:
    for start in range(0, table.num_rows, rows):
        yield table.slice(start, rows)


class MapRows(Operator):
    """`map`: a row gives a row."""

    keeps_rows = True

    def __init__(self, function: Function) -> None:
        self.function = function
        self.title = f"Map({function.name})"

    def __call__(self, tables: Iterator[Table]) -> Iterator[Table]:
        return _row_tables(self._rows(tables), BLOCK_BYTES_MAX)

    def _rows(self, tables: Iterator[Table]) -> Iterator[dict[str, Any]]:
        for table in tables:
            for part in _slices(table, _ROWS_AT_ONCE):
                for row in rows_of(part):
                    yield _checked_row(self.function(row), self.title, "return")


class FlatMapRows(Operator):
    """`flat_map`: a row gives any number of rows."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.title = f"FlatMap({function.name})"

    def __call__(self, tables: Iterator[Table]) -> Iterator[Table]:
        return _row_tables(self._rows(tables), BLOCK_BYTES_MAX)

    def _rows(self, tables: Iterator[Table]) -> Iterator[dict[str, Any]]:
        for table in tables:
            for part in _slices(table, _ROWS_AT_ONCE):
                for row in rows_of(part):
                    given = self.function(row)
                    if isinstance(given, (dict, str, bytes)) or not hasattr(given, "__iter__"):
                        raise ValueError(
                            f"{self.title} must return a list of rows (dicts); it returned "
                            f"{type(given).__name__}"
                        )
                    for each in given:
                        yield _checked_row(each, self.title, "return a list of")


def _checked_row(row: Any, title: str, verb: str) -> dict[str, Any]:
    if not isinstance(row, dict):
        example = "{'item': 3}"
        raise ValueError(
            f"{title} must {verb} dicts such as {example}; it gave a value of type "
            f"{type(row).__name__}"
        )
    return row


class FilterRows(Operator):
    """`filter`: keeps the rows for which the function is true."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.title = f"Filter({function.name})"

    def __call__(self, tables: Iterator[Table]) -> Iterator[Table]:
        for table in tables:
            kept = np.fromiter(
                (
                    bool(self.function(row))
                    for part in _slices(table, _ROWS_AT_ONCE)
                    for row in rows_of(part)
                ),
                dtype=bool,
                count=table.num_rows,
            )
            if kept.all():
                yield table
            else:
                yield table.take(pa.array(np.flatnonzero(kept)))


class MapBatches(Operator):
    """`map_batches`: a batch gives a batch, or several from a generator."""

    def __init__(
        self,
        function: Function,
        batch_size: Optional[int],
        batch_format: Optional[str],
        copies: bool = False,
    ) -> None:
        self.function = function
        self.batch_size = batch_size
        self.batch_format = batch_format
        self.copies = copies
        self.title = f"MapBatches({function.name})"

    def __call__(self, tables: Iterator[Table]) -> Iterator[Table]:
        make = format_of(self.batch_format)
        for part in self._parts(tables):
            batch = make(part)
            if self.copies and isinstance(batch, dict):
                batch = {name: array.copy() for name, array in batch.items()}
            for made in batches_of(self.function(batch), self.title):
                yield from cut(made)

    def _parts(self, tables: Iterator[Table]) -> Iterator[Table]:
        """Batches of `batch_size` rows; the last one of a block may be smaller."""
        if self.batch_size is None:
            yield from (each for each in tables if each.num_rows)
            return
        yield from regroup(tables, self.batch_size)


def regroup(tables: Iterator[Table], rows: int) -> Iterator[Table]:
    """The same rows in tables of `rows` each; the last one may be smaller."""
    from rt.data._arrow import concat, contiguous

    waiting: list[Table] = []
    count = 0
    for table in tables:
        start = 0
        while count + table.num_rows - start >= rows:
            waiting.append(table.slice(start, rows - count))
            start += rows - count
            yield contiguous(concat(waiting))
            waiting, count = [], 0
        if start < table.num_rows:
            waiting.append(table.slice(start))
            count += table.num_rows - start
    if waiting:
        yield contiguous(concat(waiting))


class MapColumns(Operator):
    """Chooses, drops, renames or adds columns; the rows stay."""

    keeps_rows = True

    def __init__(self, title: str, change: Callable[[Table], Table]) -> None:
        self.title = title
        self.change = change

    def __call__(self, tables: Iterator[Table]) -> Iterator[Table]:
        for table in tables:
            changed = self.change(table)
            if changed.num_rows != table.num_rows:
                raise ValueError(
                    f"{self.title} gave {changed.num_rows} values for {table.num_rows} rows; a "
                    "column needs one value per row"
                )
            yield from cut(changed) if table_bytes(changed) > BLOCK_BYTES_MAX else [changed]
