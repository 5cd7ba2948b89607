"""AdaptiveDataParallel: gradients of micro-batches of any size are averaged by their samples, and
measured on the way.

Several ranks: DistributedDataParallel reduces its buckets while the backward pass runs; a hook of
each bucket measures the rank's own gradient and weights it by its share of the step. One rank, or
`deterministic`: gradients of micro-batches are added here, at the end of a backward pass.
"""

from __future__ import annotations

import functools
import json
import time
import types
from collections.abc import Iterator
from typing import IO, Any, Callable, Optional

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from rt._ddp import fix_buckets
from rt.elastic import checkpoint, env
from rt.elastic.torch import _job, _plan, _tree
from rt.elastic.torch._job import CONTROL, Step
from rt.elastic.torch.gradient_noise_scale import GradientNoiseScale
from rt.elastic.torch.scaling_rules import AdamScale, AdaScale, ScalingRuleBase

OVERFLOWS_MAX = 64  # Steps that a GradScaler leaves out in a row: its scale is halved each time.


def is_adam(optimizer: torch.optim.Optimizer) -> bool:
    """Whether the optimiser divides gradients by the root of their second moments."""
    return all("betas" in group and "eps" in group for group in optimizer.param_groups)


class AdaptiveDataParallel(DistributedDataParallel):
    """The model on all ranks, with an optimiser whose learning rate follows the batch size.

    It saves and restores model, optimiser, lr_scheduler and mp_scaler (a torch.amp.GradScaler,
    which then does nothing between the micro-batches of a step).
    `scaling_rule`: AdaScale by default, AdamScale for Adam. The loss of a micro-batch must be a
    mean over its samples. `deterministic`: each step is cut into `max_replicas` micro-batches
    (times 1 + accumulation), and their gradients are added in one fixed order, so that the weights
    are the same to the last bit on 1 to `max_replicas` ranks. More arguments are those of
    DistributedDataParallel. Raises RuntimeError before init_process_group(), and ValueError for a
    setting that cannot work.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        lr_scheduler: Any = None,
        mp_scaler: Any = None,
        scaling_rule: Optional[ScalingRuleBase] = None,
        name: str = "adaptdl-dataparallel",
        *,
        deterministic: bool = False,
        max_replicas: Optional[int] = None,
        **more: Any,
    ) -> None:
        if not dist.is_initialized():
            raise RuntimeError("the model needs a process group: call init_process_group() first")
        job = _job.current()
        more.setdefault("gradient_as_bucket_view", True)
        super().__init__(model, **more)
        self.max_replicas = _checked_replicas(model, deterministic, max_replicas, job.ranks)
        self.reduces = job.ranks > 1 and not deterministic
        if self.reduces:
            if not more.get("find_unused_parameters"):
                fix_buckets(self)
            # (A hook with annotations must have exactly DDP's.)
            self.register_comm_hook(None, lambda _, bucket: self._reduce_bucket(bucket))
        self._job = job
        self._optimizer, self._scaler = optimizer, mp_scaler
        self.scaling_rule = scaling_rule or (AdamScale() if is_adam(optimizer) else AdaScale())
        self.scaling_rule.adp = self
        self.gns = GradientNoiseScale(optimizer, is_adam(optimizer))
        self.lr_factor = 1.0  # Of the first parameter group, in the newest step.
        self.sync_s = 0.0  # Synchronisation of the newest step that nothing else hid.
        self._clock = _SyncClock()
        self._sums = _tree.Sums()  # Of micro-batches that are over, in this step.
        self._local: dict[int, torch.Tensor] = {}  # Squared norms by leaf.
        self._total: Optional[torch.Tensor] = None
        self._pair: Optional[torch.Tensor] = None
        self._begun: Optional[Step] = None
        self._sent: Optional[Step] = None  # Whose norms are being exchanged.
        self._covered = 0  # Steps that they stand for.
        self._overflows = 0  # Steps in a row that were not made.
        self._pending = False  # A backward pass began whose gradients were not taken.
        self._queued = False
        self._step_original = _patch(optimizer, self._optimizer_step)
        if mp_scaler is not None:
            self._patch_scaler(mp_scaler)
            optimizer._step_supports_amp_scaling = False  # type: ignore[attr-defined]
        self._state = _ModelState(name, self, optimizer, lr_scheduler, mp_scaler)
        job.model = self
        checkpoint.load_state(self._state)

    @property
    def progress(self) -> float:
        """Steps of the initial batch that the run is worth."""
        return self._job.metrics.done

    @property
    def initial_batch_size(self) -> int:
        """The batch size at which the learning rate is unchanged."""
        loader = self._job.training
        return loader.initial_batch if loader is not None else 1

    @property
    def gain(self) -> float:
        """The progress of a step at the current batch size."""
        loader = self._job.training
        return self.gns.gain(loader.planned_batch / loader.initial_batch) if loader else 1.0

    def to_tensorboard(self, writer: Any, global_step: int, tag_prefix: str = "") -> None:
        """Writes what is known of the gradients with a SummaryWriter."""
        prefix = tag_prefix.rstrip("/") + "/" if tag_prefix else ""
        for name, value in (
            ("Gradient_Norm_Sqr", self.gns.sqr),
            ("Gradient_Variance", self.gns.var),
            ("Gradient_Noise_Scale", self.gns.noise_scale(self.initial_batch_size)),
            ("Gain", self.gain),
            ("Learning_Rate_Factor", self.lr_factor),
            ("Progress", self.progress),
        ):
            writer.add_scalar(prefix + name, value, global_step)
        values = self._job.values()
        for name in ("efficiency", "throughput", "goodput"):
            if name in values:
                writer.add_scalar(prefix + name.capitalize(), values[name], global_step)

    # Forward and backward.

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """The module's output. Without gradients, ranks do not meet: they may differ in batches."""
        step = self._job.step
        if not torch.is_grad_enabled():
            return self.module(*inputs, **named)
        if step is None:
            self.require_backward_grad_sync = True
            run = super().forward if self.reduces else self.module
            return run(*inputs, **named)
        if step is not self._begun:
            self._begin(step)
        self.require_backward_grad_sync = step.is_last
        if self.reduces:
            output = super().forward(*inputs, **named)
        else:
            output = self.module(*inputs, **named)
        self._pending, self._queued = True, False
        for tensor in _tensors(output):
            tensor.register_hook(self._note_backward)
        return output

    def _begin(self, step: Step) -> None:
        self._begun = step
        self._sums.begin(step.leaves if self.max_replicas is not None else 0)
        self._local, self._total, self._pair = {}, None, None
        self.gns.begin(step.alone)

    def _note_backward(self, _gradient: torch.Tensor) -> None:
        if not self._queued:
            self._queued = True
            _queue(lambda: _queue(self._end_backward))  # After DDP's own, which waits for buckets.

    def _end_backward(self) -> None:
        """The gradients of a micro-batch are complete; of the last one, those of the step are."""
        step = self._job.step
        if step is None or not self._pending:
            return
        # A GradScaler finds an overflow of any micro-batch in the gradients of the whole step.
        if self._scaler is None or not step.alone:
            self._take(step)

    def end_micro_batch(self) -> None:
        """Called by the loader after the user's work on a micro-batch."""
        step = self._job.step
        if step is not None and self._pending:
            self._take(step)
        if step is not None and step.is_last:
            self._overflows = 0 if step.done else self._overflows + 1
            self._sums.clear()
            self.sync_s = self._clock.read()

    @property
    def is_stuck(self) -> bool:
        """Whether no step follows those that a GradScaler has left out."""
        scales = self._scaler is not None and self._scaler.is_enabled()
        return not scales or self._overflows >= OVERFLOWS_MAX

    def _take(self, step: Step) -> None:
        """Takes the gradients of the micro-batch in hand."""
        self._pending = False
        parameters = [each for each in self.gns.parameters if each.grad is not None]
        gradients = [each.grad for each in parameters]
        if not gradients:
            return
        micro = step.micro
        if not step.is_last or not self.reduces:
            self._take_local(step, micro, parameters, gradients)
        elif self.gns.measures:
            self._total = self.gns.squares(parameters, gradients) * self._unscale**2
        if step.is_last:
            self._clock.stop(parameters[0])

    def _take_local(
        self, step: Step, micro: _plan.Micro, parameters: list[Any], gradients: list[Any]
    ) -> None:
        gns = self.gns
        if step.alone:
            self._pair = gns.compare(parameters, gradients)
            return
        kept = [each.clone() if each._is_view() else each for each in gradients]
        unscale = self._unscale
        if unscale != 1:
            torch._foreach_mul_(kept, unscale)
        if gns.measures and micro.weight > 0:
            self._local[micro.leaf] = gns.squares(parameters, kept)
        self._sums.add(micro, parameters, kept)
        for parameter in parameters:
            parameter.grad = None
        if not step.is_last or self.reduces:
            return
        sums = self._sums.total(step, self._job, self.gns.parameters)
        self._clock.start(parameters[0])
        for parameter, gradient in sums:
            parameter.grad = gradient
        if gns.measures and sums:
            self._total = gns.squares([each for each, _ in sums], [each for _, each in sums])
        if sums and unscale != 1:  # The scaler unscales them, and finds what is not finite.
            torch._foreach_mul_([each for _, each in sums], 1 / unscale)

    @property
    def _unscale(self) -> float:
        """The inverse of the factor by which a GradScaler multiplied the loss."""
        return 1.0 / float(self._scaler.get_scale()) if self._scaler is not None else 1.0

    def _reduce_bucket(self, bucket: Any) -> Any:
        """DDP's hook: measures and weights this rank's gradient, and adds up those of all ranks."""
        step, buffer = self._job.step, bucket.buffer()
        if step is None:
            buffer.div_(self._job.ranks)
        else:
            micro = step.micro
            parameters, gradients = bucket.parameters(), bucket.gradients()
            if self.gns.measures and micro.weight > 0:
                squares = self.gns.squares(parameters, gradients) * self._unscale**2
                known = self._local.get(micro.leaf)
                self._local[micro.leaf] = squares if known is None else known + squares
            if micro.weight > 0:
                buffer.mul_(micro.weight)
            else:
                buffer.zero_()
            earlier = self._sums.of(parameters)
            if earlier is not None:
                torch._foreach_add_(gradients, earlier, alpha=1 / self._unscale)
            if bucket.is_last():
                self._clock.start(buffer)
        return dist.all_reduce(buffer, async_op=True).get_future().then(_first)

    # The step of the optimiser.

    def _patch_scaler(self, scaler: Any) -> None:
        """Between the micro-batches of a step the scaler does nothing: gradients of one step have
        one scale, and all ranks change it alike, by the gradients of the whole step."""

        def patched(original: Callable[..., Any]) -> Callable[..., Any]:
            def call(*arguments: Any, **named: Any) -> Any:
                step = self._job.step
                between = step is not None and not step.is_last
                return None if between else original(*arguments, **named)

            return functools.wraps(original)(call)

        for name in ("unscale_", "step", "update"):
            setattr(scaler, name, patched(getattr(scaler, name)))

    def _optimizer_step(self, *arguments: Any, **named: Any) -> Any:
        """In place of optimizer.step(): nothing between the micro-batches of a step."""
        step = self._job.step
        if step is None:
            return self._step_original(*arguments, **named)
        if any(each is not None for each in [*arguments, named.get("closure")]):
            raise RuntimeError(
                "optimizer.step(closure) cannot be used in a loop over an AdaptiveDataLoader: "
                "call backward() before optimizer.step()"
            )
        if self._pending:
            self._take(step)
        if not step.is_last:
            return None
        self._job.settle()
        if self._scaler is not None and not self._is_finite():
            return None
        self._sent = step
        measured = self._norms(step)
        if measured is not None:
            self._covered = self.gns.take_covered()
        if self._job.ranks > 1 or measured is not None:
            self._job.exchange.start(
                self._job.control() if self._job.ranks > 1 else [0.0] * CONTROL, measured
            )
        step.done = True
        initial = self.initial_batch_size
        result = self._scaled_step(step.batch / initial, arguments, named)
        self._job.metrics.done += self.gns.gain(step.batch / initial) * step.count / step.batch
        return result

    def _is_finite(self) -> bool:
        gradients = [each.grad for each in self.gns.parameters if each.grad is not None]
        norms = torch.stack(torch._foreach_norm(gradients)) if gradients else torch.zeros(1)
        return bool(torch.isfinite(norms).all())

    def _norms(self, step: Step) -> Optional[torch.Tensor]:
        """What is exchanged of this step: the norms by leaf and group, or of a pair of steps; then
        the norms of the sum, which all ranks know, from rank 0."""
        if step.alone:
            return self._pair
        if not self.gns.measures or self._total is None:
            return None
        groups, total = self.gns.groups, self._total
        local = torch.zeros(step.leaves * groups, dtype=torch.float64, device=total.device)
        for leaf, squares in self._local.items():
            local[leaf * groups : (leaf + 1) * groups] = squares
        if self._job.rank > 0:
            total = torch.zeros_like(total)
        return torch.cat([local, total])

    def take_norms(self, values: list[float]) -> None:
        """The sums over all ranks of what `_norms` returned."""
        step, groups = self._sent, self.gns.groups
        if step is None:
            return
        scale = step.count / self.initial_batch_size
        if step.alone:
            self.gns.add(values[:groups], values[groups:], 2, 2 * scale, True, self._covered)
            return
        shares = _plan.weights(step.count, step.leaves)
        local = [
            sum(share * values[leaf * groups + group] for leaf, share in enumerate(shares))
            for group in range(groups)
        ]
        count = sum(1 for share in shares if share > 0)
        self.gns.add(local, values[step.leaves * groups :], count, scale, False, self._covered)

    def _scaled_step(self, scale: float, arguments: Any, named: Any) -> Any:
        factors: Any = self.scaling_rule.scale_lr(scale)
        groups = self._optimizer.param_groups
        each = list(factors) if isinstance(factors, (list, tuple)) else [factors] * len(groups)
        self.lr_factor = float(each[0])
        rates = [group["lr"] for group in groups]
        try:
            for group, factor in zip(groups, each):
                if factor != 1.0:
                    group["lr"] = group["lr"] * float(factor)
            return self._step_original(*arguments, **named)
        finally:
            for group, rate in zip(groups, rates):
                group["lr"] = rate


