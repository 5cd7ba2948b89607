"""The run of this process: what the loader, the model and the epochs know of each other.

There is one, as there is one process group. Ranks agree by numbers that they add up once per step
(`_exchange.py`); what rank 0 decides is one of them.
"""

from __future__ import annotations

import json
import time
from typing import IO, Any, NamedTuple, Optional

import torch
import torch.distributed as dist

from rt.elastic import checkpoint, env
from rt.elastic.goodput import Choice, GoodputFunction, GradParams, gain_of
from rt.elastic.torch import _plan, _trial
from rt.elastic.torch._exchange import Exchange
from rt.elastic.torch._parts import Loader, Model
from rt.elastic.torch._profile import Key, Profile
from rt.elastic.torch._random import RandomStates
from rt.elastic.torch.epoch import Epochs

CHECKPOINT_INTERVAL_S = 60.0
EPOCH_INTERVAL_S = 5.0  # An epoch's end saves if the last checkpoint is older.
SAVE_SHARE = 0.05  # At most this share of the time is spent on checkpoints that nobody asked for.
DECISION_INTERVAL_S = 30.0  # Between two choices of the batch size; shorter in the beginning.
FIRST_DECISION_S = 0.5
BETTER = 1.05  # A new batch size must promise this much more goodput.
REQUEST_PATIENCE_S = 2.0  # How long ranks wait until all were asked for a checkpoint.
STEPS_MIN = 4  # Measured steps before the first choice.
CONTROL = 4  # Numbers that are exchanged besides norms.


class Step:
    """The step of the optimiser in hand, as this rank sees it."""

    def __init__(self, start: int, count: int, batch: int, leaves: int, job: Job) -> None:
        self.start = start  # In the order of the pass.
        self.count = count  # Samples of all ranks.
        self.batch = batch  # The same, of a whole step; the last one of an epoch may have fewer.
        self.leaves = leaves
        self.mine = _plan.micro_batches(start, count, leaves, job.rank, job.ranks)
        self.index = 0  # Of the micro-batch in hand.
        self.done = False  # The optimiser has made its step.

    @property
    def micro(self) -> _plan.Micro:
        """The micro-batch in hand."""
        return self.mine[self.index]

    @property
    def is_last(self) -> bool:
        """Whether it is this rank's last one of the step."""
        return self.index == len(self.mine) - 1

    @property
    def alone(self) -> bool:
        """Whether the whole step is one micro-batch."""
        return self.leaves == 1


class Progress(checkpoint.State):
    """Steps of the initial batch that the run is worth, and what its steps cost."""

    def __init__(self) -> None:
        super().__init__("adaptdl-metrics")
        self.done = 0.0
        self.profile = Profile()
        checkpoint.load_state(self)

    def save(self, fileobj: IO[bytes]) -> None:
        """Writes both."""
        saved = {"progress": self.done, "profile": self.profile.state()}
        fileobj.write(json.dumps(saved).encode())

    def load(self, fileobj: IO[bytes]) -> None:
        """Reads both."""
        saved = json.loads(fileobj.read())
        self.done = float(saved["progress"])
        self.profile.load(saved["profile"])


class Plan(NamedTuple):
    """What rank 0 has chosen: the global batch, and micro-batches of a rank before the last one."""

    batch: int
    accumulation: int


