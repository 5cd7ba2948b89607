"""AdaptiveDataLoader: on any number of ranks the samples of each step are the same, and in the same
order, and each sample of an epoch is taken once, also across restarts.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from typing import IO, Any, Optional

import torch
from torch.utils.data import DataLoader, IterableDataset, Sampler

from rt.elastic import checkpoint
from rt.elastic.torch import _job, _plan
from rt.elastic.torch._job import Job, Plan, Step


def seed_of(*numbers: int) -> int:
    """A seed that depends on all of the numbers."""
    found = 0x9E3779B97F4A7C15
    for number in numbers:
        found = ((found ^ (number + 1)) * 0xBF58476D1CE4E5B9) % 2**64
        found ^= found >> 31
    return found % 2**63


def order_of(length: int, shuffle: bool, seed: int, number: int) -> Any:
    """The order of pass `number` over the data set: indices that can be sliced."""
    if not shuffle:
        return range(length)
    generator = torch.Generator().manual_seed(seed_of(seed, number))
    return torch.randperm(length, generator=generator)


class ElasticSampler(Sampler[int]):
    """This rank's samples of an epoch, from an index on; every sample goes to one rank."""

    def __init__(self, dataset: Any, shuffle: bool = True, seed: int = 0) -> None:
        self.dataset = dataset
        self.shuffle = shuffle
        self.epoch = 0
        self.index = 0
        self._seed = seed

    def set_epoch(self, epoch: int, index: int = 0) -> None:
        """The next iteration is over the epoch's order from `index` on."""
        self.epoch, self.index = epoch, index

    def __iter__(self) -> Iterator[int]:
        job, order = (
            _job.current(),
            order_of(len(self.dataset), self.shuffle, self._seed, self.epoch),
        )
        for position in range(self.index + job.rank, len(self.dataset), job.ranks):
            yield int(order[position])

    def __len__(self) -> int:
        job = _job.current()
        left = max(0, len(self.dataset) - self.index - job.rank)
        return -(-left // job.ranks)


class _Batches:
    """The batch sampler of a loader: indices of the micro-batches of this rank, in order."""

    def __init__(self) -> None:
        self.lists: Iterator[list[int]] = iter(())

    def __iter__(self) -> Iterator[list[int]]:
        return self.lists


class _Position(checkpoint.State):
    """The pass over the data, the index in it, and the batch size that was chosen."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.number = 0
        self.index = 0
        self.plan: Optional[Plan] = None
        checkpoint.load_state(self)

    def save(self, fileobj: IO[bytes]) -> None:
        """Writes all of it."""
        saved = {"pass": self.number, "index": self.index, "plan": self.plan}
        fileobj.write(json.dumps(saved).encode())

    def load(self, fileobj: IO[bytes]) -> None:
        """Reads it."""
        saved = json.loads(fileobj.read())
        self.number, self.index = int(saved["pass"]), int(saved["index"])
        self.plan = Plan(*saved["plan"]) if saved["plan"] else None


class AdaptiveDataLoader(DataLoader[Any]):
    """A DataLoader whose `batch_size` is that of all ranks together.

    Each iteration gives this rank's micro-batches. The first loader that is iterated over with
    gradients enabled is the one that is trained on, and the only one whose batch size may adapt.
    Other loops take `batch_size` samples of all ranks at a time, and a rank may have fewer batches
    than another. `seed` decides the order of the samples. Raises ValueError for arguments that a
    loader of one's own order would need (sampler, batch_sampler), and for an IterableDataset.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int = 1,
        shuffle: bool = False,
        *,
        seed: int = 0,
        **more: Any,
    ) -> None:
        for name in ("sampler", "batch_sampler"):
            if more.get(name) is not None:
                raise ValueError(f"AdaptiveDataLoader makes its own order: leave out {name}")
        if isinstance(dataset, IterableDataset):
            raise ValueError("AdaptiveDataLoader needs a data set with a length and indices")
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, not {batch_size}")
        self._drop_last = bool(more.pop("drop_last", False))
        self._shuffle, self._seed = bool(shuffle), seed
        self.initial_batch = batch_size
        self.max_batch_size: Optional[int] = None
        self.local_bounds: Optional[tuple[int, int]] = None
        self.accumulates = False
        self._is_warm = False  # A first step of a pass is like others: the one before was, too.
        self._batches = _Batches()
        self._draws = torch.Generator()  # Not the global one: a restart would disturb it.
        more.setdefault("generator", self._draws)
        super().__init__(dataset, batch_sampler=self._batches, **more)
        epochs = _job.current().epochs
        self._state = _Position(epochs.name_for("dataloader"))
        epochs.own(self._state, self)

    @property
    def batch_size(self) -> int:
        """The initial batch size, of all ranks together."""
        return self.initial_batch

    @batch_size.setter
    def batch_size(self, _value: Optional[int]) -> None:
        pass  # DataLoader sets it to None, because there is a batch sampler.

    @property
    def length(self) -> int:
        """Samples of the data set."""
        return len(self.dataset)

    def autoscale_batch_size(
        self,
        max_batch_size: int,
        local_bsz_bounds: Optional[Sequence[int]] = None,
        gradient_accumulation: bool = False,
    ) -> None:
        """Lets the batch size of all ranks together grow from `batch_size` to `max_batch_size`.

        `local_bsz_bounds`: of one rank's micro-batch. An epoch then ends when as much progress is
        made as with the initial batch size. Raises ValueError for limits that exclude it.
        """
        if max_batch_size < self.initial_batch:
            raise ValueError(f"max_batch_size {max_batch_size} is below {self.initial_batch}")
        if local_bsz_bounds is not None:
            low, high = local_bsz_bounds
            if not 1 <= low <= self.initial_batch <= high:
                raise ValueError(
                    f"local_bsz_bounds ({low}, {high}) must include batch_size, "
                    f"{self.initial_batch}"
                )
            self.local_bounds = (low, high)
        self.max_batch_size = max_batch_size
        self.accumulates = bool(gradient_accumulation)
        job = _job.current()
        job.training = job.training or self

    # What is planned.

    @property
    def plan(self) -> Plan:
        """The batch size and accumulation of a whole step, inside the limits."""
        batch, steps = self._state.plan or Plan(self.initial_batch, 0)
        if self.max_batch_size is None:
            return Plan(self.initial_batch, 0)
        ranks = _job.current().ranks
        low, high = self.local_bounds or (1, self.max_batch_size)
        batch = min(max(batch, low * ranks), max(self.max_batch_size, low * ranks))
        if self._drop_last:  # A pass must have a whole step.
            batch = min(batch, max(self.length, low * ranks))
        if not self.accumulates:
            return Plan(min(batch, high * ranks), 0)
        return Plan(batch, max(steps, -(-batch // (high * ranks)) - 1))

    @property
    def planned_batch(self) -> int:
        """Samples of all ranks in a whole step."""
        return self.plan.batch

    @property
    def planned_local(self) -> int:
        """Samples of a rank's micro-batch in a whole step, at most."""
        return -(-self.planned_batch // self._leaves())

    @property
    def accumulation_steps(self) -> int:
        """Micro-batches of a rank before the last one of a step."""
        return self.plan.accumulation

    @property
    def current_batch_size(self) -> Optional[int]:
        """Samples of all ranks in a whole step; None outside a loop over this loader."""
        return self.planned_batch if _job.current().loader is self else None

    @property
    def current_local_bsz(self) -> Optional[int]:
        """Samples of a micro-batch; None outside a loop over this loader."""
        return self.planned_local if _job.current().loader is self else None

    @property
    def current_index(self) -> Optional[int]:
        """Samples of the pass that were taken; None outside a loop over this loader."""
        return self._state.index if _job.current().loader is self else None

    @property
    def training(self) -> bool:
        """Whether this is the loader that is trained on."""
        return _job.current().training is self

    def _leaves(self) -> int:
        job = _job.current()
        most = job.model.max_replicas if job.model is not None and self.training else None
        return (most or job.ranks) * (self.accumulation_steps + 1)

    def __len__(self) -> int:
        """Micro-batches of this rank in one pass at the planned batch size."""
        job = _job.current()
        each = len(_plan.leaves_of(self._leaves(), job.rank, job.ranks)) or 1
        whole, rest = divmod(self.length, self.planned_batch)
        return (whole + (1 if rest and not self._drop_last else 0)) * each

    def to_tensorboard(self, writer: Any, global_step: int, tag_prefix: str = "") -> None:
        """Writes the batch sizes with a SummaryWriter."""
        prefix = tag_prefix.rstrip("/") + "/" if tag_prefix else ""
        writer.add_scalar(f"{prefix}Total_Batch_Size", self.planned_batch, global_step)
        writer.add_scalar(f"{prefix}Local_Batch_Size", self.planned_local, global_step)
        writer.add_scalar(f"{prefix}Accumulation_Steps", self.accumulation_steps, global_step)

    # The loop.

    def __iter__(self) -> Any:
        job = _job.current()
        if job.loader is not None:
            raise RuntimeError("loops over AdaptiveDataLoaders cannot overlap")
        if not job.epochs.begin_loop():
            return
        if job.training is None and torch.is_grad_enabled():
            job.training = self
        job.loader = self
        try:
            yield from self._train(job) if self.training else self._evaluate(job)
        except GeneratorExit:  # The loop was left by `break`, which ends it.
            self._leave(job.step)
            job.epochs.end_loop()
            raise
        finally:
            job.loader = job.step = None
            if self._state.index and self._is_fixed:
                self._next_pass()  # Something failed.
        job.epochs.end_loop()

    @property
    def _is_fixed(self) -> bool:
        """Whether a loop over it is one pass over the data."""
        return self.max_batch_size is None or not self.training

    def _leave(self, step: Optional[Step]) -> None:
        if step is not None and step.done:
            self._state.index = step.start + step.count
        if self._is_fixed or self._state.index >= self.length:
            self._next_pass()

    def _next_pass(self) -> None:
        self._state.number += 1
        self._state.index = 0

    def _source(self, lists: Iterator[list[int]]) -> Iterator[Any]:
        self._batches.lists = lists
        self._draws.manual_seed(seed_of(self._seed, self._state.number, self._state.index))
        return super().__iter__()

    def _evaluate(self, job: Job) -> Iterator[Any]:
        order = order_of(self.length, self._shuffle, self._seed, self._state.number)
        mine = [
            micro
            for start, count in _plan.steps(self.length, 0, self.initial_batch, self._drop_last)
            for micro in _plan.micro_batches(start, count, job.ranks, job.rank, job.ranks)
            if micro.weight > 0
        ]
        yield from self._source(_indices(order, micro) for micro in mine)
        self._next_pass()

    def _train(self, job: Job) -> Iterator[Any]:
        if self.max_batch_size is not None:
            job.choose()
            self._adopt(job)
        before: Optional[float] = None  # The progress at the beginning of a whole pass.
        while not self._is_over(job):
            if not self._state.index:
                before = job.metrics.done
            yield from self._train_pass(job)
            ended = not self._state.index
            if self.max_batch_size is None or (ended and job.epochs.current is None):
                return
            if ended and before == job.metrics.done:
                self._check_stuck(job)

    def _check_stuck(self, job: Job) -> None:
        """After a pass without a step. Raises RuntimeError if none is to be expected."""
        if self.planned_batch > self.length and self._drop_last:
            raise RuntimeError(
                f"drop_last leaves out all {self.length} samples: {job.ranks} ranks take at least "
                f"{self.planned_batch} in a step. Use fewer ranks or a smaller local_bsz_bounds"
            )
        if job.model is None or job.model.is_stuck:
            raise RuntimeError(
                "a whole pass over the data was made without a step of AdaptiveDataParallel's "
                "optimizer, so this loop would never end: after autoscale_batch_size() it ends by "
                "progress. Call optimizer.step() in it, or evaluate with another loader"
            )

    def _is_over(self, job: Job) -> bool:
        epoch = job.epochs.current
        if self.max_batch_size is None or epoch is None:
            return False
        return job.metrics.done >= self.length * (epoch + 1) / self.initial_batch - 1e-9

    def _adopt(self, job: Job) -> bool:
        """Takes the decision of rank 0; whether the batch size has changed."""
        decision, job.decision = job.decision, None
        if decision is None or self.max_batch_size is None:
            return False
        before = self.plan
        self._state.plan = decision
        return self.plan != before

    def _train_pass(self, job: Job) -> Iterator[Any]:
        """Steps until the pass or the loop is over, or the batch size changes."""
        state, batch, leaves = self._state, self.planned_batch, self._leaves()
        order = order_of(self.length, self._shuffle, self._seed, state.number)

        def steps() -> Iterator[Step]:
            for start, count in _plan.steps(self.length, first, batch, self._drop_last):
                yield Step(start, count, batch, leaves, job)

        first = state.index
        lists = (_indices(order, micro) for step in steps() for micro in step.mine)
        source = self._source(lists)
        for number, step in enumerate(steps()):
            job.step = step
            times = []
            for index in range(len(step.mine)):
                step.index = index
                began = time.perf_counter()
                job.random.restore()
                if job.model is not None and job.model.max_replicas is not None:
                    torch.manual_seed(seed_of(self._seed, state.number, step.micro.start))
                yield next(source)
                if job.model is not None:
                    job.model.end_micro_batch()
                times.append(time.perf_counter() - began)
            state.index = step.start + step.count
            synced = job.model.sync_s if job.model is not None else 0.0
            job.note_times(step, times[:-1], times[-1], synced, number > 0 or self._is_warm)
            self._is_warm = step.count >= self.length  # A pass may have no second step.
            job.boundary()
            if self._adopt(job) or self._is_over(job):
                if state.index >= self.length:
                    self._next_pass()
                return
        self._next_pass()


def _indices(order: Any, micro: _plan.Micro) -> list[int]:
    part = order[micro.start : micro.stop]
    return part.tolist() if isinstance(part, torch.Tensor) else list(part)


def current_dataloader() -> Any:
    """The AdaptiveDataLoader that is iterated over, or None."""
    return _job.current().loader


def current_dataset() -> Any:
    """The data set of the loader that is iterated over, or None."""
    loader = _job.current().loader
    return loader.dataset if loader is not None else None
