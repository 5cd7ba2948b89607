"""`freeze`, `thaw`: a trial with `suspend: true` leaves its capacity, and continues.

`gpu_given_back`: the end of a program until the next one has its gpu. With the tests' own driver,
which moves no memory: what is measured is rt's part.
"""

from __future__ import annotations

import pathlib
import statistics
import sys
import time

from rt_cluster import BIN, BenchCluster, note, print_bench

ROUNDS = 10
LOOK_S = 0.001

# Holds its gpu as a program of CUDA does, and reports often.
PROGRAM = """
import ctypes, json, os, time
ctypes.CDLL("libcuda.so.1")
number = 0
while True:
    number += 1
    print("RT_REPORT " + json.dumps({"number": number, "pid": os.getpid()}), flush=True)
    time.sleep(0.02)
"""
# Says when it began and when it ended.
SHORT = """
import json, time
began = time.time()
print("RT_REPORT " + json.dumps({"began": began, "ended": time.time()}), flush=True)
"""


def wait(what: str, condition) -> float:
    """Returns the time at which the condition held."""
    end = time.monotonic() + 60
    while not condition():
        if time.monotonic() > end:
            raise SystemExit(f"freeze: {what}: not within 60 s")
        time.sleep(LOOK_S)
    return time.monotonic()


def is_stopped(pid: int) -> bool:
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1][0] == "T"


def with_gpu() -> BenchCluster:
    cluster = BenchCluster(workers=1, cpus=1, daemons=False)
    gpus = cluster.home / "gpus.txt"
    gpus.write_text("GPU-aaaa,NVIDIA H200,150000000000,ok,used=500000000\n")
    (cluster.home / "cuda").mkdir()
    cluster.env.update(FAKE_NVML=str(gpus), FAKE_CUDA=str(cluster.home / "cuda"),
                       LD_LIBRARY_PATH=str(BIN / "fake"))
    cluster.env.pop("CUDA_VISIBLE_DEVICES", None)
    cluster.up()
    return cluster


def freeze(_: bool) -> None:
    """From the command to the stopped process, and back."""
    with with_gpu() as cluster:
        (cluster.work / "program.py").write_text(PROGRAM)
        number = cluster.submit("frozen", "experiment: frozen\nsuspend: true\n"
                                f"command: [{sys.executable}, program.py]\n"
                                "resources: {cpu: 0, gpu: 1}\n")
        trial = f"{number}/0"

        def shown() -> dict:
            return cluster.json("trial", "show", trial)
        wait("it runs", lambda: (shown()["metrics"] or {}).get("number", 0) > 5)
        pid = int(shown()["attempts"][-1]["members"][0]["pid"])
        frozen, thawed = [], []
        for _round in range(ROUNDS):
            began = time.monotonic()
            cluster.rt("trial", "pause", trial)
            frozen.append(wait("it is frozen", lambda: is_stopped(pid)) - began)
            wait("the head knows", lambda: shown()["frozen"])
            began = time.monotonic()
            cluster.rt("trial", "resume", trial)
            thawed.append(wait("it continues", lambda: not is_stopped(pid)) - began)
            wait("the head knows", lambda: not shown()["frozen"])
    for name, all_s in (("freeze", frozen), ("thaw", thawed)):
        print_bench(name, 1e3 * statistics.median(all_s), "ms", "none", "none")
        note(f"median of {ROUNDS}, at most {1e3 * max(all_s):.0f} ms; with the command's own start "
             "and rt-gpu-suspend of the tests' driver")


def gpu_given_back(_: bool) -> None:
    """One gpu, and trials that wait for it: from the end of one to the start of the next."""
    with with_gpu() as cluster:
        (cluster.work / "short.py").write_text(SHORT)
        number = cluster.submit("short", "experiment: short\nnum_samples: 20\n"
                                f"command: [{sys.executable}, -S, short.py]\n"
                                "resources: {cpu: 0, gpu: 1}\n")
        cluster.wait_experiment(number)
        rows = sorted((one["metrics"] for one in cluster.trials(number)),
                      key=lambda row: row["began"])
    gaps = [later["began"] - row["ended"] for row, later in zip(rows, rows[1:])]
    if len(gaps) != 19 or min(gaps) < 0:
        raise SystemExit(f"gpu_given_back: trials ran together: {gaps}")
    print_bench("gpu_given_back", 1e3 * statistics.median(gaps), "ms", "<=200", "none")
    note(f"median of {len(gaps)}, at most {1e3 * max(gaps):.0f} ms; with the report of the end, "
         "the next placement and the start of Python")