class _SyncClock:
    """From the moment at which a rank's own gradient is complete to that of the sum's."""

    def __init__(self) -> None:
        self._events: Optional[tuple[Any, Any]] = None
        self._began: Optional[float] = None
        self._seconds = 0.0

    def start(self, where: torch.Tensor) -> None:
        """The rank's own gradient is complete."""
        if where.is_cuda:
            self._events = (_event(), _event())
            self._events[0].record()
        self._began = time.perf_counter()

    def stop(self, where: torch.Tensor) -> None:
        """The sum is complete."""
        if where.is_cuda and self._events is not None:
            self._events[1].record()
        elif self._began is not None:
            self._seconds = time.perf_counter() - self._began
            self._began = None

    def read(self) -> float:
        """The seconds between both; on a gpu those of an earlier step, if it still works."""
        if self._events is not None and self._events[1].query():
            self._seconds = self._events[0].elapsed_time(self._events[1]) / 1000
        return self._seconds


def _event() -> Any:
    return torch.cuda.Event(enable_timing=True)


def _first(future: Any) -> Any:
    return future.value()[0]


def _queue(function: Callable[[], None]) -> None:
    torch.autograd.Variable._execution_engine.queue_callback(function)


def _tensors(output: Any) -> Iterator[torch.Tensor]:
    """The tensors in a model's output that gradients flow back to."""
    if isinstance(output, torch.Tensor):
        if output.requires_grad:
            yield output
    elif isinstance(output, dict):
        for each in output.values():
            yield from _tensors(each)
    elif isinstance(output, (list, tuple)):
        for each in output:
            yield from _tensors(each)
    elif hasattr(output, "__dict__"):
        for each in vars(output).values():
            if isinstance(each, torch.Tensor):
                yield from _tensors(each)


