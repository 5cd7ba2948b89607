"""rt.elastic.torch: the gradient noise scale against exact computations, learning rates, choices of
the batch size, mixed precision, and the trial socket."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import rt.elastic.torch as adl  # noqa: E402
from elastic_ranks import run_ranks  # noqa: E402
from fake_worker import FakeWorker  # noqa: E402
from rt import _session  # noqa: E402
from rt._session import Session  # noqa: E402
from rt.elastic.goodput import GradParams, gain_of  # noqa: E402
from rt.elastic.torch import _job, _trial  # noqa: E402
from rt.elastic.torch._profile import Key, Profile  # noqa: E402
from test_elastic_torch import Points, Run, network, trained  # noqa: E402
from torch import nn  # noqa: E402

COUNT, WIDTH = 1024, 8


class Line(torch.utils.data.Dataset[Any]):
    """A regression with noise: y = x w + noise, drawn with a seed."""

    def __init__(self, seed: int) -> None:
        draw = torch.Generator().manual_seed(seed)
        self.inputs = torch.randn(COUNT, WIDTH, generator=draw)
        weights = torch.randn(WIDTH, generator=draw)
        self.targets = self.inputs @ weights + torch.randn(COUNT, generator=draw)

    def __len__(self) -> int:
        return COUNT

    def __getitems__(self, indices: list[int]) -> Any:
        return self.inputs[indices], self.targets[indices]

    def exact(self, weights: Any, batch: int) -> GradParams:
        """|G|^2, and the variance of the gradient of a batch, from the gradient of each sample."""
        each = (2 * (self.inputs @ weights - self.targets))[:, None] * self.inputs
        return GradParams(
            float(each.mean(0).square().sum()), float(each.var(0, unbiased=True).sum()) / batch
        )


class Linear(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((WIDTH,), 0.3))

    def forward(self, inputs: Any) -> Any:
        return inputs @ self.weight


def estimated(seed: int, rate: float, epochs: int, **more: Any) -> list[Any]:
    """(estimates, exact running means) of |G|^2 and of the variance, with batches of 64 in 4."""
    _job.reset()
    data = Line(seed)
    loader = adl.AdaptiveDataLoader(
        data, batch_size=64, shuffle=True, seed=seed, collate_fn=lambda batch: batch
    )
    model = Linear()
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    adl.init_process_group("gloo")
    wrapped = adl.AdaptiveDataParallel(model, optimizer, **more)
    sums, weight = [0.0, 0.0], 0.0
    for _ in adl.remaining_epochs_until(epochs):
        for inputs, targets in loader:
            step = _job.current().step
            assert step is not None
            if step.index == 0:
                exact = data.exact(model.weight.detach(), 64)
                sums = [0.999 * a + 0.001 * b for a, b in zip(sums, exact)]
                weight = 0.999 * weight + 0.001
            optimizer.zero_grad()
            (wrapped(inputs) - targets).square().mean().backward()
            optimizer.step()
    return [[wrapped.gns.sqr, wrapped.gns.var], [each / weight for each in sums]]


def test_the_noise_at_fixed_weights_is_that_of_single_samples(tmp_path: Path) -> None:
    def run(_rank: int) -> Any:
        return [estimated(seed, 0.0, 2, deterministic=True, max_replicas=4) for seed in range(20)]

    ratios = [[], [], []]
    for found, exact in run_ranks(1, run, tmp_path)[0]:
        ratios[0].append(found[0] / exact[0])
        ratios[1].append(found[1] / exact[1])
        ratios[2].append(gain_of(GradParams(*found), 4) / gain_of(GradParams(*exact), 4))
    sqr, var, gain = (sum(each) / len(each) for each in ratios)
    print(f"squared norm {sqr:.3f}, variance {var:.3f}, gain {gain:.3f} of the exact value")
    assert abs(sqr - 1) < 0.10 and abs(var - 1) < 0.05 and abs(gain - 1) < 0.05


def test_the_noise_of_ranks_is_that_of_micro_batches(tmp_path: Path) -> None:
    more = {"deterministic": True, "max_replicas": 4}
    alone = run_ranks(1, lambda _rank: estimated(3, 0.01, 2, **more), tmp_path / "1")[0][0]
    ranks = run_ranks(4, lambda _rank: estimated(3, 0.01, 2), tmp_path / "4")
    assert [each[0] for each in ranks] == [ranks[0][0]] * 4
    assert ranks[0][0] == pytest.approx(alone, rel=1e-4)


@pytest.mark.parametrize("more", [{"deterministic": True, "max_replicas": 4}, {}])
def test_the_noise_while_training_is_near_the_running_mean(
    tmp_path: Path, more: dict[str, Any]
) -> None:
    """With 4 micro-batches, and with a single one, which is compared with the step before."""

    def run(_rank: int) -> Any:
        return [estimated(seed, 0.002, 6, **more) for seed in range(4)]

    results = run_ranks(1, run, tmp_path)[0]
    for index in (0, 1):
        ratios = [found[index] / exact[index] for found, exact in results]
        assert abs(sum(ratios) / len(ratios) - 1) < 0.2, ratios


def test_adams_gradients_are_preconditioned(tmp_path: Path) -> None:
    def run(_rank: int) -> Any:
        adl.init_process_group("gloo")
        model = network()
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, betas=(0.9, 0.99), eps=1e-3)
        wrapped = adl.AdaptiveDataParallel(model, optimizer)
        data, gns = Points(), wrapped.gns
        for _ in range(8):
            optimizer.zero_grad()
            nn.functional.cross_entropy(wrapped(data.inputs), data.labels).backward()
            optimizer.step()
        gns.begin(False)
        given: list[Any] = list(model.parameters())
        square = float(gns.squares(given, [each.grad for each in given]))
        expected = 0.0
        for each in given:
            second = optimizer.state[each]["exp_avg_sq"] / (1 - 0.99**8)
            expected += float((each.grad / (second.sqrt() + 1e-3)).square().sum())
        plain = sum(float(each.grad.square().sum()) for each in given)
        kind = type(wrapped.scaling_rule).__name__
        return [square, expected, plain, kind]

    square, expected, plain, kind = run_ranks(1, run, tmp_path)[0]
    assert square == pytest.approx(expected, rel=1e-4)
    assert abs(square / plain - 1) > 0.5 and kind == "AdamScale"


def test_scaling_rules_have_their_closed_forms(tmp_path: Path) -> None:
    def run(_rank: int) -> Any:
        found: dict[str, Any] = {}
        rules = {
            "ada": adl.AdaScale(), "adam": adl.AdamScale(), "linear": adl.LinearScale(),
            "sqrt": adl.SqrtScale(), "legw": adl.LEGWScale(2, 320),
        }  # fmt: skip
        for name, rule in rules.items():
            _job.reset()
            loader = adl.AdaptiveDataLoader(Points(), batch_size=16)
            loader.autoscale_batch_size(64)
            model = network()
            groups = [
                {"params": model[0].parameters()},
                {"params": model[3].parameters(), "lr": 2.0},
            ]
            optimizer = torch.optim.SGD(groups, lr=1.0)
            adl.init_process_group("gloo")
            wrapped = adl.AdaptiveDataParallel(model, optimizer, scaling_rule=rule)
            assert wrapped.gns.gain(4) == 1  # Nothing is measured yet.
            wrapped.gns._sqr._sums, wrapped.gns._sqr._weight = [2.0, 1.0], 1.0
            wrapped.gns._var._sums, wrapped.gns._var._weight = [6.0, 0.0], 1.0
            wrapped.gns.measured = 1
            _job.current().metrics.done = 40.0
            seen: list[Any] = []
            wrapped._step_original = lambda o=optimizer, s=seen: s.append(
                [group["lr"] for group in o.param_groups]
            )
            wrapped._scaled_step(4.0, (), {})
            found[name] = [*seen[0], *(group["lr"] for group in optimizer.param_groups)]
        return found

    found = run_ranks(1, run, tmp_path)[0]
    gain = 8 / (6 / 4 + 2)
    assert found["ada"] == pytest.approx([gain, 2.0, 1.0, 2.0])
    assert found["adam"] == pytest.approx([math.sqrt(gain), 2.0, 1.0, 2.0])
    assert found["linear"] == [4, 8, 1, 2] and found["sqrt"] == [2, 4, 1, 2]
    # The warm-up is 2 epochs of 20 steps of the initial batch, times the scale; 40 are done.
    assert found["legw"] == pytest.approx([2 * 40 / 160, 4 * 40 / 160, 1, 2])


def test_batch_size_and_learning_rate_move_and_epochs_are_statistical(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of micro-batches that take 10 ms and 0.1 ms for each sample, and 2 ms between ranks."""
    add = Profile.add

    def injected(self: Profile, key: Key, early: list[float], _step: float, _sync: float) -> None:
        each, sync = 0.01 + 0.0001 * key.local, 0.002 if key.ranks > 1 else 0.0
        add(self, key, [each] * len(early), each + sync, sync)

    monkeypatch.setattr(Profile, "add", injected)
    monkeypatch.setattr(_job, "FIRST_DECISION_S", 0.0)  # And so at each step.
    for ranks, high in ((1, 64), (2, 16)):
        scale = {"max_batch_size": 64, "local_bsz_bounds": (4, high)}
        found = trained(ranks, tmp_path / str(ranks), epochs=6, autoscale=scale)[0]
        assert found["batches"][0] == 16 and max(found["batches"]) > 16
        for batch, factor in zip(found["batches"], found["factors"]):
            assert factor == 1 if batch == 16 else 1 < factor <= batch / 16
        assert found["progress"] == pytest.approx(6 * 203 / 16, abs=4)
        taken = sorted(index for _, indices, _ in found["seen"] for index in indices)
        if ranks == 1:  # Passes go on through the epochs: no sample comes twice as often.
            counts = [taken.count(index) for index in range(203)]
            assert max(counts) - min(counts) <= 1


