"""How fast a training makes progress with n nodes, r ranks, a local batch and accumulation.

Throughput (Pollux, OSDI 2021, section 3): one micro-batch of b samples takes T_acc = alpha_c +
beta_c b seconds to compute, and synchronising r ranks takes T_net. They overlap: a step takes
accumulation * T_acc + (T_acc^gamma + T_net^gamma)^(1/gamma). Efficiency is the progress per sample,
relative to the initial batch, by the gradient noise scale. Their product is the goodput.
Plain Python: it runs where neither numpy nor PyTorch is.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Optional

SAMPLES = 50  # Global batch sizes that `optimize` compares.
TINY = 1e-8


class PerfParams(NamedTuple):
    """The throughput model. Seconds; `_n` is between nodes, `_r` inside a node."""

    alpha_c: float
    beta_c: float
    alpha_n: float
    beta_n: float
    alpha_r: float
    beta_r: float
    gamma: float


class GradParams(NamedTuple):
    """The squared norm of the gradient, and the variance of the gradient of an initial batch."""

    sqr: float
    var: float


class Choice(NamedTuple):
    """What `optimize` chooses: the global batch, which ranks cut into micro-batches of at most
    `local_batch` samples. `goodput` is in samples per second, as the initial batch uses them."""

    goodput: float
    batch: int
    local_batch: int
    accumulation: int


def gain_of(grad: GradParams, scale: float) -> float:
    """The progress of one step with `scale` times the initial batch, in steps of that batch."""
    if scale <= 0:
        return 0.0
    divisor = grad.var / scale + grad.sqr
    return (grad.var + grad.sqr) / divisor if divisor > 0 else 1.0


class GoodputFunction:
    """Goodput as a function of nodes, ranks, local batch size and accumulation steps."""

    def __init__(self, perf: PerfParams, grad: GradParams, init_batch_size: int) -> None:
        self.perf = perf
        self.grad = grad
        self.initial = init_batch_size

    def __call__(self, nodes: int, ranks: int, local: float, accumulation: int = 0) -> float:
        """Throughput times efficiency."""
        return self.evaluate(nodes, ranks, local, accumulation)

    def evaluate(self, nodes: int, ranks: int, local: float, accumulation: int = 0) -> float:
        """Throughput times efficiency."""
        batch = ranks * local * (accumulation + 1)
        return self.throughput(nodes, ranks, local, accumulation) * self.efficiency(batch)

    def throughput(self, nodes: int, ranks: int, local: float, accumulation: int = 0) -> float:
        """Samples per second."""
        step_s = step_time(self.perf, nodes, ranks, local, accumulation)
        return ranks * local * (accumulation + 1) / step_s

    def efficiency(self, batch_size: float) -> float:
        """The progress per sample with this global batch, relative to the initial batch; <= 1."""
        scale = batch_size / self.initial
        return gain_of(self.grad, scale) / scale

    def optimize(
        self,
        nodes: int,
        ranks: int,
        max_batch_size: Optional[int] = None,
        bounds: Optional[tuple[int, int]] = None,
        accumulation: bool = False,
    ) -> Choice:
        """The best local batch size and number of accumulation steps on this allocation.

        `bounds` are those of the local batch size. Raises ValueError if the initial batch is larger
        than `max_batch_size`.
        """
        largest = self.initial if max_batch_size is None else max_batch_size
        if largest < self.initial:
            raise ValueError(f"max_batch_size {largest} is below the initial {self.initial}")
        low, high = bounds or (1, largest)
        first = max(self.initial, low * ranks)
        found = Choice(-1.0, first, -(-first // ranks), 0)
        for index in range(SAMPLES if largest > first else 1):
            batch = round(first * (max(largest, first) / first) ** (index / (SAMPLES - 1)))
            steps = _accumulation(batch / ranks, self.initial, ranks, high) if accumulation else 0
            local = -(-batch // (ranks * (steps + 1)))
            if not low <= local <= high and index > 0:
                continue
            seconds = step_time(self.perf, nodes, ranks, local, steps)
            value = batch / seconds * self.efficiency(batch)
            if value > found.goodput:
                found = Choice(value, batch, local, steps)
        return found


def _accumulation(share: float, initial: int, ranks: int, high: int) -> int:
    """Accumulation steps of a rank that takes `share` samples in a step, `high` at a time."""
    steps = max(math.ceil(share / high - TINY) - 1, 0)
    # The noise cannot be estimated from a single micro-batch.
    return max(steps, 1) if ranks == 1 and share > initial else steps


def compute_time(perf: PerfParams, local: float) -> float:
    """Seconds that one micro-batch of a rank takes without synchronisation."""
    return perf.alpha_c + perf.beta_c * local


def network_time(perf: PerfParams, nodes: int, ranks: int) -> float:
    """Seconds of one synchronisation."""
    more = max(ranks - 2, TINY)
    if nodes > 1:
        return perf.alpha_n + perf.beta_n * more
    return perf.alpha_r + perf.beta_r * more if ranks > 1 else TINY


def last_time(perf: PerfParams, nodes: int, ranks: int, local: float) -> float:
    """Seconds of a micro-batch that ends with a synchronisation: both overlap."""
    compute, network = compute_time(perf, local), network_time(perf, nodes, ranks)
    larger, smaller = max(compute, network), min(compute, network)
    return float(larger * (1 + (smaller / larger) ** perf.gamma) ** (1 / perf.gamma))


def step_time(
    perf: PerfParams, nodes: int, ranks: int, local: float, accumulation: int = 0
) -> float:
    """Seconds of one step of the optimiser."""
    last = last_time(perf, nodes, ranks, local)
    return accumulation * compute_time(perf, local) + last
