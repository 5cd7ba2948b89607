"""Fits the throughput model to measured steps: AdaptDL's loss and priors, minimised in logarithms.

The loss is the sum of the root mean square errors of log T_acc and log T_opt, which keeps one slow
configuration from outweighing the others, and a weak prior: little overlap, and a synchronisation
that grows slowly with the ranks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Callable, NamedTuple, Optional

from rt.elastic.goodput import TINY, PerfParams

GAMMA_MAX = 10.0
ITERATIONS_MAX = 200
_START = PerfParams(0.1, 0.01, 0.1, 0.01, 0.1, 0.01, 1.001)
_LOWER = [math.log(TINY)] * 6 + [1.0]
_UPPER = [math.log(1e4)] * 6 + [GAMMA_MAX]
Vector = list[float]
Objective = Callable[[Vector], tuple[float, Vector]]


class Point(NamedTuple):
    """What was measured with one configuration: mean seconds of a micro-batch's computation, and of
    the last micro-batch of a step, including the synchronisation."""

    nodes: int
    ranks: int
    local: float
    compute_s: float
    step_s: float


def fit_perf_params(points: Sequence[Point], start: Optional[PerfParams] = None) -> PerfParams:
    """The model that fits the points best. Raises ValueError without points.

    Parameters that the points do not determine are optimistic: no cost between nodes that was not
    seen, and at least that inside a node.
    """
    if not points:
        raise ValueError("a throughput model needs at least one measured configuration")
    first = list(start or _START)
    frozen = _frozen(points)
    for index, value in frozen.items():
        first[index] = value
    begin = [math.log(max(each, TINY)) for each in first[:6]] + [first[6]]
    free = [index not in frozen for index in range(7)]
    found = minimize(lambda x: _loss(points, x), begin, _LOWER, _UPPER, free)
    fitted = PerfParams._make([*(math.exp(each) for each in found[:6]), found[6]])
    if any(point.nodes > 1 for point in points):
        return fitted
    return fitted._replace(
        alpha_n=max(fitted.alpha_n, fitted.alpha_r * 1.1),
        beta_n=max(fitted.beta_n, fitted.beta_r * 1.1),
    )


def _frozen(points: Sequence[Point]) -> dict[int, float]:
    """The parameters, by index, that the points say nothing of, and their values."""
    frozen: dict[int, float] = {}
    if len({point.local for point in points}) == 1:
        frozen[0] = sum(point.compute_s for point in points) / len(points) / 2
    if not any(point.nodes > 1 for point in points):
        frozen.update({2: TINY, 3: TINY})
    if not any(point.nodes == 1 and point.ranks > 1 for point in points):
        frozen.update({4: TINY, 5: TINY})
    if not any(point.ranks > 2 for point in points):
        frozen.update({3: TINY, 5: TINY})
    return frozen


def _loss(points: Sequence[Point], x: Vector) -> tuple[float, Vector]:
    """The loss and its gradient at the logarithms of the six times, and gamma."""
    alpha_c, beta_c, alpha_n, beta_n, alpha_r, beta_r = (math.exp(each) for each in x[:6])
    gamma = x[6]
    squares: Vector = [0.0, 0.0]
    slopes: list[Vector] = [[0.0] * 7, [0.0] * 7]
    for point in points:
        compute = alpha_c + beta_c * point.local
        parts = [(0, alpha_c / compute), (1, beta_c * point.local / compute)]
        error = math.log(compute / point.compute_s)
        squares[0] += error * error
        for index, slope in parts:
            slopes[0][index] += error * slope
        more = max(point.ranks - 2, TINY)
        network, network_parts = TINY, []
        if point.ranks > 1:
            inside = point.nodes == 1
            constant, linear = (alpha_r, beta_r) if inside else (alpha_n, beta_n)
            network = constant + linear * more
            offset = 4 if inside else 2
            network_parts = [(offset, constant / network), (offset + 1, linear * more / network)]
        # log T_opt = log T_acc + log(1 + e^(gamma d)) / gamma, d = log(T_net / T_acc).
        ratio = gamma * math.log(network / compute)
        grown = ratio if ratio > 30 else math.log1p(math.exp(ratio))
        share = 1 / (1 + math.exp(-min(max(ratio, -700), 700)))
        error = math.log(compute / point.step_s) + grown / gamma
        squares[1] += error * error
        for index, slope in parts:
            slopes[1][index] += error * slope * (1 - share)
        for index, slope in network_parts:
            slopes[1][index] += error * slope * share
        slopes[1][6] += error * (share * ratio - grown) / (gamma * gamma)
    value, gradient = 0.0, [0.0] * 7
    for square, row in zip(squares, slopes):
        root = math.sqrt(square / len(points) + 1e-16)
        value += root
        for index in range(7):
            gradient[index] += row[index] / (root * len(points))
    return _add_prior(value, gradient, [beta_n / alpha_n, beta_r / alpha_r], gamma)


def _add_prior(
    value: float, gradient: Vector, growth: Vector, gamma: float
) -> tuple[float, Vector]:
    value += 1e-3 * (gamma - 1) ** 2
    gradient[6] += 2e-3 * (gamma - 1)
    for index, ratio in zip((2, 4), growth):
        value += 1e-2 * ratio * ratio
        gradient[index] -= 2e-2 * ratio * ratio
        gradient[index + 1] += 2e-2 * ratio * ratio
    return value, gradient


def minimize(
    objective: Objective,
    start: Vector,
    lower: Vector,
    upper: Vector,
    free: Optional[list[bool]] = None,
) -> Vector:
    """The minimum inside a box, by a projected BFGS method; only `free` coordinates move."""
    size = len(start)
    may_move = free or [True] * size
    x = [min(max(each, low), high) for each, low, high in zip(start, lower, upper)]
    value, slope = objective(x)
    inverse = _identity(size)
    for _ in range(ITERATIONS_MAX):
        active = [
            not may_move[i]
            or (x[i] <= lower[i] and slope[i] > 0)
            or (x[i] >= upper[i] and slope[i] < 0)
            for i in range(size)
        ]
        inner = [0.0 if active[i] else slope[i] for i in range(size)]
        if max(map(abs, inner)) < 1e-9:
            break
        step = _direction(inverse, inner, active)
        if _dot(step, inner) >= 0:
            inverse = _identity(size)
            step = [-each for each in inner]
        moved = _search(objective, x, value, slope, step, lower, upper)
        if moved is None and inverse != _identity(size):
            inverse = _identity(size)
            continue
        if moved is None:
            break
        new, new_value, new_slope = moved
        _update(inverse, [a - b for a, b in zip(new, x)], [a - b for a, b in zip(new_slope, slope)])
        done = value - new_value < 1e-12 * (1 + abs(value))
        x, value, slope = new, new_value, new_slope
        if done:
            break
    return x


def _identity(size: int) -> list[Vector]:
    return [[1.0 if i == j else 0.0 for j in range(size)] for i in range(size)]


def _dot(a: Vector, b: Vector) -> float:
    return sum(each * other for each, other in zip(a, b))


def _direction(inverse: list[Vector], inner: Vector, active: list[bool]) -> Vector:
    step = [0.0 if active[i] else -_dot(row, inner) for i, row in enumerate(inverse)]
    longest = max(map(abs, step))
    return [each * 2 / longest for each in step] if longest > 2 else step


def _search(
    objective: Objective, x: Vector, value: float, slope: Vector, step: Vector,
    lower: Vector, upper: Vector,
) -> Optional[tuple[Vector, float, Vector]]:  # fmt: skip
    """The first point along the projected step that is low enough, or None."""
    size = 1.0
    for _ in range(40):
        new = [min(max(a + size * b, c), d) for a, b, c, d in zip(x, step, lower, upper)]
        promised = _dot(slope, [a - b for a, b in zip(new, x)])
        found, new_slope = objective(new)
        if found <= value + 1e-4 * promised and promised < 0:
            return new, found, new_slope
        size /= 2
    return None


def _update(inverse: list[Vector], moved: Vector, turned: Vector) -> None:
    """The BFGS update of the inverse Hessian, in place."""
    curvature = _dot(moved, turned)
    if curvature <= 1e-12:
        return
    size = len(moved)
    product = [_dot(row, turned) for row in inverse]
    factor = (1 + _dot(turned, product) / curvature) / curvature
    for i in range(size):
        for j in range(size):
            inverse[i][j] += factor * moved[i] * moved[j]
            inverse[i][j] -= (moved[i] * product[j] + product[i] * moved[j]) / curvature
