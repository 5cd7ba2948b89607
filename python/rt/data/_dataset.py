"""Dataset: a lazy plan over blocks, with Ray's methods. Nothing runs until rows are asked for."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any, Callable, NoReturn, Optional, Union

from rt._seeds import as_seed, draw_seed
from rt.data import _columns as columns
from rt.data import _ranges
from rt.data._arrow import Table, concat, contiguous, pa
from rt.data._executor import ThreadExecutor
from rt.data._formats import (
    Batch,
    check_format,
    format_of,
    pandas_of,
    rows_of,
)
from rt.data._iterator import Passes
from rt.data._left_out import refuse
from rt.data._memory import TableSource
from rt.data._operators import (
    FilterRows,
    FlatMapRows,
    Function,
    MapBatches,
    MapColumns,
    MapRows,
    Operator,
)
from rt.data._options import check_options
from rt.data._plan import Apply, Leaf, Node, Slice
from rt.data._schema import Schema, schema_in_brief, schema_of
from rt.data._shuffle import Shuffle


class Dataset:
    """Rows with named columns. Each method gives a new Dataset; this one never changes."""

    def __init__(self, plan: Node) -> None:
        self._plan = plan
        self._passes: Optional[DataIterator] = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_plan": self._plan, "_passes": None}

    def __repr__(self) -> str:
        nodes = self._plan.chain()
        counts = nodes[-1].known_counts(0)
        rows = "unknown" if counts is None else int(counts.sum())
        leaf = f"Dataset(num_rows={rows}, schema={schema_in_brief(nodes[-1])})"
        lines = [*(node.title() for node in nodes[:-1]), leaf]
        return "\n".join(f"{'   ' * (at - 1)}+- {line}" if at else line
                         for at, line in enumerate(lines))  # fmt: skip

    def __iter__(self) -> NoReturn:
        raise TypeError("a Dataset cannot be iterated over; use iter_rows() or iter_batches()")

    def __len__(self) -> NoReturn:
        raise AttributeError("a Dataset has no length; count() gives the number of its rows")

    def __getattr__(self, name: str) -> NoReturn:
        refuse(type(self).__name__, name, dir(type(self)))

    def _with(self, operator: Operator) -> Dataset:
        if isinstance(self._plan, Apply):
            return Dataset(Apply(self._plan.below, [*self._plan.operators, operator]))
        return Dataset(Apply(self._plan, [operator]))

    # ---- functions

    def map(
        self, fn: Callable[..., dict[str, Any]], *, fn_args: Any = None, fn_kwargs: Any = None,
        fn_constructor_args: Any = None, fn_constructor_kwargs: Any = None, **options: Any,
    ) -> Dataset:  # fmt: skip
        """`fn(row)` gives a row: a dict of column name -> value."""
        check_options("map", options)
        function = _function("map", fn, fn_args, fn_kwargs, fn_constructor_args,
                             fn_constructor_kwargs)  # fmt: skip
        return self._with(MapRows(function))

    def flat_map(
        self, fn: Callable[..., Iterable[dict[str, Any]]], *, fn_args: Any = None,
        fn_kwargs: Any = None, fn_constructor_args: Any = None, fn_constructor_kwargs: Any = None,
        **options: Any,
    ) -> Dataset:  # fmt: skip
        """`fn(row)` gives a list of rows."""
        check_options("flat_map", options)
        function = _function("flat_map", fn, fn_args, fn_kwargs, fn_constructor_args,
                             fn_constructor_kwargs)  # fmt: skip
        return self._with(FlatMapRows(function))

    def filter(
        self, fn: Optional[Callable[..., bool]] = None, expr: Any = None, *, fn_args: Any = None,
        fn_kwargs: Any = None, fn_constructor_args: Any = None, fn_constructor_kwargs: Any = None,
        **options: Any,
    ) -> Dataset:  # fmt: skip
        """The rows for which `fn(row)` is true."""
        check_options("filter", options)
        if expr is not None or fn is None:
            raise NotImplementedError(
                "rt has no expr of filter() yet (in Ray: an expression). What works now: a "
                "function of a row, such as filter(lambda row: row['id'] > 2)"
            )
        function = _function("filter", fn, fn_args, fn_kwargs, fn_constructor_args,
                             fn_constructor_kwargs)  # fmt: skip
        return self._with(FilterRows(function))

    def map_batches(
        self, fn: Callable[..., Any], *, batch_size: Union[int, str, None] = None,
        batch_format: Optional[str] = "default", zero_copy_batch: bool = True, fn_args: Any = None,
        fn_kwargs: Any = None, fn_constructor_args: Any = None, fn_constructor_kwargs: Any = None,
        **options: Any,
    ) -> Dataset:  # fmt: skip
        """`fn(batch)` gives a batch (dict of arrays, DataFrame, Table), or yields several.

        A batch has at most `batch_size` rows of one block (None: all of a part of at most 32 MB).
        The arrays of a batch cannot be written to; `zero_copy_batch=False` gives copies.
        """
        check_options("map_batches", options)
        check_format(batch_format)
        if batch_size == "default":
            batch_size = 1024
        if batch_size is not None and (not isinstance(batch_size, int) or batch_size < 1):
            raise ValueError(f"batch_size must be 1 or more, or None, not {batch_size!r}")
        function = _function("map_batches", fn, fn_args, fn_kwargs, fn_constructor_args,
                             fn_constructor_kwargs)  # fmt: skip
        return self._with(MapBatches(function, batch_size, batch_format, not zero_copy_batch))

    # ---- columns

    def add_column(
        self, col: str, fn: Callable[[Any], Any], *, batch_format: Optional[str] = "pandas",
        **options: Any,
    ) -> Dataset:  # fmt: skip
        """A column with the values that `fn(batch)` gives, in place of one of that name."""
        check_options("add_column", options)
        check_format(batch_format)
        if not isinstance(col, str) or not callable(fn):
            raise ValueError("add_column() takes a name and a function of a batch")
        change = functools.partial(columns.added, name=col, fn=fn, batch_format=batch_format)
        return self._with(MapColumns(f"AddColumn({col})", change))

    def select_columns(self, cols: Union[str, Sequence[str]], **options: Any) -> Dataset:
        """These columns, in this order."""
        check_options("select_columns", options)
        names = columns.names_of(cols)
        change = functools.partial(columns.selected, names=names)
        return self._with(MapColumns(f"Select({', '.join(names)})", change))

    def drop_columns(self, cols: Union[str, Sequence[str]], **options: Any) -> Dataset:
        """All columns but these."""
        check_options("drop_columns", options)
        names = columns.names_of(cols)
        change = functools.partial(columns.dropped, names=names)
        return self._with(MapColumns(f"Drop({', '.join(names)})", change))

    def rename_columns(
        self, names: Union[dict[str, str], Sequence[str]], **options: Any
    ) -> Dataset:
        """New names: a dict old -> new, or all names in order."""
        check_options("rename_columns", options)
        return self._with(MapColumns("Rename", functools.partial(columns.renamed, names=names)))

    # ---- rows

    def limit(self, limit: int) -> Dataset:
        """The first `limit` rows."""
        return Dataset(Slice(self._plan, 0, max(0, int(limit))))

    def random_shuffle(self, *, seed: Optional[int] = None, **options: Any) -> Dataset:
        """All rows in a random order, each order as likely as any other.

        The order is a function of the seed and the epoch. A pass over this Dataset with a given
        seed is always epoch 0; the shards of a training have a new order in each epoch.
        """
        check_options("random_shuffle", options)
        given = as_seed(seed)
        return Dataset(Shuffle(self._plan, draw_seed() if given is None else given,
                               given is not None))  # fmt: skip

    def _parts(self, bounds: Sequence[int]) -> list[Dataset]:
        """The rows between neighbouring bounds, of one order that is the same in all epochs."""
        epoch = self._one_epoch()
        pairs = zip(bounds, bounds[1:])
        return [Dataset(Slice(self._plan, start, stop, epoch)) for start, stop in pairs]

    def split(self, n: int, *, equal: bool = False, **options: Any) -> list[Dataset]:
        """n data sets of neighbouring rows, whose sizes differ by at most one row.

        `equal=True` makes them equal, and leaves out the rows that are too many, as in Ray.
        """
        check_options("split", options)
        if not isinstance(n, int) or n <= 0:
            raise ValueError(f"n must be at least 1, not {n}")
        rows = self.count()
        if equal:
            return self._parts([at * (rows // n) for at in range(n + 1)])
        return self._parts([0, *(_ranges.share_bounds(rows, at, n)[1] for at in range(n))])

    def split_at_indices(self, indices: Sequence[int]) -> list[Dataset]:
        """The rows before the first index, between neighbouring ones, and after the last."""
        if not indices or any(each < 0 for each in indices) or list(indices) != sorted(indices):
            raise ValueError("indices must be at least one, not negative and in ascending order")
        rows = self.count()
        return self._parts([0, *(min(each, rows) for each in indices), rows])

    def train_test_split(
        self, test_size: Union[int, float], *, shuffle: bool = False, seed: Optional[int] = None,
        **options: Any,
    ) -> tuple[Dataset, Dataset]:  # fmt: skip
        """The first rows for training and the last for a test: a fraction, or a number of rows."""
        check_options("train_test_split", options)
        whole = self.random_shuffle(seed=seed) if shuffle else self
        rows = whole.count()
        if isinstance(test_size, float):
            if not 0 < test_size < 1:
                raise ValueError(
                    f"test_size must be a fraction above 0 and below 1, not {test_size}"
                )
            train = int(rows * (1 - test_size))
        else:
            if not 0 < test_size < rows:
                raise ValueError(
                    f"test_size must be at least 1 and below the number of rows ({rows}), "
                    f"not {test_size}"
                )
            train = rows - test_size
        first, second = whole._parts([0, train, rows])
        return first, second

    def streaming_split(self, n: int, *, equal: bool = False, **options: Any) -> list[DataIterator]:
        """n iterators that together take every row once per epoch; they can be pickled to ranks.

        All have the same number of batches. `equal` changes nothing: no row is ever dropped.
        """
        check_options("streaming_split", options)
        if not isinstance(n, int) or n <= 0:
            raise ValueError(f"n must be at least 1, not {n}")
        return [DataIterator(self._plan, rank, n) for rank in range(n)]

    # ---- results

    def _one_epoch(self) -> int:
        """0 when the user's seeds fix the order, else a new epoch."""
        shuffles = [each for each in self._plan.chain() if isinstance(each, Shuffle)]
        return 0 if all(each.is_seeded for each in shuffles) else draw_seed()

    def _tables(self) -> Iterable[Table]:
        blocks = self._plan.block_count()
        stream = self._plan.stream(self._one_epoch(), 0, blocks, ThreadExecutor())
        return (table for _, table in stream)

    def take(self, limit: int = 20) -> list[dict[str, Any]]:
        """The first `limit` rows."""
        rows: list[dict[str, Any]] = []
        for table in self.limit(limit)._tables():
            rows += rows_of(table)
        return rows

    def take_all(self, limit: Optional[int] = None) -> list[dict[str, Any]]:
        """All rows. Raises ValueError when there are more than `limit`."""
        rows: list[dict[str, Any]] = []
        for table in self._tables():
            rows += rows_of(table)
            if limit is not None and len(rows) > limit:
                raise ValueError(f"the data set has more than {limit} rows, the given limit")
        return rows

    def take_batch(self, batch_size: int = 20, *, batch_format: Optional[str] = "default") -> Batch:
        """The first `batch_size` rows as a batch. Raises ValueError when there is no row."""
        make = format_of(batch_format)
        tables = list(self.limit(batch_size)._tables())
        if not tables:
            raise ValueError("the data set has no rows")
        return make(contiguous(concat(tables)))

    def show(self, limit: int = 20) -> None:
        """Prints the first `limit` rows."""
        for row in self.take(limit):
            print(row)

    def count(self) -> int:
        """The number of rows; runs the plan unless the source and the operations know it."""
        return int(self._plan.counts(self._one_epoch()).sum())

    def schema(self, fetch_if_missing: bool = True) -> Optional[Schema]:
        """Names and types of the columns; None for a data set without rows."""
        if not fetch_if_missing:
            known = self._plan.schema()
            return None if known is None else Schema(known)
        return schema_of(self._plan)

    def columns(self, fetch_if_missing: bool = True) -> Optional[list[str]]:
        """The names of the columns."""
        schema = self.schema(fetch_if_missing)
        return None if schema is None else schema.names

    def num_blocks(self) -> int:
        """The number of blocks of the plan."""
        return self._plan.block_count()

    def to_pandas(self, limit: Optional[int] = None) -> Any:
        """All rows as a DataFrame. Raises ValueError when there are more than `limit`."""
        return pandas_of(self._whole_table(limit))

    def to_arrow(self) -> Table:
        """All rows as one pyarrow.Table."""
        return self._whole_table(None)

    def _whole_table(self, limit: Optional[int]) -> Table:
        tables, rows = [], 0
        for table in self._tables():
            tables.append(table)
            rows += table.num_rows
            if limit is not None and rows > limit:
                raise ValueError(f"the data set has more than {limit} rows, the given limit")
        return contiguous(concat(tables)) if tables else pa.table({})

    def materialize(self) -> MaterializedDataset:
        """Runs the plan once, and keeps all rows in memory."""
        return materialized(list(self._tables()))

    # ---- iteration

    def iterator(self) -> DataIterator:
        """An iterator over all rows; each pass is the next epoch."""
        return DataIterator(self._plan)

    def _own_passes(self) -> DataIterator:
        if self._passes is None:
            shuffles = [each for each in self._plan.chain() if isinstance(each, Shuffle)]
            seeded = all(each.is_seeded for each in shuffles)
            self._passes = DataIterator(self._plan, one_epoch=seeded)
        return self._passes

    def iter_rows(self, **options: Any) -> Iterable[dict[str, Any]]:
        """The rows as dicts, one after the other."""
        options.pop("prefetch_batches", None)
        check_options("iter_rows", options)
        return self._own_passes().iter_rows()

    def iter_batches(self, **options: Any) -> Iterable[Batch]:
        """Batches in a format: see Passes.iter_batches."""
        return self._own_passes().iter_batches(**options)

    def iter_torch_batches(self, **options: Any) -> Iterable[Any]:
        """Batches as dicts of tensors: see Passes.iter_torch_batches."""
        return self._own_passes().iter_torch_batches(**options)