class Job:
    """One run."""

    def __init__(self) -> None:
        self.checkpoint_interval_s = CHECKPOINT_INTERVAL_S
        self.random = RandomStates()
        self.metrics = Progress()
        self.epochs = Epochs(self._at_epoch_end)
        self.exchange = Exchange()
        self.model: Optional[Model] = None
        self.training: Optional[Loader] = None  # The loader that is trained on.
        self.loader: Optional[Loader] = None  # The loader that is iterated over.
        self.step: Optional[Step] = None
        self.decision: Optional[Plan] = None
        self.row: dict[str, Any] = {}  # What the user reports with the epoch.
        self._asked = 0.0  # How many ranks were asked for a checkpoint, as of the last exchange.
        self._asked_since: Optional[float] = None
        self._save_due = False
        self._saved_at = time.monotonic()
        self._save_s = 0.0
        self._decide_at = time.monotonic() + FIRST_DECISION_S
        self._decide_after_s = FIRST_DECISION_S
        self._samples = [0.0, 0.0]  # Samples and seconds of steps since the last row.
        self._throughput = 0.0

    @property
    def ranks(self) -> int:
        """The number of ranks."""
        return dist.get_world_size() if dist.is_initialized() else env.num_replicas()

    @property
    def rank(self) -> int:
        """This rank."""
        return dist.get_rank() if dist.is_initialized() else env.replica_rank()

    @property
    def grad(self) -> GradParams:
        """The noise as far as it is known: none before it was measured."""
        model = self.model
        known = model is not None and model.gns.measured > 0
        return model.gns.params if model is not None and known else GradParams(1.0, 0.0)

    # The end of a step.

    def control(self) -> list[float]:
        """What this rank has to say: asked for a checkpoint, and from rank 0 whether to save now,
        and a new batch size and accumulation."""
        found = [1.0 if _trial.can_save() and _trial.requested() else 0.0, 0.0, 0.0, 0.0]
        if self.rank > 0:
            return found
        now = time.monotonic()
        if _trial.can_save() and self._wants_save(now, self.checkpoint_interval_s):
            found[1] = 1.0
        if self._asked_since is not None and now - self._asked_since > REQUEST_PATIENCE_S:
            found[1] = 1.0
        if now >= self._decide_at:
            chosen = self._decide(now)
            if chosen is not None:
                found[2:] = [float(chosen.batch), float(chosen.accumulation)]
        return found

    def _wants_save(self, now: float, interval_s: float) -> bool:
        return not interval_s or now - self._saved_at >= max(interval_s, self._save_s / SAVE_SHARE)

    def take(self, sums: list[float]) -> None:
        """The sums of what all ranks said."""
        self._asked = sums[0]
        if not self._asked:
            self._asked_since = None
        elif self._asked_since is None:
            self._asked_since = time.monotonic()
        self._save_due = self._save_due or sums[1] > 0 or self._asked >= self.ranks
        if sums[2] > 0:
            self.decision = Plan(round(sums[2]), round(sums[3]))

    def settle(self) -> None:
        """Takes what the last exchange has brought."""
        sums = self.exchange.finish()
        if sums is None:
            return
        if self.ranks > 1:
            self.take(sums[:CONTROL])
        if self.model is not None and len(sums) > CONTROL:
            self.model.take_norms(sums[CONTROL:])

    def boundary(self) -> None:
        """Between two steps: saves if it is due. With the loader alone, ranks talk here."""
        if self.ranks == 1:
            self.take(self.control())
        elif self.step is not None and not self.step.done:
            self.settle()
            self.exchange.start(self.control(), None)
        if self._save_due:
            self.save(self.values(), True)
        self._send_profile()

    def agree(self, said: list[float]) -> None:
        """Exchanges at once, outside of steps; every rank calls it."""
        if self.ranks == 1:
            self.take(said)
            return
        self.settle()
        self.exchange.start(said, None)
        self.settle()

    def choose(self) -> None:
        """Chooses a batch size at once, at the beginning of a loop; every rank calls it."""
        self._decide_at = 0.0
        self.agree(self.control())

    # What is saved and reported.

    def save(self, row: dict[str, Any], with_checkpoint: bool, is_last: bool = False) -> None:
        """Reports a row, with a checkpoint or without; every rank calls it at the same step."""
        self.settle()
        began = time.monotonic()
        asked, self._asked, self._asked_since = self._asked > 0, 0.0, None
        self._save_due = False
        _trial.save(row, with_checkpoint, asked, is_last)
        if with_checkpoint:
            self._saved_at = time.monotonic()
            self._save_s = self._saved_at - began

    def _at_epoch_end(self, is_last: bool) -> None:
        self.settle()
        said = self.control()
        if self.rank == 0 and _trial.can_save():
            own = min(self.checkpoint_interval_s, EPOCH_INTERVAL_S)
            if is_last or self._wants_save(time.monotonic(), own):
                said[1] = 1.0
        self.agree(said)
        row = {**self.values(), "epoch": self.epochs.finished, **self.row}
        self.row = {}
        if _trial.session() is not None or self._save_due:
            self.save(row, self._save_due, is_last)

    def values(self) -> dict[str, Any]:
        """The numbers that are reported and shown in TensorBoard."""
        loader, model = self.training, self.model
        if loader is None:
            return {}
        batch, initial = loader.planned_batch, loader.initial_batch
        if self._samples[1] > 0:
            self._throughput = self._samples[0] / self._samples[1]
            self._samples = [0.0, 0.0]
        throughput, grad = self._throughput, self.grad
        efficiency = gain_of(grad, batch / initial) * initial / batch
        return {
            "global_batch_size": batch,
            "local_batch_size": loader.planned_local,
            "accumulation_steps": loader.accumulation_steps,
            "gain": gain_of(grad, batch / initial),
            "noise_scale": model.gns.noise_scale(initial) if model is not None else None,
            "lr_factor": model.lr_factor if model is not None else 1.0,
            "efficiency": efficiency,
            "throughput": throughput,
            "goodput": throughput * efficiency,
            "progress": self.metrics.done,
            "ranks": self.ranks,
        }

    def _send_profile(self) -> None:
        loader, now = self.training, time.monotonic()
        if self.rank > 0 or loader is None or not _trial.profile_due(now):
            return
        if self.metrics.profile.count < STEPS_MIN or not _trial.takes_profile():
            return
        points = self.metrics.profile.fresh()
        if not points:
            return
        bounds, grad = loader.local_bounds, self.grad
        total = self.epochs.total
        _trial.send_profile(
            {
                "max_batch": loader.max_batch_size or loader.initial_batch,
                "local_bounds": list(bounds) if bounds else None,
                "initial_batch": loader.initial_batch,
                "accumulation": loader.accumulates,
                "progress": self.metrics.done,
                "total": total * loader.length / loader.initial_batch if total else None,
                "sqr": grad.sqr,
                "var": grad.var,
                "noise_weight": self.model.gns.weight if self.model is not None else 0,
                "points": points,
            },
            now,
        )
        self.metrics.profile.forget_fresh()

    # The batch size.

    def note_times(
        self, step: Step, early: list[float], last_s: float, sync_s: float, is_warm: bool
    ) -> None:
        """The seconds of one step's micro-batches. Those of a first step are not typical."""
        self._samples[0] += step.count
        self._samples[1] += sum(early) + last_s
        if is_warm and step.count == step.batch:
            self.metrics.profile.add(self._key(step), early, last_s, sync_s)

    def _key(self, step: Step) -> Key:
        kind = torch.cuda.get_device_name() if torch.cuda.is_available() else ""
        local = -(-step.batch // step.leaves)
        return Key(env.num_nodes(), self.ranks, local, len(step.mine) - 1, kind)

    def _decide(self, now: float) -> Optional[Plan]:
        """Another batch size and accumulation, if they promise enough; of rank 0."""
        self._decide_at = now + self._decide_after_s
        self._decide_after_s = min(2 * self._decide_after_s, DECISION_INTERVAL_S)
        loader = self.training
        if loader is None or loader.max_batch_size is None:
            return None
        profile = self.metrics.profile
        if profile.count < STEPS_MIN or self.model is None or not self.model.gns.measured:
            return None
        perf = profile.fit()
        assert perf is not None
        goodput = GoodputFunction(perf, self.grad, loader.initial_batch)
        best = goodput.optimize(
            env.num_nodes(), self.ranks, loader.max_batch_size, loader.local_bounds,
            loader.accumulates,
        )  # fmt: skip
        return self._worth(goodput, best, loader)

    def _worth(self, goodput: GoodputFunction, best: Choice, loader: Loader) -> Optional[Plan]:
        batch, steps = loader.planned_batch, loader.accumulation_steps
        if (best.batch, best.accumulation) == (batch, steps):
            return None
        local = batch / (self.ranks * (steps + 1))
        now = goodput(env.num_nodes(), self.ranks, local, steps)
        return Plan(best.batch, best.accumulation) if best.goodput > BETTER * now else None


_current: Optional[Job] = None


def current() -> Job:
    """The run of this process."""
    global _current
    if _current is None:
        _current = Job()
    return _current


def reset() -> None:
    """Forgets the run and its states (for tests)."""
    global _current
    _current = None
    checkpoint.forget()
