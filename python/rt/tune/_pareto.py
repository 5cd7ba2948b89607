"""Which results beat others, with several objectives, and the volume that a set of them has."""

from __future__ import annotations

import math
from collections.abc import Sequence


def dominates(a: Sequence[float], b: Sequence[float]) -> bool:
    """Whether `a` is no worse in any objective, and better in one, all being minimised."""
    return any(x < y for x, y in zip(a, b)) and all(x <= y for x, y in zip(a, b))


def hypervolume(points: Sequence[Sequence[float]], reference: Sequence[float]) -> float:
    """The volume between the points and the reference, all values being minimised.

    Exact, by exclusive parts (While et al., 2012). A point that is not finite, or not better than
    the reference in every objective, does not count. Time grows fast with the number of objectives
    above three.
    """
    inside = [
        tuple(each)
        for each in points
        if all(math.isfinite(x) and x < r for x, r in zip(each, reference))
    ]
    front = sorted(
        each for each in set(inside) if not any(dominates(other, each) for other in inside)
    )
    total = 0.0
    if len(reference) == 2:
        height = reference[1]
        for first, second in front:
            total += (reference[0] - first) * (height - second)
            height = second
        return total
    for i, each in enumerate(front):
        box = 1.0
        for x, r in zip(each, reference):
            box *= r - x
        limited = [[max(x, y) for x, y in zip(each, other)] for other in front[i + 1 :]]
        total += box - (hypervolume(limited, reference) if limited else 0.0)
    return total
