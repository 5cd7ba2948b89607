"""rt.elastic.torch on real ranks: same samples and sums on any number of them, and after kills."""

from __future__ import annotations

import hashlib
import math
import os
import re
import signal
from pathlib import Path
from typing import Any, Callable, Optional

import pytest

torch = pytest.importorskip("torch")

import rt.elastic.torch as adl  # noqa: E402
from elastic_ranks import Ranks, await_until, run_ranks  # noqa: E402
from rt.elastic import env  # noqa: E402
from rt.elastic.torch import _job, _plan, _trial  # noqa: E402
from rt.elastic.torch.accumulator import Sum  # noqa: E402
from torch import nn  # noqa: E402

SAMPLES, WIDTH, CLASSES = 203, 12, 4


class Points(torch.utils.data.Dataset[Any]):
    """Random points in classes; a sample knows its index."""

    def __init__(self, count: int = SAMPLES) -> None:
        draw = torch.Generator().manual_seed(5)
        self.inputs = torch.randn(count, WIDTH, generator=draw)
        weights = torch.randn(WIDTH, CLASSES, generator=draw)
        noise = torch.randn(count, CLASSES, generator=draw)
        self.labels = (self.inputs @ weights + noise).argmax(1)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> Any:
        return self.inputs[index], self.labels[index], index


def network(dropout: float = 0.0) -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Linear(WIDTH, 16), nn.ReLU(), nn.Dropout(dropout), nn.Linear(16, CLASSES)
    )


def digest(model: nn.Module) -> str:
    values = [bytes(str(each.tolist()), "ascii") for each in model.state_dict().values()]
    return hashlib.sha256(b"".join(values)).hexdigest()[:16]


class Run:
    """A training, and what it saw."""

    def __init__(
        self,
        batch: int = 16,
        epochs: int = 3,
        dropout: float = 0.0,
        optimizer: Callable[..., Any] = lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
        scheduler: Callable[..., Any] = lambda o: torch.optim.lr_scheduler.StepLR(o, 1, 0.7),
        autoscale: Optional[dict[str, Any]] = None,
        every_step: bool = False,
        stop_at: Optional[tuple[int, int]] = None,
        **more: Any,
    ) -> None:
        adl.init_process_group(checkpoint_interval_s=0.0 if every_step else None)
        self.loader = adl.AdaptiveDataLoader(Points(), batch_size=batch, shuffle=True)
        self.tests = adl.AdaptiveDataLoader(Points(57), batch_size=20)
        if autoscale:
            self.loader.autoscale_batch_size(**autoscale)
        model = network(dropout)
        self.optimizer = optimizer(model.parameters())
        self.scheduler = scheduler(self.optimizer)
        self.model = adl.AdaptiveDataParallel(model, self.optimizer, self.scheduler, **more)
        self.epochs, self.stop_at = epochs, stop_at
        self.seen: list[Any] = []  # Of each micro-batch: epoch, first sample's index in it, loss.
        self.sums: list[Any] = []  # Of each epoch.
        self.batches: list[int] = []
        self.factors: list[float] = []  # Of the learning rate.

    def train(self) -> Run:
        for epoch in adl.remaining_epochs_until(self.epochs):
            stats = adl.Accumulator()
            for number, (inputs, labels, indices) in enumerate(self.loader):
                if (epoch, number) == self.stop_at:
                    os.kill(os.getpid(), signal.SIGKILL)
                loss = nn.functional.cross_entropy(self.model(inputs), labels)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                stats["loss"] += loss.item() * len(labels)
                stats["samples"] += len(labels)
                self.seen.append([epoch, indices.tolist(), loss.item()])
                self.batches.append(self.loader.current_batch_size)
                self.factors.append(self.model.lr_factor)
            with stats.synchronized():
                self.sums.append([epoch, stats["samples"], stats["loss"] / stats["samples"]])
            self.sums[-1].append(self.test())
            self.scheduler.step()
        return self

    def test(self) -> list[Any]:
        stats = adl.Accumulator()
        self.model.eval()
        with torch.no_grad():
            for inputs, labels, _ in self.tests:
                stats["right"] += (self.model(inputs).argmax(1) == labels).sum()
                stats["tested"] += len(labels)
        self.model.train()
        with stats.synchronized():
            return [stats["right"], stats["tested"]]

    @property
    def result(self) -> dict[str, Any]:
        return {
            "weights": digest(self.model.module), "seen": self.seen, "sums": self.sums,
            "batches": self.batches, "factors": self.factors, "progress": self.model.progress,
            "noise": [self.model.gns.sqr, self.model.gns.var],
            "rate": self.optimizer.param_groups[0]["lr"],
        }  # fmt: skip


def trained(count: int, place: Path, **how: Any) -> list[Any]:
    return run_ranks(count, lambda _rank: Run(**how).train().result, place)


