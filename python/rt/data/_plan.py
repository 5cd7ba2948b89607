"""The plan of a data set: a chain of nodes over a source. Nothing runs until rows are asked for.

A node has a fixed number of blocks. The rows of a block, and their order, are a function of the
plan, the epoch and the index of the block, so that a position (epoch, block, row) has a meaning in
every process that has the plan.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, Optional

from rt.data._arrow import np
from rt.data._executor import Executor, InlineExecutor, Piece
from rt.data._operators import Operator
from rt.data._shared_counts import counted_once
from rt.data._source import Source

_COUNTS_KEPT = 4  # Epochs whose counts are remembered; a pass needs one, a split the next.


class Node:
    """A node of a plan. `below` is the node whose rows it changes, None for the leaf."""

    below: Optional[Node] = None

    def __init__(self) -> None:
        self._counted: dict[int, Any] = {}

    def title(self) -> str:
        """The node's name in a printed plan."""
        raise NotImplementedError

    def block_count(self) -> int:
        """The number of blocks, the same in every epoch."""
        raise NotImplementedError

    def known_counts(self, epoch: int) -> Optional[Any]:
        """Rows per block, int64 of shape (blocks,), if they are known without running anything."""
        key = epoch if self.depends_on_epoch() else 0
        return self._counted.get(key)

    def stream(self, epoch: int, first: int, stop: int, executor: Executor) -> Iterator[Piece]:
        """The pieces of the blocks [first, stop), in order."""
        raise NotImplementedError

    def counts(self, epoch: int) -> Any:
        """Rows per block, int64 of shape (blocks,); runs the plan if they are not known."""
        found = self.known_counts(epoch)
        if found is None:
            drawn = [node.drawn() for node in self.chain()]
            at = epoch if self.depends_on_epoch() else 0
            found = counted_once(f"{self.digest()}/{drawn}/{at}", lambda: self._count(epoch))
            self.remember_counts(epoch, found)
        return found

    def _count(self, epoch: int) -> Any:
        found = np.zeros(self.block_count(), dtype=np.int64)
        for block, table in self.stream(epoch, 0, len(found), InlineExecutor()):
            found[block] += table.num_rows
        return found

    def remember_counts(self, epoch: int, counts: Any) -> None:
        """Keeps counts that a pass over all blocks found, or that a checkpoint has."""
        key = epoch if self.depends_on_epoch() else 0
        self._counted[key] = np.asarray(counts, dtype=np.int64)
        while len(self._counted) > _COUNTS_KEPT:
            self._counted.pop(next(iter(self._counted)))

    @property
    def counted(self) -> Optional[Any]:
        """The counts of all epochs that running the plan has found, or None."""
        return None if self.depends_on_epoch() else self._counted.get(0)

    def forget_counts(self) -> None:
        """After a change of a seed."""
        if self.depends_on_epoch():
            self._counted.clear()

    def depends_on_epoch(self) -> bool:
        """Whether an epoch has other rows, or another order, than the next one."""
        return self.below is not None and self.below.depends_on_epoch()

    def drawn(self) -> Optional[int]:
        """The number that was drawn when the node was made, or that the user gave instead."""
        return None

    def set_drawn(self, number: int) -> None:
        """Puts the number of a checkpoint in its place."""

    def schema(self) -> Optional[Any]:
        """The Arrow schema if that is known without running anything."""
        return self.below.schema() if self.below is not None else None

    def chain(self) -> list[Node]:
        """The nodes from this one down to the leaf."""
        nodes: list[Node] = [self]
        while nodes[-1].below is not None:
            nodes.append(nodes[-1].below)
        return nodes

    def source(self) -> Source:
        """The plan's source."""
        leaf = self.chain()[-1]
        assert isinstance(leaf, Leaf)
        return leaf.of

    def digest(self) -> str:
        """16 hexadecimal digits of what positions in this plan depend on."""
        names = [node.title() for node in self.chain()]
        text = "\n".join([*names, str(self.block_count()), self.source().identity()])
        return hashlib.sha256(text.encode()).hexdigest()[:16]


