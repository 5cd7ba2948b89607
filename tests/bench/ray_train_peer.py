"""The work of train_script.py with Ray Train: ray_train_peer.py NAME prints "PEER VALUE UNIT
(what)". For peers.py alone."""

from __future__ import annotations

import os
import pathlib
import signal
import statistics
import sys
import tempfile
import threading
import time

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

import ray  # noqa: E402
from ray import train  # noqa: E402
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig  # noqa: E402
from ray.train.torch import TorchTrainer  # noqa: E402

KILLS = 3
DEADLINE_S = 600.0


def empty(config) -> None:
    pass


def fit_s(function, config: dict, failures: int = 0) -> float:
    """Seconds of fit() on two workers, Ray already up."""
    trainer = TorchTrainer(
        function, train_loop_config=config, scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(storage_path=tempfile.mkdtemp(),
                             failure_config=FailureConfig(max_failures=failures)))
    begin = time.perf_counter()
    trainer.fit()
    return time.perf_counter() - begin


def train_first() -> str:
    return f"{fit_s(empty, {}):.2f} s (fit() of an empty function, Ray up)"


def train_again() -> str:
    fit_s(empty, {})
    took = statistics.median(fit_s(empty, {}) for _ in range(3))
    return f"{took:.2f} s (the same again)"


def survive(config) -> None:
    """Says when each joint step is done; each rank has 8 MB of state."""
    import torch

    files = pathlib.Path(config["files"])
    rank, state, first = train.get_context().get_world_rank(), torch.zeros(2_000_000), 0
    checkpoint = train.get_checkpoint()
    if checkpoint is not None:
        with checkpoint.as_directory() as directory:
            state = torch.load(os.path.join(directory, "state.pt"))
        first = int(state[0].item())
    if rank == 1:
        name = f"rank-{os.getpid()}.new"
        (files / name).write_text(f"{os.getpid()} {time.time()}")
        (files / name).rename(files / f"rank-{os.getpid()}")
    for step in range(first, 1_000_000):
        if (files / "end").exists() and step > first + 20:
            break
        torch.distributed.all_reduce(state)
        state.fill_(float(step + 1))
        if rank == 0:
            with (files / "steps").open("a") as out:
                out.write(f"{time.time()} {step}\n")
        if step % 10 != 0 or rank != 0:
            train.report({"step": step})
            continue
        with tempfile.TemporaryDirectory() as directory:
            torch.save(state, os.path.join(directory, "state.pt"))
            train.report({"step": step}, checkpoint=Checkpoint.from_directory(directory))


def train_killed() -> str:
    files = pathlib.Path(tempfile.mkdtemp())
    running = threading.Thread(target=fit_s, args=(survive, {"files": str(files)}, -1),
                               daemon=True)
    running.start()
    took, known = [], set()

    def next_rank() -> tuple[int, float]:
        new = await_it(lambda: {*files.glob("rank-*[0-9]")} - known).pop()
        known.add(new)
        pid, started = new.read_text().split()
        return int(pid), float(started)

    pid, started = next_rank()
    for _ in range(KILLS):
        await_it(lambda: len([at for at in steps_of(files) if at > started]) > 40)
        killed = time.time()
        os.kill(pid, signal.SIGKILL)
        pid, started = next_rank()
        took.append(await_it(lambda: [at for at in steps_of(files) if at > started])[0] - killed)
    (files / "end").touch()
    running.join(60)
    return f"{statistics.median(took):.2f} s (kill to the next joint step, {KILLS} kills)"


def steps_of(files: pathlib.Path) -> list[float]:
    path = files / "steps"
    if not path.exists():
        return []
    return [float(line.split()[0]) for line in path.read_text().splitlines()
            if len(line.split()) == 2]


def await_it(condition):
    """What `condition` returns once that is true."""
    end = time.monotonic() + DEADLINE_S
    while not (found := condition()):
        if time.monotonic() > end:
            raise SystemExit("Ray did not go on in time")
        time.sleep(0.02)
    return found


if __name__ == "__main__":
    ray.init(num_cpus=4, log_to_driver=False, include_dashboard=False)
    print("PEER", {"train_first": train_first, "train_again": train_again,
                   "train_killed": train_killed}[sys.argv[1]](), flush=True)
    ray.shutdown()