def _patch(optimizer: Any, step: Callable[..., Any]) -> Callable[..., Any]:
    """Replaces optimizer.step, as a bound method: schedulers of learning rates wrap it."""
    original: Callable[..., Any] = optimizer.step

    def patched(_optimizer: Any, *arguments: Any, **named: Any) -> Any:
        return step(*arguments, **named)

    if hasattr(original, "_wrapped_by_lr_sched"):  # A scheduler looks for it, or warns.
        patched._wrapped_by_lr_sched = True  # type: ignore[attr-defined]
    optimizer.step = types.MethodType(patched, optimizer)
    return original


def _checked_replicas(
    model: torch.nn.Module, deterministic: bool, given: Optional[int], ranks: int
) -> Optional[int]:
    """The number of micro-batches of a deterministic step, or None."""
    if not deterministic:
        if given is not None:
            raise ValueError("max_replicas is for deterministic=True")
        return None
    if given is None or given < ranks:
        raise ValueError(f"deterministic=True needs max_replicas of at least {ranks}, the ranks")
    for name, part in model.named_modules():
        if isinstance(part, torch.nn.modules.batchnorm._BatchNorm) and part.track_running_stats:
            raise ValueError(
                f"deterministic=True: {name} ({type(part).__name__}) keeps statistics of the "
                "batches of one rank; use GroupNorm or LayerNorm, or track_running_stats=False"
            )
    return given


