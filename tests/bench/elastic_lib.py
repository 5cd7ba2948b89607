"""`elastic_lib`: what rt.elastic costs in a step, and how long a resize keeps a training from its
steps.
"""

from __future__ import annotations

import pathlib
import statistics
import subprocess
import time
from typing import Mapping

from rt_cluster import BenchCluster, note, print_bench, python_env
from train import PYTHON

from harness import wait_until  # isort: skip

FOLDER = pathlib.Path(__file__).resolve().parent
PAIRS = 40
ROUNDS = 3  # Of 1 -> 2 -> 1 ranks.


def elastic_lib(_with_peers: bool) -> None:
    if subprocess.run([str(PYTHON), "-c", "import torch"], capture_output=True).returncode != 0:
        return note("elastic_lib: build/venv has no PyTorch; tests/python/venv.sh makes it")
    with BenchCluster(workers=2, cpus=2) as cluster:
        _share(cluster)
        imported = _import_s(cluster)
        warm = _resizes(cluster, "warm", {})
        print_bench("elastic_resize_warm", statistics.median(warm), "s", "<=2",
                    "about 30 s (AdaptDL, by its own simulator)")
        note("resizes: " + " ".join(f"{each:.2f}" for each in warm) + " s")
        cold = _resizes(cluster, "cold", {"RT_WARM_START": "0"})
        print_bench("elastic_resize_cold", statistics.median(cold), "s",
                    f"<={2 + imported:.2f}", "none")
        note("without a fork server: " + " ".join(f"{each:.2f}" for each in cold) +
             f" s; import rt.elastic.torch in the same run: {imported:.2f} s")


def _import_s(cluster: BenchCluster) -> float:
    took = []
    for _ in range(3):
        begin = time.perf_counter()
        subprocess.run([str(PYTHON), "-c", "import rt.elastic.torch"], check=True,
                       env={**cluster.env, **python_env()})
        took.append(time.perf_counter() - begin)
    return statistics.median(took)


def _share(cluster: BenchCluster) -> None:
    done = subprocess.run([str(PYTHON), str(FOLDER / "elastic_share.py"), str(PAIRS)], text=True,
                          stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, check=True,
                          timeout=900, env={**cluster.env, **python_env()})
    for line in done.stdout.splitlines():
        name, share, step_s = line.split()
        print_bench(f"elastic_share_{name}", float(share), "of_a_step", "<=0.02", "none")
        note(f"{name}: a step takes {1000 * float(step_s):.1f} ms of processor time")


def _resizes(cluster: BenchCluster, name: str, more: Mapping[str, str]) -> list[float]:
    """Seconds between the last step before a resize and the first one after it."""
    files = cluster.home / f"resized-{name}"
    files.mkdir()
    known = {each["id"] for each in cluster.json("exp", "list")["items"]}
    driver = subprocess.Popen(
        [str(PYTHON), str(FOLDER / "elastic_resize.py"), str(files)], stdin=subprocess.DEVNULL,
        cwd=cluster.work, env={**cluster.env, **python_env(), "RT_CLUSTER": "it",
                               "OMP_NUM_THREADS": "1", **more})
    took = []
    try:
        _trains(files, 1)
        number = max(each["id"] for each in cluster.json("exp", "list")["items"]
                     if each["id"] not in known)
        for generation in range(1, 2 * ROUNDS + 1):
            cluster.rt("trial", "resize", f"{number}/0", "--ranks", "2" if generation % 2 else "1")
            _trains(files, generation + 1)
            took.append(_times(files, generation + 1)[0] - _times(files, generation)[-1])
        (files / "end").touch()
        driver.wait(120)
    finally:
        driver.kill()
        driver.wait()
    return took


def _trains(files: pathlib.Path, generation: int) -> None:
    wait_until(f"generation {generation} trains", lambda: len(_times(files, generation)) > 50, 120)


def _times(files: pathlib.Path, generation: int) -> list[float]:
    path = files / f"steps-{generation}-0"
    return [float(line) for line in path.read_text().splitlines()] if path.exists() else []