def test_a_larger_batch_needs_fewer_steps_for_the_same_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_job, "BETTER", 1e9)  # The batch size stays as it is set here.

    def run(_rank: int, batch: int) -> Any:
        training = Run(batch=8, epochs=8, autoscale={"max_batch_size": 64})
        training.loader._state.plan = _job.Plan(batch, 0)
        training.train()
        data = Points()
        with torch.no_grad():
            loss = nn.functional.cross_entropy(training.model(data.inputs), data.labels)
        return [len(training.seen), float(loss), training.model.gain]

    small = run_ranks(1, lambda rank: run(rank, 8), tmp_path / "8")[0]
    large = run_ranks(1, lambda rank: run(rank, 32), tmp_path / "32")[0]
    assert small[0] >= 203 and large[0] < 0.75 * small[0] and large[2] > 1.3
    assert large[1] == pytest.approx(small[1], rel=0.2)


def test_mixed_precision_skips_a_step_that_overflowed_on_every_rank(tmp_path: Path) -> None:
    def run(rank: int) -> Any:
        adl.init_process_group("gloo")
        loader = adl.AdaptiveDataLoader(Points(112), batch_size=16)
        model = network()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=256.0, growth_interval=1000)
        wrapped = adl.AdaptiveDataParallel(model, optimizer, mp_scaler=scaler)
        weights, losses = [], []
        for number, (inputs, labels, _) in enumerate(loader):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = nn.functional.cross_entropy(wrapped(inputs), labels)
            if number == 1 and rank == 0:
                loss = loss * math.inf
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            losses.append(float(loss))
            weights.append(float(model[0].weight.sum()))
        return [weights, scaler.get_scale(), wrapped.gns.sqr, wrapped.gns.measured]

    plain = run_ranks(1, lambda _rank: _plain_norm(), tmp_path / "plain")[0]
    for ranks in (1, 2):
        results = run_ranks(ranks, run, tmp_path / str(ranks))
        assert [each[0] for each in results] == [results[0][0]] * ranks
        weights, scale, sqr, measured = results[0]
        assert weights[1] == weights[0] and weights[2] != weights[1] and weights[3] != weights[2]
        assert scale == 128 and measured >= 1
        assert plain / 4 < sqr < 4 * plain  # Without the scaler's factor, and without the overflow.


