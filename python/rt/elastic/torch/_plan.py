"""How the samples of a step are cut into micro-batches, and in which order gradients are added.

The samples of a step are consecutive in the order of the epoch. They are cut into `leaves` runs
whose sizes differ by at most one, and each rank takes consecutive leaves. What a leaf contains
depends on the batch and on the number of leaves, and not on who takes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple


class Micro(NamedTuple):
    """One micro-batch: samples [start, stop) of the epoch's order. `weight` is its share of the
    step, 0 if the rank only fills in because the step has fewer samples than ranks."""

    leaf: int
    start: int
    stop: int
    weight: float


def bounds(count: int, leaves: int, leaf: int) -> tuple[int, int]:
    """The samples of a leaf, counted from the first of the step."""
    return leaf * count // leaves, (leaf + 1) * count // leaves


def weights(count: int, leaves: int) -> list[float]:
    """The share of each leaf in the step."""
    sizes = [bounds(count, leaves, leaf) for leaf in range(leaves)]
    return [(stop - start) / count for start, stop in sizes]


def leaves_of(leaves: int, rank: int, ranks: int) -> range:
    """The leaves that a rank takes."""
    return range(rank * leaves // ranks, (rank + 1) * leaves // ranks)


def micro_batches(start: int, count: int, leaves: int, rank: int, ranks: int) -> list[Micro]:
    """What a rank takes of the step of `count` samples from `start`: at least one micro-batch."""
    found = []
    for leaf in leaves_of(leaves, rank, ranks):
        first, last = bounds(count, leaves, leaf)
        if last > first:
            found.append(Micro(leaf, start + first, start + last, (last - first) / count))
    return found or [Micro(-1, start, start + 1, 0.0)]


def steps(length: int, index: int, batch: int, drop_last: bool) -> Iterator[tuple[int, int]]:
    """(start, count) of the steps from `index` to the end of the epoch."""
    while index < length:
        count = min(batch, length - index)
        if count < batch and drop_last:
            return
        yield index, count
        index += count


class Node(NamedTuple):
    """The sum of the gradients of leaves [first, last), in the one tree over all leaves."""

    first: int
    last: int


def middle(node: Node) -> int:
    """Where the tree divides a node."""
    return (node.first + node.last + 1) // 2


def nodes_inside(root: Node, own: range) -> list[Node]:
    """The largest nodes of the tree below `root` that contain leaves of `own` only."""
    if root.last <= own.start or root.first >= own.stop:
        return []
    if own.start <= root.first and root.last <= own.stop:
        return [root]
    cut = middle(root)
    return nodes_inside(Node(root.first, cut), own) + nodes_inside(Node(cut, root.last), own)