class Leaf(Node):
    """The rows of a source."""

    def __init__(self, source: Source) -> None:
        super().__init__()
        self.of = source

    def title(self) -> str:
        return self.of.title

    def block_count(self) -> int:
        return self.of.block_count()

    def known_counts(self, epoch: int) -> Optional[Any]:
        found = self.of.counts()
        if found is None:
            return super().known_counts(epoch)
        return np.asarray(found, dtype=np.int64)

    def remember_counts(self, epoch: int, counts: Any) -> None:
        if self.of.counts() is None:
            super().remember_counts(epoch, counts)

    def stream(self, epoch: int, first: int, stop: int, executor: Executor) -> Iterator[Piece]:
        return executor.run(self.of, first, stop, ())

    def schema(self) -> Optional[Any]:
        return self.of.schema()


class Apply(Node):
    """Operators on each block of the node below."""

    def __init__(self, below: Node, operators: Sequence[Operator]) -> None:
        super().__init__()
        self.below: Node = below
        self.operators = tuple(operators)

    def title(self) -> str:
        return "->".join(each.title for each in self.operators)

    def block_count(self) -> int:
        return self.below.block_count()

    def _keeps_rows(self) -> bool:
        return all(each.keeps_rows for each in self.operators)

    def known_counts(self, epoch: int) -> Optional[Any]:
        found = self.below.known_counts(epoch) if self._keeps_rows() else None
        return super().known_counts(epoch) if found is None else found

    def counts(self, epoch: int) -> Any:
        """Calls no function when none of them changes the number of rows."""
        return self.below.counts(epoch) if self._keeps_rows() else super().counts(epoch)

    def stream(self, epoch: int, first: int, stop: int, executor: Executor) -> Iterator[Piece]:
        if isinstance(self.below, Leaf):
            return executor.run(self.below.of, first, stop, self.operators)
        return executor.apply(self.below.stream(epoch, first, stop, executor), self.operators)

    def schema(self) -> Optional[Any]:
        return None


class Slice(Node):
    """The rows [start, stop) of the node below, counted over all blocks.

    `stop` None means to the end. With `epoch` the node below always runs in that epoch: the parts
    of a split stay apart from each other in all epochs.
    """

    def __init__(
        self, below: Node, start: int, stop: Optional[int], epoch: Optional[int] = None
    ) -> None:
        super().__init__()
        self.below: Node = below
        self.start = start
        self.stop = stop
        self.epoch = epoch

    def title(self) -> str:
        if self.start == 0 and self.epoch is None:
            return f"Limit({self.stop})"
        return f"Rows({self.start}, {self.stop})"

    def block_count(self) -> int:
        return self.below.block_count()

    def depends_on_epoch(self) -> bool:
        return self.epoch is None and self.below.depends_on_epoch()

    def drawn(self) -> Optional[int]:
        return self.epoch

    def set_drawn(self, number: int) -> None:
        self.epoch = number
        self._counted.clear()

    def _epoch(self, epoch: int) -> int:
        return epoch if self.epoch is None else self.epoch

    def known_counts(self, epoch: int) -> Optional[Any]:
        found = self.below.known_counts(self._epoch(epoch))
        if found is None:
            return super().known_counts(epoch)
        ends = np.cumsum(found)
        stop = ends[-1] if self.stop is None and len(ends) else self.stop
        kept = np.clip(ends, self.start, stop) - np.clip(ends - found, self.start, stop)
        return np.maximum(kept, 0)

    def stream(self, epoch: int, first: int, stop: int, executor: Executor) -> Iterator[Piece]:
        epoch = self._epoch(epoch)
        counts = self.below.known_counts(epoch)
        if first and counts is None:
            counts = self.below.counts(epoch)
        at = 0
        if counts is not None:  # Blocks before the slice need not run.
            ends = np.cumsum(counts)
            first = max(first, int(np.searchsorted(ends, self.start, side="right")))
            at = int(ends[first - 1]) if first else 0
        if first >= stop or (self.stop is not None and at >= self.stop):
            return
        pieces = self.below.stream(epoch, first, stop, executor)
        try:
            for block, table in pieces:
                begin = max(self.start - at, 0)
                end = table.num_rows if self.stop is None else min(self.stop - at, table.num_rows)
                at += table.num_rows
                if begin < end:
                    whole = begin == 0 and end == table.num_rows
                    yield block, table if whole else table.slice(begin, end - begin)
                if self.stop is not None and at >= self.stop:
                    return
        finally:
            close = getattr(pieces, "close", None)
            if close is not None:
                close()