def step_order(results: list[Any]) -> list[Any]:
    """(epoch, indices of a step) of all ranks, of runs with one micro-batch per rank and step."""
    steps = []
    for parts in zip(*(result["seen"] for result in results)):
        steps.append([parts[0][0], [index for part in parts for index in part[1]]])
    return steps


# The plan.


def test_a_step_is_cut_into_the_same_leaves_for_any_number_of_ranks() -> None:
    for count in (1, 3, 4, 7, 64):
        for ranks in (1, 2, 3, 4):
            cut = [
                each
                for rank in range(ranks)
                for each in _plan.micro_batches(100, count, 4, rank, ranks)
                if each.weight
            ]
            whole = [each for each in _plan.micro_batches(100, count, 4, 0, 1) if each.weight]
            assert cut == whole
            assert [i for each in cut for i in range(each.start, each.stop)] == [
                *range(100, 100 + count)
            ]
            assert sum(each.weight for each in cut) == pytest.approx(1)


def test_the_nodes_of_all_ranks_are_the_whole_tree() -> None:
    for leaves in (1, 2, 3, 4, 6, 8, 13):
        for ranks in range(1, leaves + 1):
            nodes = [
                node
                for rank in range(ranks)
                for node in _plan.nodes_inside(
                    _plan.Node(0, leaves), _plan.leaves_of(leaves, rank, ranks)
                )
            ]
            assert [i for node in nodes for i in range(*node)] == [*range(leaves)]


# Any number of ranks.


def test_samples_and_losses_are_the_same_on_any_number_of_ranks(tmp_path: Path) -> None:
    alone = trained(1, tmp_path / "1")
    order = step_order(alone)
    for epoch in range(3):
        taken = [index for of, indices in order if of == epoch for index in indices]
        assert sorted(taken) == list(range(SAMPLES))
    assert order[0][1] != order[13][1]  # Another epoch, another order.
    for ranks in (2, 3, 4):
        results = trained(ranks, tmp_path / str(ranks))
        assert len({result["weights"] for result in results}) == 1
        # The last step of an epoch has 11 samples; none is without one on 4 ranks.
        assert step_order(results) == order
        for mine, theirs in zip(results[0]["sums"], alone[0]["sums"]):
            assert mine[:2] == theirs[:2]
            assert mine[2] == pytest.approx(theirs[2], rel=1e-5)
            assert mine[3] == theirs[3]
        assert results[0]["progress"] == pytest.approx(3 * SAMPLES / 16)


def test_a_rank_without_a_sample_fills_in_and_does_not_count(tmp_path: Path) -> None:
    how = {"batch": 67, "epochs": 2}  # 203 = 3 * 67 + 2.
    alone, four = trained(1, tmp_path / "1", **how), trained(4, tmp_path / "4", **how)
    assert len(four[0]["seen"]) == len(alone[0]["seen"]) == 8
    assert four[0]["sums"][0][3] == alone[0]["sums"][0][3]
    last = [result["seen"][-1][2] for result in four]
    assert all(math.isfinite(loss) for loss in last)
    assert four[0]["progress"] == pytest.approx(alone[0]["progress"])

    def weights(rank: int) -> Any:
        run = Run(**how).train()
        return [each.tolist() for each in run.model.module.state_dict().values()]

    ours = run_ranks(4, weights, tmp_path / "w4")[0]
    theirs = run_ranks(1, weights, tmp_path / "w1")[0]
    for mine, other in zip(ours, theirs):
        assert torch.allclose(torch.tensor(mine), torch.tensor(other), rtol=1e-4, atol=1e-6)


def test_deterministic_weights_are_the_same_to_the_last_bit_on_any_number(tmp_path: Path) -> None:
    how: dict[str, Any] = {
        "deterministic": True, "max_replicas": 4, "dropout": 0.2, "epochs": 2,
        "optimizer": lambda p: torch.optim.Adam(p, lr=0.01),
    }  # fmt: skip
    found = [trained(ranks, tmp_path / str(ranks), **how) for ranks in (1, 2, 3, 4)]
    flat = [sorted(each for result in results for each in result["seen"]) for results in found]
    for results, seen in zip(found, flat):
        assert {result["weights"] for result in results} == {found[0][0]["weights"]}
        assert results[0]["sums"] == found[0][0]["sums"]
        assert results[0]["noise"] == found[0][0]["noise"]
        assert seen == flat[0]
    other = trained(1, tmp_path / "other", **{**how, "max_replicas": 3})
    assert other[0]["weights"] != found[0][0]["weights"]


# After a kill.


