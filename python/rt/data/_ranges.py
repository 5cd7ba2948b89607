"""Ranges of rows of an epoch: pure arithmetic on lists of [start, stop) in ascending order.

A row is identified by its number over all blocks of the epoch.
"""

from __future__ import annotations

from collections.abc import Iterable

Ranges = list[tuple[int, int]]


def size(ranges: Ranges) -> int:
    """How many rows the ranges have."""
    return sum(stop - start for start, stop in ranges)


def part(ranges: Ranges, first: int, stop: int) -> Ranges:
    """The rows number `first` to `stop` - 1 of the rows in the ranges."""
    found, at = [], 0
    for begin, end in ranges:
        low, high = max(first - at, 0), min(stop - at, end - begin)
        if low < high:
            found.append((begin + low, begin + high))
        at += end - begin
    return found


def share_bounds(rows: int, rank: int, world_size: int) -> tuple[int, int]:
    """The first row and the end of a rank's share; sizes differ by at most one."""
    small, longer = divmod(rows, world_size)
    start = rank * small + min(rank, longer)
    return start, start + small + (rank < longer)


def share(ranges: Ranges, rank: int, world_size: int) -> Ranges:
    """The rows of the ranges that a rank takes: contiguous, in order."""
    return part(ranges, *share_bounds(size(ranges), rank, world_size))


def union(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """The same rows in ascending order; neighbours become one range."""
    joined: Ranges = []
    for start, stop in sorted(ranges):
        if start >= stop:
            continue
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], stop))
        else:
            joined.append((start, stop))
    return joined


def of_rows(rows: Iterable[int]) -> Ranges:
    """The ranges of single rows."""
    return union((row, row + 1) for row in rows)


def batch_sizes(rows: int, taken: int, rank: int, world_size: int, batch_size: int) -> list[int]:
    """The sizes of the batches that a rank still takes, as many on every rank.

    `rows` are the rows of all ranks, `taken` are those that this rank took. The last batch of the
    longer shares has one row more when the batch size divides the shorter ones. A rank without rows
    has one empty batch when another rank has a row.
    """
    start, stop = share_bounds(rows, rank, world_size)
    left = stop - start - taken
    least = max(rows // world_size - taken, 0)
    steps = -(-least // batch_size)
    if steps == 0:
        alone = rows // world_size == 0 and rows > 0 and taken == 0
        return [left] if left > 0 or alone else []
    return [batch_size] * (steps - 1) + [left - batch_size * (steps - 1)]
