"""The gradient noise scale, from the norms of micro-batch gradients and of their sum.

A step has k micro-batches i with n_i of its M samples. Let L = sum n_i/M |g_i|^2 and T = |sum n_i/M
g_i|^2. Then E[L] = |G|^2 + k tr(S)/M and E[T] = |G|^2 + tr(S)/M, where G is the true gradient and S
the covariance of a sample's gradient. So (kT - L)/(k - 1) estimates |G|^2, and (L - T)/(k - 1) the
variance of the gradient of M samples, whatever the sizes n_i (McCandlish et al., 2018, appendix A).
A single micro-batch is compared with that of the previous step, whose weights are nearly the same.
"""

from __future__ import annotations

import math
from typing import Any, Optional

import torch

from rt.elastic.goodput import GradParams, gain_of

SMOOTHING = 0.999  # What an average keeps in a step of the initial batch.
EVERY = 8  # Steps between two measurements, after the first ones.
EVERY_OF_ADAM = 16  # They cost more: gradients are divided first.
EVERY_STEP_UNTIL = 32
ADAM_STEPS_MIN = 5  # Before these, Adam's second moments say little.
_FLOOR = 1e-30


class Average:
    """A moving average per parameter group whose weights decay, without the bias of its start."""

    def __init__(self, groups: int) -> None:
        self._sums = [0.0] * groups
        self._weight = 0.0

    def add(self, values: list[float], kept: float) -> None:
        """One more value per group; earlier ones keep the share `kept`."""
        self._sums = [kept * each + (1 - kept) * value for each, value in zip(self._sums, values)]
        self._weight = kept * self._weight + 1 - kept

    @property
    def values(self) -> list[float]:
        """The averages; zeros without values."""
        return [each / self._weight if self._weight else 0.0 for each in self._sums]

    def state(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {"sums": self._sums, "weight": self._weight}

    def load(self, state: dict[str, Any]) -> None:
        """From a checkpoint; raises ValueError if the number of groups differs."""
        if len(state["sums"]) != len(self._sums):
            raise ValueError("the checkpoint has another number of parameter groups")
        self._sums, self._weight = list(state["sums"]), float(state["weight"])


class GradientNoiseScale:
    """Averages of |G|^2 and of the variance of an initial batch's gradient, per parameter group.

    `preconditioned`: gradients are divided by the square root of Adam's second moments.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, preconditioned: bool) -> None:
        self._optimizer = optimizer
        self._adam = preconditioned
        self._every = EVERY_OF_ADAM if preconditioned else EVERY
        groups = [
            [each for each in group["params"] if each.requires_grad]
            for group in optimizer.param_groups
        ]
        self.parameters: list[torch.Tensor] = [each for group in groups for each in group]
        self._group_of = {id(each): index for index, group in enumerate(groups) for each in group}
        self.groups = len(groups)
        self._sqr, self._var = Average(self.groups), Average(self.groups)
        self._biased = True
        self._steps = 0
        self._covered = 0
        self.measured = 0  # How many values the averages have had.
        self._factors: Optional[dict[int, torch.Tensor]] = None
        self._buffers: dict[str, dict[int, torch.Tensor]] = {}
        self._previous: Optional[list[torch.Tensor]] = None
        self._previous_square: Optional[torch.Tensor] = None
        self.measures = False  # In the current step.
        self._keeps = False

    # What is measured, and when.

    def begin(self, alone: bool) -> None:
        """A step begins. `alone`: it has a single micro-batch."""
        self._steps += 1
        self._covered += 1
        often = self._steps <= EVERY_STEP_UNTIL
        due = often or self._steps % self._every == 0
        self._keeps = alone and (often or (self._steps + 1) % self._every == 0)
        self.measures = due
        if alone and not self._keeps and (not due or self._previous is None):
            self.measures = False
        if not alone:
            self._previous = None
        if (self.measures or self._keeps) and self._previous is None:
            self._factors = self._preconditioner() if self._adam else None

    def _preconditioner(self) -> Optional[dict[int, torch.Tensor]]:
        """1 / (sqrt(v) + eps) of each parameter, or None while Adam has made few steps."""
        found, roots = {}, []
        for group in self._optimizer.param_groups:
            beta = float(group["betas"][1])
            for parameter in group["params"]:
                state = self._optimizer.state.get(parameter)
                if not parameter.requires_grad:
                    continue
                if not state or "exp_avg_sq" not in state:
                    return None
                count = float(state["step"])
                if count < ADAM_STEPS_MIN:
                    return None
                found[id(parameter)] = (group["eps"], 1 - beta**count)
                roots.append(state["exp_avg_sq"])
        factors = self._copy("factors", self.parameters, roots)
        torch._foreach_div_(factors, [correction for _, correction in found.values()])
        torch._foreach_sqrt_(factors)
        torch._foreach_add_(factors, [eps for eps, _ in found.values()])
        torch._foreach_reciprocal_(factors)
        return dict(zip(found, factors))

    def squares(self, parameters: list[torch.Tensor], gradients: list[torch.Tensor]) -> Any:
        """The squared norm of the gradients per group, in float64 on their device."""
        return self._norms(parameters, self._scaled(parameters, gradients))

    def _norms(self, parameters: list[torch.Tensor], gradients: list[torch.Tensor]) -> Any:
        norms = torch.stack(torch._foreach_norm(gradients)).double().square_()
        if self.groups == 1:
            return norms.sum().reshape(1)
        groups = [self._group_of[id(each)] for each in parameters]
        found = torch.zeros(self.groups, dtype=torch.float64, device=norms.device)
        return found.index_add_(0, torch.tensor(groups, device=norms.device), norms)

    def _scaled(
        self, parameters: list[torch.Tensor], gradients: list[torch.Tensor]
    ) -> list[torch.Tensor]:
        if self._factors is None:
            return gradients
        scaled = self._copy("scaled", parameters, gradients)
        torch._foreach_mul_(scaled, [self._factors[id(each)] for each in parameters])
        return scaled

    def _copy(
        self, kind: str, parameters: list[torch.Tensor], values: list[torch.Tensor]
    ) -> list[torch.Tensor]:
        """A copy in tensors that are used again: fresh memory costs more than the copy."""
        known = self._buffers.setdefault(kind, {})
        for parameter, value in zip(parameters, values):
            if id(parameter) not in known:
                known[id(parameter)] = torch.empty_like(value)
        copies = [known[id(each)] for each in parameters]
        torch._foreach_copy_(copies, values)
        return copies

    def compare(
        self, parameters: list[torch.Tensor], gradients: list[torch.Tensor]
    ) -> Optional[torch.Tensor]:
        """For a step with a single micro-batch: the mean of its square and the previous step's, and
        the square of both gradients' mean, per group; None if the previous one was not kept."""
        found = None
        if self._previous is not None and len(self._previous) != len(parameters):
            self._previous = None  # Another part of the model was used.
        if self.measures and self._previous is not None:
            assert self._previous_square is not None
            own = self._scaled(parameters, gradients)
            square = self._norms(parameters, own)
            torch._foreach_add_(self._previous, own)
            total = self._norms(parameters, self._previous) / 4
            found = torch.cat([(self._previous_square + square) / 2, total])
            self._previous = None
            if self._keeps and self._adam:
                self._factors = self._preconditioner()
        if self._keeps and self._previous is None:
            own = self._scaled(parameters, gradients)
            self._previous_square = self._norms(parameters, own)
            self._previous = self._copy("previous", parameters, own)
        return found

    # What is made of it.

    def take_covered(self) -> int:
        """The steps that the measurement of this one stands for."""
        covered, self._covered = self._covered, 0
        return covered

    def add(
        self,
        local: list[float],
        total: list[float],
        count: int,
        scale: float,
        biased: bool,
        covered: int = 1,
    ) -> None:
        """The norms of one step: `local` and `total` are L and T per group, of `count` micro-
        batches with `scale` times the initial batch. What is not finite is left out."""
        if count < 2 or not all(map(math.isfinite, [*local, *total])):
            return
        if self._biased and not biased:
            self._sqr, self._var = Average(self.groups), Average(self.groups)
        if biased and not self._biased:
            return  # Better values are known.
        self._biased = biased
        kept = SMOOTHING ** (scale * covered)
        pairs = list(zip(local, total))
        self._sqr.add([(count * t - each) / (count - 1) for each, t in pairs], kept)
        self._var.add([(each - t) / (count - 1) * scale for each, t in pairs], kept)
        self.measured += 1

    @property
    def sqr(self) -> float:
        """|G|^2, the squared norm of the true gradient."""
        return sum(max(each, 0.0) for each in self._sqr.values)

    @property
    def var(self) -> float:
        """The variance of the gradient of an initial batch."""
        return sum(max(each, 0.0) for each in self._var.values)

    def sqr_avg(self) -> float:
        """The same as `sqr`, under AdaptDL's name."""
        return self.sqr

    def var_avg(self) -> float:
        """The same as `var`, under AdaptDL's name."""
        return self.var

    @property
    def params(self) -> GradParams:
        """Both, for the goodput."""
        return GradParams(self.sqr, self.var)

    @property
    def weight(self) -> int:
        """How many measurements the averages stand for."""
        return min(self.measured, round(1 / (1 - SMOOTHING)))

    def gain(self, scale: float) -> float:
        """The progress of a step with `scale` times the initial batch; 1 before a measurement."""
        return gain_of(self.params, scale) if self.measured and scale != 1 else 1.0

    def group_gains(self, scale: float) -> list[float]:
        """The gain of each parameter group by itself."""
        if not self.measured or scale == 1:
            return [1.0] * self.groups
        pairs = zip(self._sqr.values, self._var.values)
        return [gain_of(GradParams(max(sqr, 0.0), max(var, _FLOOR)), scale) for sqr, var in pairs]

    def noise_scale(self, initial: int) -> float:
        """The gradient noise scale in samples: the batch at which the efficiency is about half."""
        return initial * self.var / self.sqr if self.sqr > 0 else math.inf

    def state(self) -> dict[str, Any]:
        """For a checkpoint, except the gradient of the previous step (`kept`)."""
        return {
            "sqr": self._sqr.state(), "var": self._var.state(), "biased": self._biased,
            "steps": self._steps, "covered": self._covered, "measured": self.measured,
        }  # fmt: skip

    def kept(self) -> dict[str, Any]:
        """The tensors that the next step will be compared with, for a checkpoint."""
        if self._previous is None:
            return {}
        factors = None if self._factors is None else list(self._factors.values())
        square = self._previous_square
        return {"gradient": self._previous, "square": square, "factors": factors}

    def load(self, state: dict[str, Any], kept: dict[str, Any]) -> None:
        """From a checkpoint; raises ValueError if the number of groups differs."""
        self._sqr.load(state["sqr"])
        self._var.load(state["var"])
        self._biased, self._steps = bool(state["biased"]), int(state["steps"])
        self._covered, self.measured = int(state["covered"]), int(state["measured"])
        self._previous = kept.get("gradient")
        self._previous_square = kept.get("square")
        factors = kept.get("factors")
        names = [id(each) for each in self.parameters]
        self._factors = dict(zip(names, factors)) if factors is not None else None
