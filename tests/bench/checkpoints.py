"""Checkpoints of 2 GiB on a worker and a head of one machine, over mTLS: `checkpoints`.

    checkpoint_blocked    how long report() keeps a trial that gives its files away
    checkpoint_push       from report() to the commit: hashed, sent, synced
    checkpoint_changed    new bytes in the store after 5 % of the tensors changed
    checkpoint_pull       the same bytes back, verified
"""

from __future__ import annotations

import datetime
import pathlib
import shutil
import subprocess
import sys
import time

from rt_cluster import BIN, ROOT, BenchCluster, note, print_bench

FILES, FILE_BYTES = 8, 256 << 20
TOTAL = FILES * FILE_BYTES
CHANGED = TOTAL // 20
MIB = 1 << 20

# Writes its state, reports it twice, the second time with a twentieth of it changed.
PROGRAM = f"""
import os, random, time
from rt import train, tune

def write(path, number, seed):
    source = random.Random(seed)
    with open(os.path.join(path, f"shard-{{number}}"), "wb") as file:
        for _ in range({FILE_BYTES} // (16 << 20)):
            file.write(source.randbytes(16 << 20))

def save(config):
    for step in range(2):
        with tune.checkpoint_dir(step=step) as path:
            for number in range({FILES}):
                write(path, number, number)
            if step:
                with open(os.path.join(path, "shard-0"), "r+b") as file:
                    file.write(random.Random(99).randbytes({CHANGED}))
        began = time.time()
        tune.report({{"began": began, "blocked_s": -1.0}})
        took = time.time() - began
        tune.report({{"began": began, "blocked_s": took}})
        if step == 0:
            while not os.path.exists(config["go"]):
                time.sleep(0.05)

import sys
tune.Tuner(save, param_space={{"go": sys.argv[1]}},
           tune_config=tune.TuneConfig(metric="blocked_s", mode="max"),
           run_config=tune.RunConfig(name="checkpoints", verbose=0)).fit()
"""


def checkpoints(with_peers: bool) -> None:
    """One trial, two checkpoints."""
    del with_peers  # Ray copies the whole directory before report() returns: reference figures.
    with BenchCluster(workers=1, cpus=1) as cluster:
        go = cluster.home / "go"
        (cluster.work / "save.py").write_text(PROGRAM)
        env = {**cluster.env, "RT_CLUSTER": "it", "RT_BIN": str(BIN),
               "PYTHONPATH": str(ROOT / "python")}
        driver = subprocess.Popen([sys.executable, "save.py", str(go)], env=env,
                                  cwd=cluster.work, stdin=subprocess.DEVNULL)
        try:
            first = committed(cluster, 1)
            before = stored(cluster)
            go.touch()
            second = committed(cluster, 2)
            grown = stored(cluster) - before
            assert driver.wait(timeout=120) == 0
            manifest = second["manifest"]
            target = cluster.home / "pulled"
            began = time.perf_counter()
            cluster.bridge([{"op": "blob_pull_dir", "manifest": manifest, "target": str(target)}])
            pull_s = time.perf_counter() - began
            shutil.rmtree(target)
        finally:
            driver.kill()
        experiment = cluster.experiment(1)
        rows = cluster.rows(experiment, cluster.trials(1)[0])
    blocked = [row["blocked_s"] for row in rows if row["blocked_s"] >= 0]
    push = [seconds(one["committed_at"]) - row["began"]
            for one, row in zip((first, second), rows[::2])]
    print_bench("checkpoint_blocked", max(blocked) * 1e3, "ms", "<=50", "whole upload")
    print_bench("checkpoint_push", TOTAL / MIB / push[0], "MiB/s", "none",
                "Ray 50-120 MiB/s (published)")
    print_bench("checkpoint_changed", 100 * grown / TOTAL, "%_of_the_bytes", "<=6", "full copy")
    print_bench("checkpoint_pull", TOTAL / MIB / pull_s, "MiB/s", "none",
                "Ray 50-120 MiB/s (published)")
    note(f"2 GiB in {FILES} files; 5 % changed: committed after {push[1]:.2f} s "
         f"(the first: {push[0]:.2f} s)")


def committed(cluster: BenchCluster, count: int) -> dict:
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        found = [one for trial in cluster.trials(1)
                 for one in cluster.json("trial", "show", trial["id"])["checkpoints"]] \
            if cluster.json("exp", "list")["items"] else []
        if len(found) >= count:
            return found[count - 1]
        time.sleep(0.1)
    raise SystemExit(f"checkpoints: no commit\n{cluster.logs()}")


def stored(cluster: BenchCluster) -> int:
    blobs = cluster.home / "home/clusters/it/head/blobs"
    return sum(path.stat().st_size for path in pathlib.Path(blobs).rglob("*") if path.is_file())


def seconds(text: str) -> float:
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
