"""How the learning rate follows the batch size.

A rule is given to AdaptiveDataParallel. It returns the factor of each parameter group's learning
rate in a step with `scale` times the initial batch; a rule of one's own overrides `scale_lr`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Union


class ScalingRuleBase:
    """The base of all rules."""

    adp: Any  # The AdaptiveDataParallel that it was given to.

    def scale_lr(self, scale: float) -> Union[float, Sequence[float]]:
        """The factor of the learning rate, one for all parameter groups or one for each."""
        raise NotImplementedError(f"{type(self).__name__} must override scale_lr(scale)")


class AdaScale(ScalingRuleBase):
    """The gain, for SGD: a step counts as that many steps of the initial batch (Johnson et al.,
    ICML 2020)."""

    def scale_lr(self, scale: float) -> Sequence[float]:
        """The gain of each parameter group."""
        return self.adp.gns.group_gains(scale)


class AdamScale(AdaScale):
    """The square root of the gain, for Adam and its relatives."""

    def scale_lr(self, scale: float, power: float = 0.5) -> Sequence[float]:
        """A power of the gain of each parameter group."""
        return [gain**power for gain in super().scale_lr(scale)]


class LinearScale(ScalingRuleBase):
    """The scale itself (Goyal et al., 2017)."""

    def scale_lr(self, scale: float) -> float:
        """The scale."""
        return scale


class SqrtScale(ScalingRuleBase):
    """The square root of the scale (Krizhevsky, 2014)."""

    def scale_lr(self, scale: float) -> float:
        """Its square root."""
        return math.sqrt(scale)


class LEGWScale(ScalingRuleBase):
    """The square root of the scale, after a linear warm-up that is longer for larger batches (You
    et al., 2019). base_warmup_epochs: with the initial batch; data_size: samples of an epoch."""

    def __init__(self, base_warmup_epochs: float, data_size: int) -> None:
        if base_warmup_epochs < 0 or data_size <= 0:
            raise ValueError("LEGWScale: base_warmup_epochs is at least 0, data_size more than 0")
        self._epochs = base_warmup_epochs
        self._samples = data_size

    def scale_lr(self, scale: float) -> float:
        """The square root of the scale, times the share of the warm-up that is done."""
        batches = self._epochs * scale * self._samples / self.adp.initial_batch_size
        done = self.adp.progress
        return math.sqrt(scale) * (min(1.0, done / batches) if batches > 0 else 1.0)