def _plain_norm() -> float:
    model, data = network(), Points(64)
    nn.functional.cross_entropy(model(data.inputs), data.labels).backward()
    return sum(float(each.grad.square().sum()) for each in model.parameters())


def test_a_scalers_factor_does_not_change_the_norms(tmp_path: Path) -> None:
    def run(_rank: int, factor: float) -> Any:
        adl.init_process_group("gloo")
        loader = adl.AdaptiveDataLoader(Points(64), batch_size=16)
        loader.autoscale_batch_size(64, gradient_accumulation=True)
        loader._state.plan = _job.Plan(32, 1)
        model = network()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=factor) if factor else None
        wrapped = adl.AdaptiveDataParallel(model, optimizer, mp_scaler=scaler)
        for inputs, labels, _ in loader:
            loss = nn.functional.cross_entropy(wrapped(inputs), labels)
            optimizer.zero_grad()
            (scaler.scale(loss) if scaler else loss).backward()
            scaler.step(optimizer) if scaler else optimizer.step()
            if scaler:
                scaler.update()
        return [wrapped.gns.sqr, wrapped.gns.var, float(model[0].weight.sum())]

    for ranks in (1, 2):
        plain = run_ranks(ranks, lambda rank: run(rank, 0), tmp_path / f"plain{ranks}")[0]
        scaled = run_ranks(ranks, lambda rank: run(rank, 1024.0), tmp_path / f"scaled{ranks}")[0]
        assert scaled == pytest.approx(plain, rel=1e-4)


