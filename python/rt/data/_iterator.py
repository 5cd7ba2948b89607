"""Passes: what one consumer takes of a data set, pass after pass, and its position.

It can be pickled to the process of a rank, which rebuilds the plan from it; nothing else is shared
between the ranks. One pass is one epoch. It belongs to one thread.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Callable, NoReturn, Optional

from rt._seeds import draw_seed
from rt.data import _position, _ranges
from rt.data._arrow import Table, np
from rt.data._batches import TorchBatches, batch_tables, batches_in, shuffled
from rt.data._device import chosen_device
from rt.data._executor import Executor, Piece, ThreadExecutor
from rt.data._formats import Batch, check_format, rows_of
from rt.data._left_out import refuse
from rt.data._plan import Node
from rt.data._position import Pass, Window
from rt.data._schema import Schema, schema_of

_ROWS_AT_ONCE = 1024  # Rows that iter_rows has as Python dicts at the same time.
Make = Callable[[Table, list[int]], Iterator[Batch]]


class Passes:
    """The share of rank `rank` of `world_size`. Ray's methods, and `position` and `resume`.

    With `one_epoch` every pass is epoch 0: a Dataset whose order is fixed by the user's seeds.
    """

    def __init__(
        self,
        plan: Node,
        rank: int = 0,
        world_size: int = 1,
        *,
        one_epoch: bool = False,
        executor: Optional[Executor] = None,
    ) -> None:
        if world_size < 1 or not 0 <= rank < world_size:
            raise ValueError(f"there is no rank {rank} of {world_size}")
        self._plan = plan
        self._rank = rank
        self._world_size = world_size
        self._one_epoch = one_epoch
        self._executor: Executor = executor or ThreadExecutor()
        self._pass: Optional[Pass] = None  # The pass that began last.
        self._to_resume: Optional[Pass] = None

    def __repr__(self) -> str:
        return f"DataIterator({self._plan.title()}, rank {self._rank} of {self._world_size})"

    def __getattr__(self, name: str) -> NoReturn:
        refuse(type(self).__name__, name, dir(type(self)))

    # ---- positions

    def position(self) -> dict[str, Any]:
        """What the consumer has taken, as JSON; for `resume` in this or another process."""
        state = self._to_resume or self._pass or Pass()
        return _position.to_json(state, self._plan, self._rank, self._world_size)

    def resume(self, positions: Sequence[dict[str, Any]]) -> None:
        """Continues where the ranks of a checkpoint were, before the first pass.

        `positions` are those of all ranks; a rank without one took as much as the first that has
        one. At another world size the rest of the epoch is split anew. Raises ValueError when the
        positions belong to another data set, or to different epochs.
        """
        if not positions:
            return
        known = {each["rank"]: each for each in positions}
        first = known[min(known)]
        # A directory that is used again may hold files of ranks that there were once.
        known = {r: each for r, each in known.items() if each["world_size"] == first["world_size"]}
        _position.adopt(self._plan, first)
        before = first["world_size"]
        if before == self._world_size:
            state = _position.from_json(known.get(self._rank, first))
            if self._rank not in known:
                state.start = None
        else:
            state = self._joined(known, before)
        self._pass, self._to_resume = None, None
        if state.ended:
            self._pass = state
        else:
            self._to_resume = state

    def _joined(self, known: dict[int, dict[str, Any]], before: int) -> Pass:
        """The pass over what the `before` ranks of the checkpoint have left."""
        first = known[min(known)]
        states = [_position.from_json(known.get(rank, first)) for rank in range(before)]
        going = [state for state in states if not state.ended]
        if not going:
            return states[0]
        epochs = {state.epoch for state in going}
        if len(epochs) > 1 or any(each.epoch > going[0].epoch for each in states):
            found = {rank: state.epoch for rank, state in enumerate(states)}
            raise ValueError(
                f"the ranks of the checkpoint were in different epochs ({found}): it can only be "
                f"resumed by {before} ranks. Report on all ranks in the same epoch"
            )
        epoch = going[0].epoch
        rows = int(self._plan.counts(epoch).sum())
        left = [_position.rest(state, rows, rank, before) for rank, state in enumerate(states)]
        within = _ranges.union(each for ranges in left for each in ranges)
        return Pass(epoch=epoch, within=within, start=None)

    # ---- a pass

    def _begin(self, window: Optional[Window]) -> Pass:
        state, self._to_resume = self._to_resume, None
        if state is None:
            epoch = 0 if self._pass is None or self._one_epoch else self._pass.epoch + 1
            state = Pass(epoch=epoch)
        if state.taken == 0:
            state.window = window
        self._pass = state
        return state

    def _is_whole(self, state: Pass) -> bool:
        return self._world_size == 1 and state.within is None

    def _total(self, state: Pass) -> int:
        """The rows of all ranks in the pass."""
        if state.within is not None:
            return _ranges.size(state.within)
        return int(self._plan.counts(state.epoch).sum())

    def _tables(self, state: Pass) -> Iterator[Table]:
        """The rows of the share from the anchor on; notes where each table comes from."""
        anchor = state.anchor()
        state.pieces = []
        for block, row, table in self._placed(state, anchor):
            state.pieces.append((anchor, block, row))
            anchor += table.num_rows
            yield table

    def _placed(self, state: Pass, anchor: int) -> Iterator[tuple[int, int, Table]]:
        """(block, row, table) of the share from row `anchor` on."""
        if self._is_whole(state) and state.start is not None:
            block, row = state.start
            yield from _skipping(self._stream(state.epoch, block, self._plan.block_count()), row)
            return
        counts = self._plan.counts(state.epoch)
        ends = np.cumsum(counts)
        rows = int(ends[-1]) if len(ends) else 0
        within = [(0, rows)] if state.within is None else state.within
        mine = _ranges.share(within, self._rank, self._world_size)
        for start, stop in _ranges.part(mine, anchor, _ranges.size(mine)):
            yield from self._range(state.epoch, start, stop, counts, ends)

    def _stream(self, epoch: int, first: int, stop: int) -> Iterator[Piece]:
        return self._plan.stream(epoch, first, stop, self._executor)

    def _range(
        self, epoch: int, start: int, stop: int, counts: Any, ends: Any
    ) -> Iterator[tuple[int, int, Table]]:
        """(block, row, table) of the rows [start, stop) of the epoch."""
        first = int(np.searchsorted(ends, start, side="right"))
        last = int(np.searchsorted(ends, stop, side="left"))
        at = int(ends[first] - counts[first])
        skip = start - at
        left = stop - start
        found = _Counter(counts, first)
        for block, row, table in _skipping(found.watch(self._stream(epoch, first, last + 1)), skip):
            if table.num_rows > left:
                table = table.slice(0, left)
            left -= table.num_rows
            yield block, row, table
            if left == 0:
                return
        found.check(last)

    # ---- what users call

    def iter_rows(self) -> Iterable[dict[str, Any]]:
        """The rows as dicts, one after the other."""
        return _Repeatable(self._row_pass)

    def _row_pass(self) -> Iterator[dict[str, Any]]:
        state = self._begin(None)
        with state.counted_as_ended():
            sizes = itertools.repeat(_ROWS_AT_ONCE)
            for table, _ in batch_tables(self._source(state), sizes, rest=True):
                for start in range(0, table.num_rows, _ROWS_AT_ONCE):
                    for row in rows_of(table.slice(start, _ROWS_AT_ONCE)):
                        state.taken += 1
                        yield row

    def iter_batches(
        self,
        *,
        prefetch_batches: int = 1,
        batch_size: Optional[int] = 256,
        batch_format: Optional[str] = "default",
        drop_last: bool = False,
        local_shuffle_buffer_size: Optional[int] = None,
        local_shuffle_seed: Optional[int] = None,
        _collate_fn: Optional[Callable[[Batch], Any]] = None,
    ) -> Iterable[Batch]:
        """Batches of `batch_size` rows (None: as the blocks are), in one of Ray's formats.

        All ranks of a split get equally many. The result can be iterated again: each time is the
        next epoch.
        """
        check_format(batch_format)
        make = batches_in(batch_format)
        window = _window(local_shuffle_buffer_size, local_shuffle_seed)
        self._check(prefetch_batches, batch_size)
        return self._batches(make, batch_size, drop_last, window, _collate_fn)

    def iter_torch_batches(
        self,
        *,
        prefetch_batches: int = 1,
        batch_size: Optional[int] = 256,
        dtypes: Any = None,
        device: Any = "auto",
        collate_fn: Optional[Callable[[dict[str, Any]], Any]] = None,
        drop_last: bool = False,
        local_shuffle_buffer_size: Optional[int] = None,
        local_shuffle_seed: Optional[int] = None,
        pin_memory: bool = False,
    ) -> Iterable[Any]:
        """Batches as dicts of tensors, or what `collate_fn` makes of dicts of ndarrays.

        `device` "auto" is the rank's gpu in a training, else the cpu. Lists of numbers of one
        length become a tensor of two dimensions.
        """
        if collate_fn is not None and (dtypes is not None or device != "auto"):
            raise ValueError(
                "collate_fn cannot be used with dtypes or device: convert and move the tensors in "
                "collate_fn, or after it"
            )
        window = _window(local_shuffle_buffer_size, local_shuffle_seed)
        self._check(prefetch_batches, batch_size)
        make: Make = batches_in("numpy")
        if collate_fn is None:
            make = TorchBatches(dtypes, chosen_device(device), pin_memory)
        return self._batches(make, batch_size, drop_last, window, collate_fn)

    def _check(self, prefetch_batches: int, batch_size: Optional[int]) -> None:
        if not isinstance(prefetch_batches, int) or prefetch_batches < 0:
            raise ValueError(f"prefetch_batches must be 0 or more, not {prefetch_batches!r}")
        if batch_size is None and self._world_size > 1:
            raise ValueError(
                "batch_size=None gives blocks as they are, of which ranks can have different "
                "numbers: name a batch_size"
            )
        if batch_size is not None and (not isinstance(batch_size, int) or batch_size < 1):
            raise ValueError(f"batch_size must be 1 or more, or None, not {batch_size!r}")

    def _batches(
        self,
        make: Make,
        batch_size: Optional[int],
        drop_last: bool,
        window: Optional[Window],
        collate: Optional[Callable[[Any], Any]],
    ) -> Iterable[Any]:
        def one_pass() -> Iterator[Any]:
            state = self._begin(window)
            with state.counted_as_ended():
                for table, sizes in self._sized(state, batch_size, drop_last):
                    for size, batch in zip(sizes, make(table, sizes)):
                        state.taken += size
                        yield batch if collate is None else collate(batch)

        return _Repeatable(one_pass)

    def _source(self, state: Pass) -> Iterator[Table]:
        """The rows that are still to be taken, in their order."""
        tables = self._tables(state)
        if state.window is None:
            return tables
        return shuffled(tables, state.window, state.epoch, self._rank, state.taken)

    def _sized(
        self, state: Pass, batch_size: Optional[int], drop_last: bool
    ) -> Iterator[tuple[Table, list[int]]]:
        """Tables of whole batches and the sizes of those."""
        source = self._source(state)
        if batch_size is None:
            return ((table, [table.num_rows]) for table in source)
        if self._is_whole(state):
            return batch_tables(source, itertools.repeat(batch_size), rest=not drop_last)
        sizes = self._sizes(state, batch_size, drop_last)
        if sizes == [0]:
            return self._empty_batch(state)
        return batch_tables(source, iter(sizes), rest=False)

    def _sizes(self, state: Pass, batch_size: int, drop_last: bool) -> list[int]:
        total = self._total(state)
        if state.within is None and 0 < total < self._world_size:
            raise ValueError(
                f"the data set has {total} rows, too few for {self._world_size} ranks: each rank "
                "needs one row at least"
            )
        if drop_last:
            least = max(total // self._world_size - state.taken, 0)
            return [batch_size] * (least // batch_size)
        return _ranges.batch_sizes(total, state.taken, self._rank, self._world_size, batch_size)

    def _empty_batch(self, state: Pass) -> Iterator[tuple[Table, list[int]]]:
        warnings.warn(
            f"rank {self._rank} gets an empty batch: fewer rows than ranks are left of epoch "
            f"{state.epoch} after the number of ranks changed",
            stacklevel=3,
        )
        for _, table in self._stream(state.epoch, 0, self._plan.block_count()):
            yield table.slice(0, 0), [0]
            return

    def schema(self) -> Optional[Schema]:
        """Names and types of the columns."""
        return schema_of(self._plan)


class _Repeatable:
    """An iterable; each iteration of it is a pass."""

    def __init__(self, one_pass: Callable[[], Iterator[Any]]) -> None:
        self._one_pass = one_pass

    def __iter__(self) -> Iterator[Any]:
        return self._one_pass()


class _Counter:
    """Compares the rows of each block with those that were counted before the split."""

    def __init__(self, counts: Any, first: int) -> None:
        self._counts = counts
        self._first = first
        self._found: dict[int, int] = {}

    def watch(self, pieces: Iterator[Piece]) -> Iterator[Piece]:
        """The same pieces. Raises RuntimeError when a block has other rows than counted."""
        at = self._first
        for block, table in pieces:
            if block != at:
                self.check(block - 1, at)
                at = block
            self._found[block] = self._found.get(block, 0) + table.num_rows
            if self._found[block] > self._counts[block]:
                self._refuse(block)
            yield block, table

    def check(self, last: int, first: Optional[int] = None) -> None:
        """Raises RuntimeError when a block up to `last`, all of which were read, lacks rows."""
        for block in range(self._first if first is None else first, last + 1):
            if self._found.get(block, 0) != self._counts[block]:
                self._refuse(block)

    def _refuse(self, block: int) -> None:
        raise RuntimeError(
            f"block {block} of the data set now has other rows than when it was counted "
            f"({self._found.get(block, 0)} instead of {self._counts[block]}). The functions of a "
            "data set that is split must be deterministic, and its files must not change"
        )


def _skipping(pieces: Iterator[Piece], skip: int) -> Iterator[tuple[int, int, Table]]:
    """(block, row, table) after the first `skip` rows, which may go over several blocks."""
    at, row = -1, 0
    for block, table in pieces:
        if block != at:
            at, row = block, 0
        if skip >= table.num_rows:
            skip -= table.num_rows
        else:
            yield block, row + skip, table.slice(skip) if skip else table
            skip = 0
        row += table.num_rows


def _window(rows: Optional[int], seed: Optional[int]) -> Optional[Window]:
    if rows is None:
        return None
    if not isinstance(rows, int) or rows < 1:
        raise ValueError(f"local_shuffle_buffer_size must be 1 or more, or None, not {rows!r}")
    return Window(draw_seed() if seed is None else seed, rows)
