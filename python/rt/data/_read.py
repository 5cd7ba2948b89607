"""The functions that make a Dataset: of values in memory, and of files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Optional, Union

from rt.data._arrow import Table, np, pa
from rt.data._dataset import Dataset, MaterializedDataset, materialized
from rt.data._files import CsvSource, JsonSource, ParquetSource
from rt.data._formats import pandas, table_of_frame, table_of_rows
from rt.data._memory import RangeSource
from rt.data._options import check_options
from rt.data._paths import Paths, find_files
from rt.data._plan import Leaf
from rt.data._tensors import column_of_array


def from_items(items: Sequence[Any], **options: Any) -> MaterializedDataset:
    """A row per item. A dict gives its keys as columns; any other value is the column `item`."""
    check_options("from_items", options)
    if not isinstance(items, Iterable) or isinstance(items, (str, bytes)):
        raise ValueError(f"from_items() takes a list of items, not {type(items).__name__}")
    rows = [each if isinstance(each, dict) else {"item": each} for each in items]
    return materialized([table_of_rows(rows)] if rows else [], "FromItems")


def range(n: int, **options: Any) -> Dataset:
    """The numbers 0 to n - 1 in the column `id`."""
    check_options("range", options)
    if not isinstance(n, int) or n < 0:
        raise ValueError(f"range() takes a number of rows, 0 or more, not {n!r}")
    return Dataset(Leaf(RangeSource(n)))


def from_numpy(ndarrays: Any) -> MaterializedDataset:
    """A row per entry of the first dimension, in the column `data`; several arrays in a row."""
    arrays = [ndarrays] if isinstance(ndarrays, np.ndarray) else list(ndarrays)
    for array in arrays:
        if not isinstance(array, np.ndarray) or array.ndim == 0:
            raise ValueError("from_numpy() takes ndarrays of at least one dimension")
    tables = [pa.table({"data": column_of_array(each, "data")}) for each in arrays]
    return materialized(tables, "FromNumpy")


def from_pandas(dfs: Any, **options: Any) -> MaterializedDataset:
    """The rows of a DataFrame, or of several. Their indexes are left out."""
    check_options("from_pandas", options)
    is_one = isinstance(dfs, pandas().DataFrame) or not isinstance(dfs, Iterable)
    frames = [dfs] if is_one else list(dfs)
    for each in frames:
        if not isinstance(each, pandas().DataFrame):
            raise ValueError(f"from_pandas() takes DataFrames, not {type(each).__name__}")
    return materialized([table_of_frame(each) for each in frames], "FromPandas")


def from_arrow(tables: Union[Table, bytes, Sequence[Any]], **options: Any) -> MaterializedDataset:
    """The rows of a pyarrow.Table, or of several; bytes are a table in Arrow's stream format."""
    check_options("from_arrow", options)
    given = [tables] if isinstance(tables, (pa.Table, bytes)) else list(tables)
    read = [pa.ipc.open_stream(each).read_all() if isinstance(each, bytes) else each
            for each in given]  # fmt: skip
    for each in read:
        if not isinstance(each, pa.Table):
            raise ValueError(f"from_arrow() takes pyarrow.Tables, not {type(each).__name__}")
    return materialized([each.replace_schema_metadata() for each in read], "FromArrow")


def read_csv(
    paths: Paths, *, filesystem: Any = None, ignore_missing_paths: bool = False,
    file_extensions: Optional[Sequence[str]] = None, **options: Any,
) -> Dataset:  # fmt: skip
    """The rows of CSV files, or of the files in directories.

    Options: read_options, parse_options and convert_options of pyarrow.csv. The types of a file's
    columns are those of its first 16 MB.
    """
    arrow = _arrow_options("read_csv", options, "read_options", "parse_options", "convert_options")
    found, files = find_files(paths, filesystem, file_extensions, ignore_missing_paths)
    return Dataset(Leaf(CsvSource(found, files, arrow)))


def read_json(
    paths: Paths, *, lines: bool = False, filesystem: Any = None,
    ignore_missing_paths: bool = False, file_extensions: Optional[Sequence[str]] = None,
    **options: Any,
) -> Dataset:  # fmt: skip
    """The objects of files with one in each line, or with one list of them.

    Options: read_options and parse_options of pyarrow.json.
    """
    arrow = _arrow_options("read_json", options, "read_options", "parse_options")
    found, files = find_files(paths, filesystem, file_extensions, ignore_missing_paths)
    return Dataset(Leaf(JsonSource(found, files, arrow)))


def read_parquet(
    paths: Paths, *, filesystem: Any = None, columns: Optional[Sequence[str]] = None,
    ignore_missing_paths: bool = False, file_extensions: Optional[Sequence[str]] = ("parquet",),
    **options: Any,
) -> Dataset:  # fmt: skip
    """The rows of Parquet files, or of the files *.parquet in directories; only some `columns`."""
    check_options("read_parquet", options)
    found, files = find_files(paths, filesystem, file_extensions, ignore_missing_paths)
    return Dataset(Leaf(ParquetSource(found, files, columns)))


def _arrow_options(method: str, options: dict[str, Any], *names: str) -> dict[str, Any]:
    """Takes pyarrow's options out of `options`, and checks the rest."""
    found = {name: options.pop(name) for name in names if options.get(name) is not None}
    for name in names:
        options.pop(name, None)
    check_options(method, options)
    return found
