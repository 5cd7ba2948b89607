"""What the figures of `train` run: train_script.py start | report | restart | step."""

from __future__ import annotations

import json
import os
import pathlib
import sys
import tempfile
import time

import torch
from rt import train
from rt.train import Checkpoint, DataParallelTrainer, FailureConfig, RunConfig, ScalingConfig
from rt.train.torch import TorchTrainer, prepare_model
from torch import nn

QUIET = RunConfig(verbose=0)
TWO = ScalingConfig(num_workers=2)
REPORTS = 2_000
STEPS = 300


def empty(config: dict) -> None:
    pass


def start() -> None:
    """Seconds of fit() with an empty function, the first time and again."""
    trainer = TorchTrainer(empty, train_loop_config={}, scaling_config=TWO, run_config=QUIET)
    for _ in range(6):
        begin = time.perf_counter()
        trainer.fit()
        print("fit", time.perf_counter() - begin, flush=True)


def reports(config: dict) -> None:
    train.report({"row": 0})
    begin = time.perf_counter()
    for row in range(REPORTS):
        train.report({"row": row})
    train.report({"ms": (time.perf_counter() - begin) / REPORTS * 1e3})


def report() -> None:
    """Milliseconds of one report() of two ranks, on one node and on two."""
    for strategy in ("STRICT_PACK", "STRICT_SPREAD"):
        scaling = ScalingConfig(num_workers=2, placement_strategy=strategy)
        result = DataParallelTrainer(reports, train_loop_config={}, scaling_config=scaling,
                                     run_config=QUIET).fit()
        print(strategy, result.metrics["ms"], flush=True)


def survive(config: dict) -> None:
    """Says when each joint step is done; each rank has 8 MB of state."""
    files = pathlib.Path(config["files"])
    context, state, first = train.get_context(), torch.zeros(2_000_000), 0
    checkpoint = train.get_checkpoint()
    if checkpoint is not None:
        state = torch.load(os.path.join(checkpoint.path, "state.pt"))
        first = int(state[0].item())
    for step in range(first, 1_000_000):
        if (files / "end").exists() and step > first + 20:
            break
        torch.distributed.all_reduce(state)
        state.fill_(float(step + 1))
        if context.get_world_rank() == 0:
            with (files / "steps").open("a") as out:
                out.write(f"{time.time()} {step}\n")
        if step % 10 != 0:
            train.report({"step": step})
            continue
        with tempfile.TemporaryDirectory() as directory:
            if context.get_world_rank() == 0:
                torch.save(state, os.path.join(directory, "state.pt"))
                train.report({"step": step}, checkpoint=Checkpoint.from_directory(directory))
            else:
                (files / f"rank-{os.environ['RT_ATTEMPT']}").write_text(str(os.getpid()))
                train.report({"step": step})


def restart() -> None:
    """Trains until its files say that it ends."""
    trainer = TorchTrainer(
        survive, train_loop_config={"files": sys.argv[2]}, scaling_config=TWO,
        run_config=RunConfig(verbose=0, failure_config=FailureConfig(max_failures=-1)))
    trainer.fit()


def steps(config: dict) -> None:
    """STEPS steps of at least 30 ms, with a report every 10; prints how long they took."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = prepare_model(nn.Sequential(nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 1024)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs = torch.randn(192, 1024)
    under_rt = "RT_TRIAL_ID" in os.environ
    begin = cpu = 0.0
    for step in range(STEPS + 20):
        if step == 20:  # The first ones warm up.
            begin, cpu = time.perf_counter(), time.process_time()
        loss = model(inputs).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0 and under_rt:
            train.report({"loss": loss.item()})
        elif step % 10 == 0:
            loss.item()
    took, used = time.perf_counter() - begin, time.process_time() - cpu
    figures = {"step_ms": took / STEPS * 1e3, "cpu_ms": used / STEPS * 1e3}
    if under_rt:
        train.report(figures)
    elif int(os.environ["RANK"]) == 0:
        print(json.dumps(figures), flush=True)


def step() -> None:
    """The same under torchrun, or as a trainer."""
    if "TORCHELASTIC_RUN_ID" in os.environ:
        torch.distributed.init_process_group("gloo")
        steps({})
        torch.distributed.destroy_process_group()
        return
    result = TorchTrainer(steps, train_loop_config={}, scaling_config=TWO, run_config=QUIET).fit()
    print(json.dumps({key: result.metrics[key] for key in ("step_ms", "cpu_ms")}), flush=True)


if __name__ == "__main__":
    {"start": start, "report": report, "restart": restart, "step": step}[sys.argv[1]]()
