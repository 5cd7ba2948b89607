"""What a worker's daemon keeps in memory after it has run much: `worker_memory`."""

from __future__ import annotations

import os
import pathlib
import re
import time

from rt_cluster import BIN, BenchCluster, note, print_bench

TRIALS = 3_000
WRITERS, WRITTEN_BYTES = 24, 20_000_000
SAVERS, SAVES, SAVED_BYTES = 12, 3, 20_000_000
JOBS, BUNDLE_BYTES = 5, 30_000_000
IDLE_S = 25  # Memory is given back within 10 s, and what was kept for then within the next 10.


def resident_mb(pid: int) -> float:
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"^VmRSS:\s+(\d+)", text, re.M)
    assert found is not None
    return int(found.group(1)) * 1024 / 1e6


def program(cluster: BenchCluster, name: str, text: str) -> None:
    path = cluster.work / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def worker_memory(_peers: bool) -> None:
    """Trials that do nothing, then some that write files and checkpoints, then large bundles."""
    with BenchCluster(workers=1, cpus=4) as cluster:
        pids = {part: cluster.pid(part) for part in ("worker-1", "head")}
        sizes = {part: [resident_mb(pid)] for part, pid in pids.items()}

        def look() -> None:
            for part, pid in pids.items():
                sizes[part].append(resident_mb(pid))

        cluster.run_experiment("short", "experiment: short\ncommand: [/bin/true]\n"
                                        f"num_samples: {TRIALS}\n")
        look()
        program(cluster, "write.sh", f"head -c {WRITTEN_BYTES} /dev/urandom > out")
        cluster.run_experiment("write", "experiment: write\ncommand: [./write.sh]\n"
                                        f"num_samples: {WRITERS}\n")
        look()
        program(cluster, "save.sh", f"""
for i in $(seq {SAVES}); do
  made=$(mktemp -d)
  head -c {SAVED_BYTES} /dev/urandom > $made/weights
  {BIN / "rt"} report loss=$i --step $i --checkpoint $made
done""")
        cluster.run_experiment("save", "experiment: save\ncommand: [./save.sh]\nmetric: loss\n"
                                       f"mode: min\nnum_samples: {SAVERS}\n")
        look()
        for _ in range(JOBS):
            (cluster.work / "data").write_bytes(os.urandom(BUNDLE_BYTES))
            cluster.rt("submit", "/bin/true")
        look()
        time.sleep(IDLE_S)
        look()
    for part, name, bar in (("worker-1", "worker_memory", 70), ("head", "head_memory_after", 120)):
        print_bench(name, sizes[part][-1], "MB", f"<={bar}", "none")
        note(f"{part} at the start {sizes[part][0]:.0f} MB; after {TRIALS} short trials "
             f"{sizes[part][1]:.0f}, {WRITERS} that write {WRITTEN_BYTES / 1e6:.0f} MB "
             f"{sizes[part][2]:.0f}, {SAVERS * SAVES} checkpoints of {SAVED_BYTES / 1e6:.0f} MB "
             f"{sizes[part][3]:.0f}, {JOBS} bundles of {BUNDLE_BYTES / 1e6:.0f} MB "
             f"{sizes[part][4]:.0f}, and {IDLE_S} s later {sizes[part][5]:.0f}")
