"""Columns between Arrow, NumPy and Python values.

A column whose values are arrays of one shape is a tensor: Arrow's fixed_shape_tensor, which NumPy
and PyTorch see as one array of shape (rows, *shape). All functions raise ValueError with the
column's name when its values have no common type.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rt.data._arrow import np, pa

_COMMON = "give every row a value of one type (None is allowed)"


def column_of_array(array: Any, name: str) -> Any:
    """The Arrow column of an ndarray of shape (rows, *shape)."""
    if array.ndim == 0:
        raise ValueError(f"column {name!r} is a single value, not a list or an array of values")
    if array.dtype == object:
        return column_of_values(list(array), name)
    if array.ndim == 1:
        return _plain(array, name)
    if array.dtype.kind not in "biuf":
        return column_of_values(list(array), name)
    shape = array.shape[1:]
    size = int(np.prod(shape, dtype=np.int64))
    values = pa.array(np.ascontiguousarray(array).reshape(-1))
    if size == 0:
        raise ValueError(f"column {name!r} has arrays of shape {shape}, which hold nothing")
    storage = pa.FixedSizeListArray.from_arrays(values, size)
    kind = pa.fixed_shape_tensor(values.type, shape)
    return pa.ExtensionArray.from_storage(kind, storage)


def _plain(array: Any, name: str) -> Any:
    try:
        return pa.array(array)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise ValueError(f"column {name!r} cannot be stored: {error}") from None


def column_of_values(values: Sequence[Any], name: str) -> Any:
    """The Arrow column of Python values: numbers, texts, bytes, lists, dicts, arrays, None."""
    arrays = [each for each in values if isinstance(each, np.ndarray)]
    if arrays and len(arrays) == len(values):
        first = arrays[0]
        if first.ndim and all(a.shape == first.shape and a.dtype == first.dtype for a in arrays):
            return column_of_array(np.stack(arrays), name)
        if any(each.ndim > 1 for each in arrays):
            raise ValueError(
                f"column {name!r} has arrays of different shapes ({_shapes(arrays)}). Only arrays "
                "of one dimension may differ in length; pad the others to one shape"
            )
    try:
        return pa.array(values, from_pandas=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        numbers = _as_floats(values)
        if numbers is not None:
            return numbers
        kinds = sorted({type(each).__name__ for each in values if each is not None})
        raise ValueError(
            f"column {name!r} has values of the types {', '.join(kinds)}, which have no common "
            f"Arrow type ({error}); {_COMMON}"
        ) from None


def _as_floats(values: Sequence[Any]) -> Any:
    """int and float together, in any order, are float64 (Arrow takes the type of the first)."""
    kinds = (int, float, np.integer, np.floating)
    if not all(each is None or (isinstance(each, kinds) and each is not True) for each in values):
        return None
    return pa.array([None if each is None else float(each) for each in values], pa.float64())


def _shapes(arrays: list[Any]) -> str:
    return ", ".join(sorted({str(each.shape) for each in arrays})[:3])


def is_tensor(kind: Any) -> bool:
    """Whether this is the Arrow type of a column of arrays of one shape."""
    return isinstance(kind, pa.FixedShapeTensorType)


def array_of_column(column: Any) -> Any:
    """The ndarray of a column (ChunkedArray or Array): (rows, *shape) for tensors.

    Shares the column's memory where it can; such an array cannot be written to. Numbers with nulls
    become floats with NaN. Texts, lists and dicts become an array of Python objects.
    """
    kind = column.type
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks == 1 else _joined(column)
    if is_tensor(kind) and column.null_count == 0:
        flat = column.storage.flatten().to_numpy(zero_copy_only=False)
        return flat.reshape((len(column), *kind.shape))
    if is_tensor(kind):
        return _objects(values_of_column(column))
    if pa.types.is_nested(kind):
        return _nested(column)
    return column.to_numpy(zero_copy_only=False)


def _joined(column: Any) -> Any:
    if column.num_chunks == 0:
        empty = column.type.storage_type if is_tensor(column.type) else column.type
        made = pa.array([], empty)
        return pa.ExtensionArray.from_storage(column.type, made) if is_tensor(column.type) else made
    joined = column.combine_chunks()
    return joined.chunk(0) if isinstance(joined, pa.ChunkedArray) else joined


def _nested(column: Any) -> Any:
    """An array of ndarrays for lists of numbers, of Python objects for the rest."""
    kind = column.type
    if _is_list(kind) and pa.types.is_primitive(kind.value_type):
        return _objects(
            [None if each is None else _array_of(each, kind) for each in column.to_pylist()]
        )
    return _objects(column.to_pylist())


def _array_of(values: list[Any], kind: Any) -> Any:
    if any(each is None for each in values):
        return np.array(values, dtype=object)
    return np.array(values, dtype=kind.value_type.to_pandas_dtype())


def _is_list(kind: Any) -> bool:
    return (
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )


def _objects(values: Sequence[Any]) -> Any:
    made = np.empty(len(values), dtype=object)
    for at, value in enumerate(values):
        made[at] = value
    return made


def stacked_lists(column: Any) -> Any:
    """(rows, length) for a column of lists of numbers that all have one length; else None."""
    kind = column.type
    if not _is_list(kind) or not pa.types.is_primitive(kind.value_type) or column.null_count:
        return None
    if isinstance(column, pa.ChunkedArray):
        column = _joined(column)
    rows = len(column)
    flat = column.flatten()
    if rows == 0 or flat.null_count or len(flat) % rows:
        return None
    length = len(flat) // rows
    if not pa.types.is_fixed_size_list(kind):
        offsets = column.offsets.to_numpy()
        if not (np.diff(offsets) == length).all():
            return None
    return flat.to_numpy(zero_copy_only=False).reshape(rows, length)


def values_of_column(column: Any) -> list[Any]:
    """Python values, as rows have them; an ndarray for each value of a tensor column."""
    if not is_tensor(column.type):
        return list(column.to_pylist())
    if column.null_count == 0:
        return [np.array(each) for each in array_of_column(column)]
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    kind = column.type
    return [
        None if value is None else np.array(value).reshape(kind.shape)
        for chunk in chunks
        for value in chunk.storage.to_pylist()
    ]