def killed(ranks: int, place: Path, at: tuple[int, int], **how: Any) -> None:
    """Runs until every rank has killed itself at that micro-batch, saving after each step."""
    place.mkdir()
    started = Ranks(
        ranks,
        lambda _rank: Run(every_step=True, stop_at=at, **how).train().result,
        place, ADAPTDL_CHECKPOINT_PATH=str(place / "saved"),
    )  # fmt: skip
    codes = started.wait()
    assert codes == [-signal.SIGKILL] * ranks, started.logs()


def resumed(ranks: int, place: Path, **how: Any) -> list[Any]:
    saved = {"ADAPTDL_CHECKPOINT_PATH": str(place / "saved")}
    return run_ranks(ranks, lambda _rank: Run(**how).train().result, place, **saved)


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_run_is_the_same_to_the_last_bit_after_a_kill(tmp_path: Path, ranks: int) -> None:
    how = {"dropout": 0.3}
    expected = trained(ranks, tmp_path / "undisturbed", **how)
    for number, at in enumerate([(0, 0), (1, 7), (2, 12)]):
        place = tmp_path / f"killed-{number}"
        killed(ranks, place, at, **how)
        found = resumed(ranks, place, **how)
        for mine, theirs in zip(found, expected):
            assert mine["weights"] == theirs["weights"]
            assert mine["seen"] == theirs["seen"][-len(mine["seen"]) :]
            repeated = len(mine["seen"]) - (39 - at[0] * 13 - at[1])
            assert 0 <= repeated < ranks  # What ranks agree on takes one step.
            assert mine["sums"] == theirs["sums"][at[0] :]
            assert (mine["noise"], mine["rate"]) == (theirs["noise"], theirs["rate"])
            assert mine["progress"] == theirs["progress"]


def test_a_resize_loses_and_doubles_no_sample(tmp_path: Path) -> None:
    how: dict[str, Any] = {"deterministic": True, "max_replicas": 4, "dropout": 0.1, "epochs": 2}
    expected = trained(1, tmp_path / "undisturbed", **how)[0]
    place = tmp_path / "resized"
    killed(2, place, (0, 6), **how)  # 3 steps of 2 micro-batches.
    started = Ranks(
        4, lambda _rank: Run(every_step=True, stop_at=(1, 5), **how).train().result, place,
        ADAPTDL_CHECKPOINT_PATH=str(place / "saved"),
    )  # fmt: skip
    assert started.wait() == [-signal.SIGKILL] * 4, started.logs()
    found = resumed(1, place, **how)[0]
    assert found["weights"] == expected["weights"]
    assert found["sums"] == expected["sums"][1:]
    repeated = len(found["seen"]) - (13 - 5) * 4
    assert repeated in (0, 4)
    assert found["seen"] == expected["seen"][-len(found["seen"]) :]


def test_sigterm_saves_after_the_step_and_ends(tmp_path: Path) -> None:
    expected = trained(2, tmp_path / "undisturbed")
    place = tmp_path / "asked"
    place.mkdir()
    mark = place / "mark"

    def run(rank: int) -> Any:
        training = Run()
        step = training.optimizer.step

        def asked(*given: Any) -> Any:
            if len(training.seen) == 17:  # In the second epoch.
                if rank == 0:
                    mark.touch()
                await_until(lambda: _trial._signalled)
            return step(*given)

        training.optimizer.step = asked
        return training.train().result

    started = Ranks(2, run, place, ADAPTDL_CHECKPOINT_PATH=str(place / "saved"))
    await_until(mark.exists)
    started.signal(signal.SIGTERM)
    assert started.wait() == [143, 143], started.logs()
    found = resumed(2, place)
    assert 39 - len(found[0]["seen"]) in (18, 19)  # What ranks agree on takes one step.
    assert found[0]["weights"] == expected[0]["weights"]


SCHEDULERS = [
    lambda o: torch.optim.lr_scheduler.MultiStepLR(o, [1, 2]),
    lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 5),
    lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda epoch: 0.9**epoch),
    lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.1, total_steps=10),
]


def test_schedulers_are_saved(tmp_path: Path) -> None:
    for number, make in enumerate(SCHEDULERS):
        place = tmp_path / str(number)
        killed(1, place, (1, 2), epochs=2, scheduler=make)
        expected = trained(1, tmp_path / f"whole-{number}", epochs=2, scheduler=make)
        assert resumed(1, place, epochs=2, scheduler=make)[0]["rate"] == expected[0]["rate"]


# Accumulation.