class Writer:
    def __init__(self) -> None:
        self.scalars: dict[str, float] = {}

    def add_scalar(self, name: str, value: float, step: int) -> None:
        self.scalars[name] = float(value)


def test_tensorboard_gets_what_is_known(tmp_path: Path) -> None:
    def run(_rank: int) -> Any:
        training, writer = Run(epochs=1).train(), Writer()
        training.loader.to_tensorboard(writer, 1, "train")
        training.model.to_tensorboard(writer, 1, "train/")
        return writer.scalars

    found = run_ranks(1, run, tmp_path)[0]
    assert set(found) == {f"train/{name}" for name in (
        "Total_Batch_Size", "Local_Batch_Size", "Accumulation_Steps", "Gradient_Norm_Sqr",
        "Gradient_Variance", "Gradient_Noise_Scale", "Gain", "Learning_Rate_Factor", "Progress",
        "Efficiency", "Throughput", "Goodput",
    )}  # fmt: skip
    assert found["train/Total_Batch_Size"] == 16 and found["train/Throughput"] > 0


# In a trial.


def in_trial(tmp_path: Path, worker: FakeWorker, run: Any, **env: str) -> Any:
    def inside(rank: int) -> Any:
        os.environ.update(worker.env(RT_TRIAL_DIR=str(tmp_path), **env))
        _session.current = Session(worker.path, worker.token)
        return run(rank)

    return run_ranks(1, inside, tmp_path / "ranks")[0]


def test_a_trial_reports_epochs_and_resumes_from_its_checkpoint(tmp_path: Path) -> None:
    worker = FakeWorker(str(tmp_path))
    in_trial(tmp_path, worker, lambda _rank: Run(epochs=2).train().result)
    rows = [each["metrics"] for each in worker.reports]
    assert [row["epoch"] for row in rows] == [1, 2]
    for name in ("global_batch_size", "local_batch_size", "accumulation_steps", "gain", "goodput",
                 "noise_scale", "efficiency", "throughput", "lr_factor", "progress"):  # fmt: skip
        assert isinstance(rows[0][name], (int, float)), name
    assert rows[1]["throughput"] > 0
    assert "checkpoint" in worker.reports[-1]  # The end of the last epoch saves.
    assert "elastic.json" in worker.checkpoints[-1]
    assert "profile" not in json.dumps(worker.calls)


def test_what_the_script_reports_is_in_the_row_of_the_epoch(tmp_path: Path) -> None:
    worker = FakeWorker(str(tmp_path))

    def run(_rank: int) -> Any:
        Run(epochs=1)
        for epoch in adl.remaining_epochs_until(2):
            adl.report({"accuracy": 0.5 + epoch}, more=epoch)

    in_trial(tmp_path, worker, run)
    rows = [each["metrics"] for each in worker.reports]
    assert [(row["accuracy"], row["more"]) for row in rows] == [(0.5, 0), (1.5, 1)]


