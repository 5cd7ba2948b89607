"""`train`: a trainer's start, report(), restart after a killed rank, and steps beside torchrun."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import statistics
import subprocess
import time
from typing import Mapping

import peers
from rt_cluster import ROOT, BenchCluster, note, print_bench, python_env

from harness import wait_until  # isort: skip

SCRIPT = pathlib.Path(__file__).resolve().parent / "train_script.py"
PYTHON = ROOT / "build/venv/bin/python"  # Of the tests: it has PyTorch.
PAIRS = 10
KILLS = 5
COLD_KILLS = 3


def _run(cluster: BenchCluster, *words: str, launcher: tuple[str, ...] = ()) -> str:
    done = subprocess.run([str(PYTHON), *launcher, str(SCRIPT), *words], text=True,
                          stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, check=True,
                          timeout=600, cwd=cluster.work, env=_env(cluster))
    return done.stdout


def _env(cluster: BenchCluster) -> dict[str, str]:
    return {**cluster.env, **python_env(), "RT_CLUSTER": "it", "OMP_NUM_THREADS": "1"}


def _import_s() -> float:
    took = []
    for _ in range(3):
        begin = time.perf_counter()
        subprocess.run([str(PYTHON), "-c", "import torch.distributed"], check=True)
        took.append(time.perf_counter() - begin)
    return statistics.median(took)


def train(with_peers: bool) -> None:
    if subprocess.run([str(PYTHON), "-c", "import torch"], capture_output=True).returncode != 0:
        return note("train: build/venv has no PyTorch; tests/python/venv.sh makes it")
    with BenchCluster(workers=2, cpus=2) as cluster:
        _start(cluster, with_peers)
        _report(cluster)
        _restart(cluster, with_peers)
        _step(cluster)


def _start(cluster: BenchCluster, with_peers: bool) -> None:
    imported = _import_s()
    fits = [float(line.split()[1]) for line in _run(cluster, "start").splitlines()]
    print_bench("train_fit_first", fits[0], "s", f"<={1.0 + 1.3 * imported:.2f}",
                peers.train("first", with_peers))
    print_bench("train_fit_again", statistics.median(fits[1:]), "s", "<=1.2",
                peers.train("again", with_peers))
    note(f"import torch.distributed in the same run: {imported:.2f} s")


def _report(cluster: BenchCluster) -> None:
    for line in _run(cluster, "report").splitlines():
        strategy, ms = line.split()
        bar = "<=1" if strategy == "STRICT_PACK" else "none"
        where = "one_node" if strategy == "STRICT_PACK" else "two_nodes"
        print_bench(f"train_report_{where}", float(ms), "ms", bar, "none")


def _restart(cluster: BenchCluster, with_peers: bool) -> None:
    warm = _times_after_kills(cluster, "warm", KILLS)
    print_bench("train_rank_killed", statistics.median(warm), "s", "<=1.5",
                peers.train("killed", with_peers))
    note("to the first joint step after a kill: " + " ".join(f"{one:.2f}" for one in warm) + " s")
    imported = _import_s()
    cold = _times_after_kills(cluster, "cold", COLD_KILLS, {"RT_WARM_START": "0"})
    print_bench("train_rank_killed_cold", statistics.median(cold), "s",
                f"<={1.5 + imported:.2f}", "none")
    note("without a fork server: " + " ".join(f"{one:.2f}" for one in cold) +
         f" s; import torch.distributed in the same run: {imported:.2f} s")


def _times_after_kills(cluster: BenchCluster, name: str, kills: int,
                       more: Mapping[str, str] = {}) -> list[float]:
    """Seconds from each kill -9 of rank 1 to the next joint step."""
    files = cluster.home / f"steps-{name}"
    files.mkdir()
    driver = subprocess.Popen([str(PYTHON), str(SCRIPT), "restart", str(files)],
                              stdin=subprocess.DEVNULL, cwd=cluster.work,
                              env={**_env(cluster), **more})
    took = []
    try:
        for attempt in range(1, kills + 1):
            pid = files / f"rank-{attempt}"
            wait_until(f"rank 1 of attempt {attempt} trains",
                       lambda pid=pid: pid.exists() and pid.read_text())
            wait_until("it has trained for a while", lambda: _steps_of(files)[-1][1] > 40 * attempt)
            killed = time.time()
            os.kill(int(pid.read_text()), signal.SIGKILL)
            wait_until("the next attempt trains", (files / f"rank-{attempt + 1}").exists)
            pause = [(later - sooner, later) for (sooner, _), (later, _) in
                     zip(_steps_of(files), _steps_of(files)[1:])
                     if later > killed]
            took.append(max(pause)[1] - killed)
        (files / "end").touch()
        driver.wait(120)
    finally:
        driver.kill()
        driver.wait()
    return took


def _steps_of(files: pathlib.Path) -> list[tuple[float, int]]:
    lines = [line.split() for line in (files / "steps").read_text().splitlines()]
    return [(float(at), int(step)) for at, step in (line for line in lines if len(line) == 2)]


def _step(cluster: BenchCluster) -> None:
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    pairs = []
    for pair in range(PAIRS):
        # Each of the two is first in every other pair.
        took = [json.loads(_run(cluster, "step", launcher=launched).splitlines()[-1])
                for launched in ((launcher, ()) if pair % 2 == 0 else ((), launcher))]
        pairs.append(tuple(took if pair % 2 == 0 else reversed(took)))
    for key, bar in (("step_ms", "<=1.03"), ("cpu_ms", "<=1.01")):
        ratio = statistics.median(ours[key] / plain[key] for plain, ours in pairs)
        print_bench(f"train_{key[:-3]}_ratio", ratio, "x_torchrun", bar, "none")
    note("steps under torchrun/rt: " +
         " ".join(f"{plain['step_ms']:.1f}/{ours['step_ms']:.1f}" for plain, ours in pairs) + " ms")
