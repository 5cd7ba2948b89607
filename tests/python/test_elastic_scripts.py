"""Scripts of rt.elastic as people write them: AdaptDL's paths, workers, and ranks that are asked at
different moments."""

from __future__ import annotations

import importlib
import json
import os
import re
import runpy
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import rt.elastic as adaptdl  # noqa: E402
import rt.elastic.torch as adl  # noqa: E402
from elastic_ranks import Ranks, await_until, run_ranks  # noqa: E402
from rt.elastic.torch import _job, _trial  # noqa: E402
from test_elastic_torch import SAMPLES, Points, Run  # noqa: E402

ROOT = Path(__file__).parents[2]


def test_adaptdls_names_are_where_its_users_expect_them() -> None:
    for module, names in {
        "": "checkpoint collective env torch",
        ".env": "checkpoint_path share_path job_id master_addr master_port replica_rank "
        "num_nodes num_replicas num_restarts",
        ".collective": "initialize teardown allreduce allreduce_async broadcast",
        ".checkpoint": "State save_all_states load_state",
        ".goodput": "GoodputFunction PerfParams GradParams",
        ".torch": "init_process_group current_epoch finished_epochs remaining_epochs_until "
        "current_dataloader current_dataset AdaptiveDataLoader ElasticSampler "
        "AdaptiveDataParallel Accumulator",
        ".torch.scaling_rules": "ScalingRuleBase AdaScale AdamScale LinearScale SqrtScale "
        "LEGWScale",
        ".torch.gradient_noise_scale": "GradientNoiseScale",
        ".torch.data": "AdaptiveDataLoader ElasticSampler current_dataloader",
        ".torch.parallel": "AdaptiveDataParallel",
        ".torch.epoch": "Epochs",
        ".torch.accumulator": "Accumulator",
    }.items():
        found = importlib.import_module(f"rt.elastic{module}")
        assert [name for name in names.split() if not hasattr(found, name)] == [], module
    assert adaptdl.torch is adl
    with pytest.raises(AttributeError, match="did you mean 'collective'"):
        adaptdl.colective  # noqa: B018


def test_the_listing_of_the_guide_runs(tmp_path: Path) -> None:
    guide = (ROOT / "docs/user-guide.md").read_text()
    section = guide[guide.index("### Elastic training") :]
    match = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    assert match is not None
    (tmp_path / "train.py").write_text(match[1])
    for ranks in (1, 2):
        run_ranks(
            ranks, lambda _rank: len(runpy.run_path(str(tmp_path / "train.py"))), tmp_path / "r"
        )


def test_the_example_trains_on_generated_data(tmp_path: Path) -> None:
    path = str(ROOT / "examples/elastic/digits_elastic.py")

    def run(_rank: int) -> Any:
        sys.argv = [path, "--data", "generated", "--epochs", "3", "--accumulate"]
        runpy.run_path(path, run_name="__main__")
        return adl.metrics()

    ranks = Ranks(2, run, tmp_path)
    assert ranks.results()[0]["progress"] > 0
    accuracy = re.findall(r"accuracy ([\d.]+)", ranks.logs())
    assert len(accuracy) == 3 and float(accuracy[-1]) > 0.8


def test_the_current_loader_and_data_set_are_known(tmp_path: Path) -> None:
    def run(_rank: int) -> Any:
        run = Run(epochs=1)
        loader = run.loader
        before = [adl.current_dataset(), adl.current_dataloader(), adl.current_epoch()]
        inside = []
        for _ in adl.remaining_epochs_until(1):
            for batch in loader:
                del batch
                inside = [
                    adl.current_dataset() is loader.dataset,
                    adl.current_dataloader() is loader,
                    loader.training, adl.current_epoch(), len(loader),
                ]  # fmt: skip
        return [before, inside, adl.finished_epochs()]

    assert run_ranks(1, run, tmp_path)[0] == [[None] * 3, [True, True, True, 0, 13], 1]


def test_the_sampler_gives_each_sample_to_one_rank(tmp_path: Path) -> None:
    def run(_rank: int) -> Any:
        sampler = adl.ElasticSampler(Points(), shuffle=True)
        sampler.set_epoch(1, 50)
        return [list(sampler), len(sampler)]

    results = run_ranks(3, run, tmp_path)
    alone = run_ranks(1, run, tmp_path / "1")[0]
    assert sorted(each for found, _ in results for each in found) == sorted(alone[0])
    assert [len(found) for found, _ in results] == [count for _, count in results]
    assert len(alone[0]) == SAMPLES - 50


# In a process of its own: workers of a loader that are forked from a fork of pytest end before they
# begin, after the tests of rt.data.
WORKERS = """
import json
import rt.elastic.torch as adl
from rt.elastic.torch import _job
from test_elastic_torch import Points

adl.init_process_group("gloo")
loader = adl.AdaptiveDataLoader(Points(), batch_size=16, shuffle=True, num_workers=1)
loader.autoscale_batch_size(64)
sizes, taken = [], []
for inputs, _, indices in loader:
    sizes.append(len(inputs))
    taken += indices.tolist()
    if len(sizes) == 3:
        _job.current().decision = _job.Plan(40, 0)
print("FOUND", json.dumps([sizes, sorted(taken)]))
"""