class _ModelState(checkpoint.State):
    """Model, optimiser, scheduler, scaler and noise scale."""

    def __init__(
        self, name: str, model: AdaptiveDataParallel, optimizer: Any, scheduler: Any, scaler: Any
    ) -> None:
        super().__init__(name)
        self._model = model
        self._parts = {"optimizer": optimizer, "lr_scheduler": scheduler, "mp_scaler": scaler}

    def _given(self) -> list[tuple[str, Any]]:
        return [(key, part) for key, part in self._parts.items() if part is not None]

    def save(self, fileobj: IO[bytes]) -> None:
        """Writes tensors and plain values: they load without unpickling code."""
        saved: dict[str, Any] = {key: part.state_dict() for key, part in self._given()}
        saved["kinds"] = {key: type(part).__name__ for key, part in self._given()}
        saved["model"] = self._model.module.state_dict()
        saved["gns"] = json.dumps(self._model.gns.state())
        saved["gns_kept"] = self._model.gns.kept()
        torch.save(saved, fileobj)

    def load(self, fileobj: IO[bytes]) -> None:
        """Reads them on this rank's device. Raises ValueError if the model has changed."""
        device = next(self._model.module.parameters()).device
        saved = torch.load(fileobj, map_location=device, weights_only=True)
        for key, part in self._given():
            kind = saved.get("kinds", {}).get(key, type(part).__name__)
            if kind != type(part).__name__:
                raise ValueError(
                    f"the checkpoint has an {key} of class {kind}, not {type(part).__name__}: the "
                    "script was changed since. Start it as a new run"
                )
        try:
            self._model.module.load_state_dict(saved["model"])
            for key, part in self._given():
                if key in saved:
                    part.load_state_dict(saved[key])
            kept = saved["gns_kept"] if env.num_replicas() == 1 else {}
            self._model.gns.load(json.loads(saved["gns"]), kept)
        except (RuntimeError, KeyError) as error:
            raise ValueError(f"the checkpoint is not one of this model: {error}") from error
