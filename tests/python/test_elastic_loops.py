"""Loops over AdaptiveDataLoaders that are left early, that could not end, and that overflow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import rt.elastic.torch as adl  # noqa: E402
from elastic_ranks import Ranks, run_ranks  # noqa: E402
from rt.elastic.torch import _job  # noqa: E402
from test_elastic_torch import SAMPLES, Points, Run, network, trained  # noqa: E402
from torch import nn  # noqa: E402


def test_a_loop_that_was_left_has_ended(tmp_path: Path) -> None:
    def run(_rank: int, scale: Any) -> Any:
        training, taken, counts = Run(epochs=2, autoscale=scale), [], []
        other = adl.AdaptiveDataLoader(Points(), batch_size=8, shuffle=True)
        for _ in adl.remaining_epochs_until(2):
            for _, _, indices in other:
                counts.append(indices.tolist())
                break
            for inputs, labels, indices in training.loader:
                loss = nn.functional.cross_entropy(training.model(inputs), labels)
                training.optimizer.zero_grad()
                loss.backward()
                training.optimizer.step()
                taken.append(indices.tolist())
                if len(taken) % 3 == 0:
                    break
            epochs = _job.current().epochs
            counts.append([epochs._loops, epochs._ended])
        return [taken, counts, training.loader._state.number]

    alone = trained(1, tmp_path / "whole", epochs=2)[0]["seen"]
    for name, scale in (("fixed", None), ("scaled", {"max_batch_size": 16})):
        taken, counts, number = run_ranks(1, lambda _rank, s=scale: run(0, s), tmp_path / name)[0]
        assert counts[1] == counts[3] == [2, 2]
        assert counts[0] != counts[2]  # Another loop, another order.
        # A pass goes on with the sample after the last step, or the next loop is the next pass.
        start = 13 if scale is None else 3
        assert taken == [each[1] for each in [*alone[:3], *alone[start : start + 3]]]
        assert number == (2 if scale is None else 0)


def test_drop_last_leaves_a_step_in_each_pass(tmp_path: Path) -> None:
    def run(_rank: int, low: int) -> Any:
        adl.init_process_group()
        loader = adl.AdaptiveDataLoader(Points(60), batch_size=40, drop_last=True)
        loader.autoscale_batch_size(200, (low, 200))
        loader._state.plan = _job.Plan(150, 0)
        model = network()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        wrapped, sizes = adl.AdaptiveDataParallel(model, optimizer), []
        for _ in adl.remaining_epochs_until(2):
            for inputs, labels, _ in loader:
                optimizer.zero_grad()
                nn.functional.cross_entropy(wrapped(inputs), labels).backward()
                optimizer.step()
                sizes.append(len(inputs))
        return sizes

    sizes = run_ranks(2, lambda rank: run(rank, 10), tmp_path)[0]
    assert set(sizes) == {30} and len(sizes) >= 2
    started = Ranks(2, lambda rank: run(rank, 40), tmp_path / "never")
    assert started.wait() == [70, 70]
    assert "2 ranks take at least 80 in a step" in started.logs()


def test_a_loop_by_progress_that_makes_none_fails(tmp_path: Path) -> None:
    def run(_rank: int, kind: str) -> Any:
        adl.init_process_group()
        loader = adl.AdaptiveDataLoader(Points(60), batch_size=20)
        loader.autoscale_batch_size(60)
        if kind == "no step":
            model = network()
            adl.AdaptiveDataParallel(model, torch.optim.SGD(model.parameters(), lr=0.1))
        taken = 0
        for _ in adl.remaining_epochs_until(1):
            try:
                for inputs, _, _ in loader:
                    taken += len(inputs)
            except RuntimeError as error:
                return [taken, str(error)]
        return [taken, ""]

    for kind in ("no model", "no step"):
        taken, error = run_ranks(1, lambda rank, k=kind: run(rank, k), tmp_path / kind)[0]
        assert taken == 60 and "without a step of AdaptiveDataParallel's optimizer" in error


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("more", [{}, {"deterministic": True, "max_replicas": 2}])
def test_an_overflow_in_any_micro_batch_leaves_out_the_step_on_all_ranks(
    tmp_path: Path, more: dict[str, Any], number: int
) -> None:
    """In micro-batch 0 or 1, of two, of the second step of rank 0."""

    def run(rank: int, overflows: bool, scales: bool) -> Any:
        adl.init_process_group("gloo")
        loader = adl.AdaptiveDataLoader(Points(128), batch_size=16)
        loader.autoscale_batch_size(32, (4, 16), gradient_accumulation=True)
        loader._state.plan = _job.Plan(32, 1)
        model = network()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=256.0, growth_interval=3, enabled=scales)
        adl.AdaptiveDataParallel(model, optimizer, mp_scaler=scaler, **more)
        wrapped = _job.current().model
        weights, factors, norms = [], [], []
        for inputs, labels, _ in loader:
            step = _job.current().step
            loss = nn.functional.cross_entropy(wrapped(inputs), labels)
            if step.start == 32 and rank == 0 and step.index == number and overflows:
                loss = loss * float("inf")
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            norms.append(float(nn.utils.clip_grad_norm_(wrapped.parameters(), 1e6)))
            scaler.step(optimizer)
            scaler.update()
            if step.is_last:
                weights.append(float(model[0].weight.sum()))
                factors.append(scaler.get_scale())
        return [weights, factors, norms, wrapped.gns.sqr]

    for ranks in (1, 2):
        place = tmp_path / str(ranks)
        plain = run_ranks(ranks, lambda rank: run(rank, False, False), place / "plain")
        scaled = run_ranks(ranks, lambda rank: run(rank, False, True), place / "scaled")
        for mine, theirs in zip(scaled, plain):
            assert mine[0] == pytest.approx(theirs[0], rel=1e-5)
            assert mine[2] == pytest.approx(theirs[2], rel=1e-5)
            assert mine[3] == pytest.approx(theirs[3], rel=1e-4)
            assert mine[1] == [256, 256, 512, 512]  # It counts steps, not micro-batches.
        results = run_ranks(ranks, lambda rank: run(rank, True, True), place / "overflow")
        weights, factors = results[0][:2]
        assert [each[:2] for each in results] == [[weights, factors]] * ranks
        assert weights[1] == weights[0] and len(set(weights)) == 3
        assert factors == [256, 128, 128, 128]


def test_a_pass_of_one_step_is_measured_from_its_second_on(tmp_path: Path) -> None:
    def run(batch: int) -> Any:
        training = Run(batch=batch, epochs=4)
        counts = []
        for _ in adl.remaining_epochs_until(4):
            for inputs, labels, _ in training.loader:
                training.optimizer.zero_grad()
                nn.functional.cross_entropy(training.model(inputs), labels).backward()
                training.optimizer.step()
            counts.append([adl.metrics()["throughput"], _job.current().metrics.profile.count])
        return counts

    found = run_ranks(1, lambda _rank: run(SAMPLES), tmp_path / "whole")[0]
    assert [count for _, count in found] == [0, 1, 2, 3]
    assert all(throughput > 0 for throughput, _ in found)
    # A step of fewer samples than the batch says nothing of a whole one.
    found = run_ranks(1, lambda _rank: run(SAMPLES + 1), tmp_path / "part")[0]
    assert [count for _, count in found] == [0, 0, 0, 0]
    assert all(throughput > 0 for throughput, _ in found)


def test_a_closure_is_refused_because_micro_batches_would_be_lost(tmp_path: Path) -> None:
    def run(_rank: int) -> Any:
        training, said = Run(epochs=1), []
        for inputs, labels, _ in training.loader:
            loss = nn.functional.cross_entropy(training.model(inputs), labels)
            loss.backward()
            try:
                training.optimizer.step(lambda loss=loss: loss)
            except RuntimeError as error:
                said.append(str(error))
            training.optimizer.step(None)  # No closure.
            break
        return [said, _job.current().metrics.done]

    said, done = run_ranks(1, run, tmp_path)[0]
    assert len(said) == 1 and "call backward() before optimizer.step()" in said[0]
    assert done == 1


def test_a_script_with_another_optimizer_does_not_take_up_the_checkpoint(tmp_path: Path) -> None:
    saved = {"ADAPTDL_CHECKPOINT_PATH": str(tmp_path / "saved")}

    def adam(_rank: int) -> Any:
        try:
            Run(epochs=2, optimizer=lambda p: torch.optim.Adam(p, lr=0.1))
        except ValueError as error:
            return str(error)
        return "nothing"

    run_ranks(1, lambda _rank: Run(epochs=1).train().result, tmp_path / "first", **saved)
    assert len(list((tmp_path / "saved").iterdir())) == 1
    said = run_ranks(1, adam, tmp_path / "second", **saved)[0]
    assert "optimizer of class SGD, not Adam" in said