def test_workers_of_a_loader_follow_a_new_batch_size(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(WORKERS)
    path = os.pathsep.join([str(ROOT / "python"), str(ROOT / "tests/python")])
    done = subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, "PYTHONPATH": path},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    sizes, taken = json.loads(done.stdout.split("FOUND ")[1])
    assert sizes == [16, 16, 16, 40, 40, 40, 35]
    assert taken == list(range(SAMPLES))


def test_passes_lose_nothing_when_size_and_batch_change(tmp_path: Path) -> None:
    """2 ranks, then 3, then 1: all saved at a request, with a batch that adapts."""
    scale = {"max_batch_size": 64, "local_bsz_bounds": (4, 32)}
    env = {"ADAPTDL_CHECKPOINT_PATH": str(tmp_path / "saved")}

    def run(stop: int) -> Any:
        training = Run(epochs=8, autoscale=scale)
        step = training.optimizer.step

        def counted(*given: Any) -> Any:
            if len(training.seen) == stop:
                _trial._signalled = True
            return step(*given)

        training.optimizer.step = counted
        try:
            training.train()
        except SystemExit as error:
            assert error.code == 143
        return training.result

    taken: list[int] = []
    for ranks, stop in ((2, 5), (3, 6), (1, 10**6)):
        results = run_ranks(ranks, lambda _rank, stop=stop: run(stop), tmp_path / str(ranks), **env)
        taken += [index for result in results for _, part, _ in result["seen"] for index in part]
    counts = [taken.count(index) for index in range(SAMPLES)]
    assert max(counts) - min(counts) <= 1 and max(counts) >= 3
    assert results[0]["progress"] == pytest.approx(8 * SAMPLES / 16, abs=5)


def test_all_ranks_save_when_only_one_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_job, "REQUEST_PATIENCE_S", 0.01)
    mark = tmp_path / "mark"

    def run(_rank: int) -> Any:
        training = Run(epochs=2000)
        step = training.optimizer.step

        def slow(*given: Any) -> Any:
            mark.touch()
            return step(*given)

        training.optimizer.step = slow
        return training.train().result

    started = Ranks(2, run, tmp_path, ADAPTDL_CHECKPOINT_PATH=str(tmp_path / "saved"))
    await_until(mark.exists)
    os.kill(started.pids[1], signal.SIGTERM)
    assert started.wait() == [143, 143], started.logs()
    assert len(list((tmp_path / "saved").glob("checkpoint-*"))) >= 1


def test_what_was_read_before_an_interruption_is_read_again(tmp_path: Path) -> None:
    """An epoch of two training loops, interrupted in the second: the first has its sums."""
    env = {"ADAPTDL_CHECKPOINT_PATH": str(tmp_path / "saved")}

    def run(stop: int) -> Any:
        training = Run(epochs=1)
        found: list[Any] = []
        for _ in adl.remaining_epochs_until(1):
            stats = adl.Accumulator()
            for turn in range(2):
                for inputs, labels, _ in training.loader:
                    loss = torch.nn.functional.cross_entropy(training.model(inputs), labels)
                    training.optimizer.zero_grad()
                    loss.backward()
                    training.optimizer.step()
                    stats["loss"] += loss.item()
                    stats["steps"] += 1
                    training.seen.append(turn)
                    if len(training.seen) == stop:
                        _trial._signalled = True
                with stats.synchronized():
                    found.append([stats["steps"], stats["loss"]])
        return found

    def stopped(_rank: int) -> Any:
        try:
            run(20)
        except SystemExit:
            return "stopped"
        return "not stopped"

    expected = run_ranks(2, lambda _rank: run(0), tmp_path / "whole")
    assert run_ranks(2, stopped, tmp_path / "first", **env) == ["stopped"] * 2
    found = run_ranks(2, lambda _rank: run(0), tmp_path / "second", **env)
    assert found == expected and [steps for steps, _ in found[0]] == [26, 52]


def test_an_accumulator_of_the_whole_run_reads_the_epoch_in_hand(tmp_path: Path) -> None:
    """Made before the epochs and interrupted in epoch 2: what finished epochs read is over."""
    env = {"ADAPTDL_CHECKPOINT_PATH": str(tmp_path / "saved")}

    def run(stop: int) -> Any:
        training, stats, found = Run(epochs=4), adl.Accumulator(), []
        with stats.synchronized():
            found.append(dict(stats))
        for epoch in adl.remaining_epochs_until(4):
            for inputs, labels, _ in training.loader:
                loss = torch.nn.functional.cross_entropy(training.model(inputs), labels)
                training.optimizer.zero_grad()
                loss.backward()
                training.optimizer.step()
                stats["steps"] += 1
                training.seen.append(epoch)
                if len(training.seen) == stop:
                    _trial._signalled = True
            for part in range(2):
                with stats.synchronized():
                    found.append([epoch, part, stats["steps"]])
        return found

    def stopped(_rank: int) -> Any:
        with pytest.raises(SystemExit):
            run(2 * 13 + 5)
        return "stopped"

    expected = run_ranks(2, lambda _rank: run(0), tmp_path / "whole")[0]
    assert expected[:4] == [{}, [0, 0, 26], [0, 1, 26], [1, 0, 52]]
    assert run_ranks(2, stopped, tmp_path / "first", **env) == ["stopped"] * 2
    found = run_ranks(2, lambda _rank: run(0), tmp_path / "second", **env)[0]
    assert found == [expected[0], *expected[5:]]