def test_accumulated_gradients_are_those_of_the_whole_batch(tmp_path: Path) -> None:
    def run(_rank: int) -> Any:
        adl.init_process_group()
        loader = adl.AdaptiveDataLoader(Points(60), batch_size=15)
        loader.autoscale_batch_size(60, (5, 15), gradient_accumulation=True)
        model = network()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
        wrapped = adl.AdaptiveDataParallel(model, optimizer)
        loader._state.plan = _job.Plan(60, 3)
        found, norms = [], []
        for inputs, labels, _ in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(wrapped(inputs), labels).backward()
            norms.append(float(nn.utils.clip_grad_norm_(wrapped.parameters(), 1e-3)))
            optimizer.step()
            if _job.current().step.is_last:  # type: ignore[union-attr]
                found = [each.grad.tolist() for each in model.parameters()]  # type: ignore
        data = Points(60)
        model.zero_grad()
        nn.functional.cross_entropy(model(data.inputs), data.labels).backward()
        norm = float(nn.utils.clip_grad_norm_(model.parameters(), 1e-3))
        return [found, [each.grad.tolist() for each in model.parameters()], norms, norm]

    for ranks in (1, 2):
        ours, exact, norms, norm = run_ranks(ranks, run, tmp_path / str(ranks))[0]
        for mine, theirs in zip(ours, exact):
            assert torch.allclose(torch.tensor(mine), torch.tensor(theirs), rtol=1e-4, atol=1e-7)
        # Clipping sees the whole gradient, and nothing before it is whole.
        assert norms[-1] == pytest.approx(norm, rel=1e-4) and norms[:-1] == [0.0] * (len(norms) - 1)


# The sums.


def test_sums_of_numbers_are_exact() -> None:
    numbers = [0.1] * 10 + [1e16, 1.0, -1e16, 3, 2.0**60, -(2.0**60)]
    for order in (numbers, numbers[::-1], sorted(numbers)):
        total = Sum()
        for each in order:
            total.add(each)
        assert float(total.value) == math.fsum(numbers)
    whole = Sum()
    whole.add(2)
    whole.add(torch.tensor(3))
    assert whole.value == 5 and isinstance(whole.value, int)


def test_an_accumulator_is_read_only_when_synchronized(tmp_path: Path) -> None:
    def run(rank: int) -> Any:
        adl.init_process_group()
        stats = adl.Accumulator({"a": 1})
        stats["a"] += rank + 1
        stats["b"] -= 1
        stats += {"c": 2}
        stats.subtract(c=0.5)
        errors = []
        for attempt in (lambda: len(stats), lambda: dict(stats), lambda: stats.update(a="x")):
            try:
                attempt()
            except (RuntimeError, TypeError) as error:
                errors.append(str(error))
        try:
            stats["a"] = 3
        except TypeError as error:
            errors.append(str(error))
        with stats.synchronized():
            first = dict(stats)
            stats["a"] = 100
        stats["a"] += 1
        with stats.synchronized():
            return [first, dict(stats), errors]

    for first, second, errors in run_ranks(2, run, tmp_path):
        assert first == {"a": 4, "b": -2, "c": 3.0}
        assert second == {"a": 102, "b": -2, "c": 3.0}
        assert len(errors) == 4
        assert "inside `with accumulator.synchronized():`" in errors[0]
        assert "adds up numbers, not a str" in errors[2]


# Mistakes.


def test_mistakes_are_explained(tmp_path: Path) -> None:
    def said(attempt: Callable[[], Any]) -> str:
        try:
            attempt()
        except (ValueError, RuntimeError) as error:
            return str(error)
        return "nothing"

    def run(_rank: int) -> Any:
        data, loader = Points(), adl.AdaptiveDataLoader
        model = network()
        norm = nn.Sequential(nn.BatchNorm1d(WIDTH), nn.Linear(WIDTH, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        first = loader(data, batch_size=10)
        wrap = adl.AdaptiveDataParallel
        return [
            said(lambda: loader(data, sampler=[1])),
            said(lambda: loader(data, batch_size=0)),
            said(lambda: first.autoscale_batch_size(5)),
            said(lambda: first.autoscale_batch_size(50, (20, 30))),
            said(lambda: [None for _ in first for _ in first]),
            said(lambda: [adl.Accumulator() for _ in first]),
            said(lambda: wrap(model, optimizer, max_replicas=2)),
            said(lambda: wrap(model, optimizer, deterministic=True)),
            said(lambda: wrap(norm, optimizer, deterministic=True, max_replicas=2)),
            said(lambda: list(adl.remaining_epochs_until(-1))),
            said(lambda: adl.init_process_group(checkpoint_interval_s=-1)),
        ]

    texts = [
        "makes its own order: leave out sampler", "batch_size must be at least 1, not 0",
        "max_batch_size 5 is below 10", r"local_bsz_bounds \(20, 30\) must include batch_size, 10",
        "cannot overlap", "before the loop", "max_replicas is for deterministic=True",
        "needs max_replicas of at least 1", "0 .BatchNorm1d. keeps statistics", "at least 0",
        "checkpoint_interval_s is at least 0",
    ]  # fmt: skip
    for found, text in zip(run_ranks(1, run, tmp_path)[0], texts):
        assert re.search(text, found), (text, found)
    assert env.num_replicas() == 1