class MaterializedDataset(Dataset):
    """A Dataset whose rows are in memory."""

    def __repr__(self) -> str:
        return (
            f"MaterializedDataset(num_blocks={self.num_blocks()}, num_rows={self.count()}, "
            f"schema={schema_in_brief(self._plan)})"
        )


def materialized(tables: Sequence[Table], title: str = "Materialized") -> MaterializedDataset:
    """The data set of tables in memory."""
    return MaterializedDataset(Leaf(TableSource(tables, title)))


class DataIterator(Passes):
    """The share of a rank of a data set. A Dataset's streaming_split and iterator make them."""

    def materialize(self) -> MaterializedDataset:
        """The share's rows of the next epoch in memory. It counts as a pass."""
        state = self._begin(None)
        with state.counted_as_ended():
            tables = list(self._source(state))
            state.taken += sum(each.num_rows for each in tables)
            return materialized(tables)


def shard(dataset: Any, rank: int, world_size: int) -> DataIterator:
    """What rank `rank` of `world_size` takes of a Dataset, or of anything that has its plan."""
    plan = getattr(dataset, "_plan", None)
    if not isinstance(plan, Node):
        raise ValueError(
            f"a data set of a training must be an rt.data.Dataset, not {type(dataset).__name__}"
        )
    return DataIterator(plan, rank, world_size)


def _function(
    method: str, fn: Any, args: Any, kwargs: Any, made_args: Any, made_kwargs: Any
) -> Function:
    if not callable(fn):
        raise ValueError(f"{method}() takes a function, not {type(fn).__name__}")
    return Function(
        fn, tuple(args or ()), dict(kwargs or {}), tuple(made_args or ()), dict(made_kwargs or {})
    )