@pytest.mark.parametrize("takes", [["profile"], []])
def test_the_profile_is_sent_only_to_a_worker_that_takes_it(
    tmp_path: Path, takes: list[str]
) -> None:
    worker = FakeWorker(str(tmp_path), takes=takes)
    scale = {"max_batch_size": 64, "local_bsz_bounds": (4, 32)}
    in_trial(tmp_path, worker, lambda _rank: Run(epochs=3, autoscale=scale).train().result)
    if not takes:
        assert not worker.profiles
        return
    (line,) = worker.profiles  # At most one in 30 s.
    assert (line["type"], line["seq"]) == ("profile", 1)
    told = line["elastic"]
    assert (told["max_batch"], told["initial_batch"], told["local_bounds"]) == (64, 16, [4, 32])
    assert told["accumulation"] is False and told["progress"] > 0
    assert told["total"] == pytest.approx(3 * 203 / 16)
    assert told["sqr"] >= 0 and told["var"] >= 0 and told["noise_weight"] >= 1
    point = told["points"][0]
    assert {key: point[key] for key in ("nodes", "ranks", "local", "accum", "gpu_type")} == {
        "nodes": 1, "ranks": 1, "local": 16, "accum": 0, "gpu_type": "",
    }  # fmt: skip
    assert point["count"] >= 4 and point["step"][0] > 0 and len(point["sync"]) == 2


def test_a_profile_line_has_at_most_32_points_and_the_others_follow() -> None:
    profile = Profile()
    for local in range(40):
        for _ in range(3 if local >= 8 else 1):
            profile.add(Key(1, 1, 1 + local, 0, ""), [], 0.1, 0.0)
    points = profile.fresh()
    assert [point["local"] for point in points] == list(range(9, 41))  # Most steps.
    profile.forget_fresh()
    assert [point["local"] for point in profile.fresh()] == list(range(1, 9))
    profile.forget_fresh()
    assert profile.fresh() == []


def test_points_can_be_merged_and_are_kept_until_they_are_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile, key = Profile(), Key(1, 2, 8, 0, "")
    for step_s, sync_s in ((0.2, 0.5), (0.4, 0.4), (0.6, 0.7)):  # A clock that ran on.
        profile.add(key, [], step_s, sync_s)
    (point,) = profile.fresh()
    assert point["step"] == pytest.approx([0.4, 0.08 / 3])  # As the head merges them.
    assert 0.3 < point["sync"][0] < point["step"][0]

    def run(_rank: int) -> Any:
        def lost(told: Any, _now: float) -> None:
            sent.append(told["points"])
            if len(sent) == 1:
                raise ConnectionError

        sent: list[Any] = []
        Run(epochs=1).train()
        job = _job.current()
        monkeypatch.setattr(_trial, "takes_profile", lambda: True)
        monkeypatch.setattr(_trial, "send_profile", lost)
        with pytest.raises(ConnectionError):
            job._send_profile()
        job._send_profile()
        job._send_profile()  # Nothing was measured since.
        return [sent, job.metrics.profile.fresh()]

    (first, second), left = run_ranks(1, run, tmp_path)[0]
    assert first and first == second and left == []


def test_a_requested_checkpoint_is_saved_after_the_step(tmp_path: Path) -> None:
    worker = FakeWorker(str(tmp_path))

    def run(_rank: int) -> Any:
        training = Run(epochs=50)
        step, steps = training.optimizer.step, []

        def asked(*given: Any) -> Any:
            steps.append(1)
            if len(steps) == 5:
                session = _session.current
                assert session is not None
                session._handle({"op": "pause", "deadline_s": 30})
            return step(*given)

        training.optimizer.step = asked
        try:
            training.train()
        except BaseException as error:
            return [type(error).__name__, len(training.seen)]

    kind, seen = in_trial(tmp_path, worker, run)
    assert (kind, seen) == ("TrialStopped", 5)
    assert worker.paused and len(worker.checkpoints) == 1
