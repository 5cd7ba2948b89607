"""The distributions of domains as objects, for the converters of other libraries.

A Domain keeps its distribution as a name and arguments (rt/_space.py). Code that is written for
Ray asks `domain.get_sampler()` and compares classes: Uniform, LogUniform, Normal, or Quantized
around one of them.
"""

from __future__ import annotations

from typing import Any


class BaseSampler:
    """The base of all samplers."""

    def __str__(self) -> str:
        return type(self).__name__


class Sampler(BaseSampler):
    """A distribution over a domain."""

    def sample(
        self, domain: Any, config: Any = None, size: int = 1, random_state: Any = None
    ) -> Any:
        """One draw from the domain with this distribution, or a list of `size` draws."""
        return domain.with_sampler(self).sample(config, size, random_state)


class Uniform(Sampler):
    """All values are equally likely."""


class LogUniform(Sampler):
    """The logarithm is uniform. `base` has no effect."""

    def __init__(self, base: float = 10) -> None:
        self.base = base


class Normal(Sampler):
    """A normal distribution, which ignores the range of the domain."""

    def __init__(self, mean: float = 0.0, sd: float = 0.0) -> None:
        self.mean, self.sd = mean, sd


class Grid(Sampler):
    """All values in order. A domain of rt has no such distribution: grid_search makes a dict."""

    def sample(
        self, domain: Any, config: Any = None, size: int = 1, random_state: Any = None
    ) -> Any:
        """Raises RuntimeError, as in Ray."""
        raise RuntimeError("a grid is not drawn: use tune.grid_search(values)")


class Quantized(Sampler):
    """Another distribution in multiples of q."""

    def __init__(self, sampler: Sampler, q: float) -> None:
        if not q:
            raise ValueError("q must not be 0")
        self.sampler, self.q = sampler, q

    def get_sampler(self) -> Sampler:
        """The distribution that is rounded."""
        return self.sampler
