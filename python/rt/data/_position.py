"""Positions: what the consumer of a share took. They are JSON, and part of a checkpoint (adr/0027).

The file .rt_data.RANK.json of a checkpoint holds the positions of one rank, by name of data set.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Optional, Protocol

from rt.data import _ranges
from rt.data._arrow import np
from rt.data._plan import Node
from rt.data._random import permutation
from rt.data._ranges import Ranges

FORMAT = 1
_FILE = re.compile(r"\.rt_data\.([0-9]{1,9})\.json")
_COUNTS_MAX = 10_000  # A longer list would be larger than many models; it is counted again.


@dataclass
class Window:
    """A local shuffle: windows of `rows` rows of a share, each permuted by (seed, epoch, rank)."""

    seed: int
    rows: int

    def order(self, count: int, epoch: int, rank: int, number: int) -> Any:
        """The order of the `count` rows of a window, int64."""
        return permutation(count, self.seed, epoch, rank, "window", number)


@dataclass
class Pass:
    """One pass over a share. `taken` counts the rows that the consumer has got.

    `within` are the rows that all ranks together take, None for the whole epoch. `start` is the
    (block, row) at which reading begins when it is known; the `skip` rows before it are taken.
    """

    epoch: int = 0
    within: Optional[Ranges] = None
    taken: int = 0
    ended: bool = False
    window: Optional[Window] = None
    start: Optional[tuple[int, int]] = (0, 0)
    pieces: list[tuple[int, int, int]] = field(default_factory=list)  # (rows before, block, row)

    @contextlib.contextmanager
    def counted_as_ended(self) -> Iterator[None]:
        """Around a pass: it has ended when the rows did, or when the consumer left its loop.

        After an error the pass goes on with the next row.
        """
        try:
            yield
        except GeneratorExit:
            self.ended = True
            raise
        self.ended = True

    def anchor(self) -> int:
        """The row of the share from which reading must begin to give the next row."""
        if self.window is None:
            return self.taken
        return self.taken // self.window.rows * self.window.rows

    def place(self) -> Optional[tuple[int, int]]:
        """(block, row) of the anchor; None when it is not known."""
        anchor = self.anchor()
        while len(self.pieces) > 1 and self.pieces[1][0] <= anchor:
            self.pieces.pop(0)
        if not self.pieces:
            return self.start
        before, block, row = self.pieces[0]
        return block, row + anchor - before


def to_json(state: Pass, node: Node, rank: int, world_size: int) -> dict[str, Any]:
    """The position as JSON."""
    place = state.place()
    window = state.window
    return {
        "format": FORMAT,
        "epoch": state.epoch,
        "ended": state.ended,
        "world_size": world_size,
        "rank": rank,
        "taken": state.taken,
        "block": place[0] if place else None,
        "row": place[1] if place else None,
        "within": None if state.within is None else [list(each) for each in state.within],
        "shuffle": None if window is None else {"seed": window.seed, "rows": window.rows},
        "seeds": [each.drawn() for each in node.chain()],
        "counts": _counts_of(node),
        "plan": node.digest(),
    }


def _counts_of(node: Node) -> dict[str, list[int]]:
    """Depth in the plan -> rows per block, of what was counted by running functions."""
    return {
        str(depth): each.counted.tolist()
        for depth, each in enumerate(node.chain())
        if each.counted is not None and len(each.counted) <= _COUNTS_MAX
    }


def adopt(node: Node, position: Mapping[str, Any]) -> None:
    """Gives the plan the seeds and counts of a position. Raises ValueError for another plan."""
    if position.get("format") != FORMAT:
        raise ValueError(
            f"the checkpoint has a position of format {position.get('format')!r}, and this release "
            f"reads format {FORMAT}: use the release of rt that wrote it"
        )
    if position["plan"] != node.digest():
        raise ValueError(
            "the data set is not the one of the checkpoint: its files, rows or operations changed, "
            "so the position in it has no meaning. Restore the data set, or start a new run"
        )
    chain = node.chain()
    for each, number in zip(chain, position["seeds"]):
        if number is not None:
            each.set_drawn(number)
    for each in chain:
        each.forget_counts()
    for depth, counts in position["counts"].items():
        chain[int(depth)].remember_counts(0, np.asarray(counts, dtype=np.int64))


def from_json(position: Mapping[str, Any]) -> Pass:
    """The pass of a position."""
    window, within = position["shuffle"], position["within"]
    start = None if position["block"] is None else (position["block"], position["row"])
    return Pass(
        epoch=position["epoch"],
        within=None if within is None else [(low, high) for low, high in within],
        taken=position["taken"],
        ended=position["ended"],
        window=None if window is None else Window(window["seed"], window["rows"]),
        start=start,
    )


def rest(state: Pass, rows: int, rank: int, world_size: int) -> Ranges:
    """The rows that a rank has not taken in a pass; `rows` is the number of rows of the epoch."""
    if state.ended:
        return []
    within = [(0, rows)] if state.within is None else state.within
    mine = _ranges.share(within, rank, world_size)
    total = _ranges.size(mine)
    if state.window is None:
        return _ranges.part(mine, state.taken, total)
    anchor = state.anchor()
    window = _ranges.part(mine, anchor, min(anchor + state.window.rows, total))
    order = state.window.order(_ranges.size(window), state.epoch, rank, anchor // state.window.rows)
    numbers = np.concatenate([np.arange(low, high) for low, high in window] or [np.arange(0)])
    left = _ranges.of_rows(numbers[order[state.taken - anchor :]].tolist())
    return _ranges.union([*left, *_ranges.part(mine, anchor + state.window.rows, total)])


class HasPosition(Protocol):
    """The iterator of a share."""

    def position(self) -> dict[str, Any]:
        """What its consumer took."""


def write_positions(directory: str, rank: int, shards: Mapping[str, HasPosition]) -> None:
    """Adds the positions of a rank's shards, by name of data set, to a checkpoint's directory."""
    path = os.path.join(directory, f".rt_data.{rank}.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({name: shard.position() for name, shard in shards.items()}, file)


def read_positions(directory: str) -> dict[str, list[dict[str, Any]]]:
    """Name of data set -> positions of the ranks, of a checkpoint's directory; {} without any.

    Raises ValueError for a file that write_positions did not write.
    """
    found: dict[str, list[dict[str, Any]]] = {}
    for name in sorted(os.listdir(directory)):
        if _FILE.fullmatch(name) is None:
            continue
        path = os.path.join(directory, name)
        try:
            with open(path, encoding="utf-8") as file:
                for shard, position in json.load(file).items():
                    found.setdefault(shard, []).append(position)
        except (ValueError, AttributeError) as error:
            raise ValueError(f"{path} holds no positions of data sets: {error}") from None
    return found
