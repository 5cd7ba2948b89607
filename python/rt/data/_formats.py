"""Rows and batches as user code sees them, and the tables that they are made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Callable, Optional

from rt.data._arrow import Table, np, pa
from rt.data._tensors import (
    array_of_column,
    column_of_array,
    column_of_values,
    is_tensor,
    values_of_column,
)

FORMATS = ("default", "numpy", "pandas", "pyarrow", None)
Batch = Any  # dict of ndarrays, pandas.DataFrame or pyarrow.Table.


def pandas() -> Any:
    """The module pandas; ImportError with what to install."""
    try:
        import pandas as found
    except ImportError:
        raise ImportError("this needs pandas: pip install pandas") from None
    return found


def check_format(batch_format: Any) -> None:
    """Raises ValueError for a batch format that does not exist."""
    if batch_format not in FORMATS:
        known = ", ".join(repr(each) for each in FORMATS)
        raise ValueError(f"batch_format must be one of {known}, not {batch_format!r}")


def rows_of(table: Table) -> list[dict[str, Any]]:
    """The rows as dicts of Python values; a tensor's value is an ndarray of its own."""
    names = table.column_names
    columns = [values_of_column(column) for column in table.itercolumns()]
    if not columns:
        return [{} for _ in range(table.num_rows)]
    return [dict(zip(names, values)) for values in zip(*columns)]


def numpy_of(table: Table) -> dict[str, Any]:
    """Column name -> ndarray. The arrays share the table's memory where they can."""
    columns = zip(table.column_names, table.itercolumns())
    return {name: array_of_column(column) for name, column in columns}


def pandas_of(table: Table) -> Any:
    """A DataFrame; the column of a tensor holds an ndarray per row."""
    tensors = [at for at, field in enumerate(table.schema) if is_tensor(field.type)]
    if not tensors:
        return _frame_of(table)
    pd = pandas()
    frame = {}
    for name, column in zip(table.column_names, table.itercolumns()):
        if is_tensor(column.type):
            values = np.empty(len(column), dtype=object)
            values[:] = values_of_column(column) if len(column) > 1 else None
            if len(column) == 1:
                values[0] = values_of_column(column)[0]
            frame[name] = pd.Series(values)
        else:
            frame[name] = _frame_of(pa.table({name: column}))[name]
    return pd.DataFrame(frame)


def _frame_of(table: Table) -> Any:
    pandas()
    return table.to_pandas(ignore_metadata=True)


def format_of(batch_format: Optional[str]) -> Callable[[Table], Batch]:
    """The function that makes a batch of this format from a table."""
    check_format(batch_format)
    if batch_format == "pandas":
        return pandas_of
    if batch_format in ("pyarrow", None):
        return lambda table: table
    return numpy_of


def table_of_rows(rows: list[Any]) -> Table:
    """The table of dicts; a key that a row lacks is None there. Raises ValueError with why not."""
    names: dict[str, None] = {}
    for row in rows:
        names.update(dict.fromkeys(row))
    for name in names:
        if not isinstance(name, str):
            raise ValueError(f"a row's keys must be text, not {name!r}")
    columns = {name: column_of_values([row.get(name) for row in rows], name) for name in names}
    if rows and not columns:
        raise ValueError("a row must have at least one column; it is an empty dict")
    return pa.table(columns)


def table_of_batch(batch: Any, source: str) -> Table:
    """The table of what a batch function returned. Raises ValueError with `source` in it."""
    if isinstance(batch, pa.Table):
        return batch
    if isinstance(batch, pa.RecordBatch):
        return pa.Table.from_batches([batch])
    if isinstance(batch, Mapping):
        return _table_of_columns(batch, source)
    if _is_frame(batch):
        return table_of_frame(batch)
    raise ValueError(
        f"{source} must return a dict of arrays or lists, a pandas.DataFrame, a pyarrow.Table, or "
        f"yield such batches; it returned {type(batch).__name__}"
    )


def _is_frame(value: Any) -> bool:
    kind = type(value)
    return kind.__name__ == "DataFrame" and kind.__module__.split(".")[0] == "pandas"


def _table_of_columns(batch: Mapping[str, Any], source: str) -> Table:
    columns = {}
    for name, values in batch.items():
        if not isinstance(name, str):
            raise ValueError(f"{source} returned a column named {name!r}; names must be text")
        columns[name] = column_of(values, name, source)
    sizes = {name: len(column) for name, column in columns.items()}
    if len(set(sizes.values())) > 1:
        raise ValueError(f"{source} returned columns of different lengths: {sizes}")
    return pa.table(columns)


def column_of(values: Any, name: str, source: str) -> Any:
    """The Arrow column of an ndarray, a list, a tensor of PyTorch, a Series or an Arrow array."""
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return values
    if isinstance(values, np.ndarray):
        return column_of_array(values, name)
    if isinstance(values, (list, tuple)):
        return column_of_values(values, name)
    if type(values).__module__.split(".")[0] == "torch":
        return column_of_array(values.detach().cpu().numpy(), name)
    if type(values).__module__.split(".")[0] == "pandas":
        return column_of_array(values.to_numpy(), name)
    raise ValueError(
        f"{source} returned {type(values).__name__} as column {name!r}; a column is an array or a "
        "list with one value per row"
    )


def table_of_frame(frame: Any) -> Table:
    """The table of a pandas.DataFrame, without its index."""
    for name in frame.columns:
        if not isinstance(name, str):
            raise ValueError(f"a column of the DataFrame is named {name!r}; names must be text")
    columns = {}
    for name in frame.columns:
        series = frame[name]
        if series.dtype == object:
            columns[name] = column_of_values(_without_nan(series), name)
        else:
            columns[name] = pa.array(series, from_pandas=True)
    return pa.table(columns)


def _without_nan(series: Any) -> list[Any]:
    """pandas says NaN where an object column has no value."""
    return [None if isinstance(each, float) and each != each else each for each in series]


def batches_of(returned: Any, source: str) -> Iterator[Table]:
    """The tables of what a batch function returned: a batch, or a generator of batches."""
    if isinstance(returned, Iterator):
        for each in returned:
            yield table_of_batch(each, source)
    else:
        yield table_of_batch(returned, source)
