"""What it costs to be there: `submit` (start, run nothing, stop) and `idle` (resident memory)."""

from __future__ import annotations

import pathlib
import statistics
import time

import peers
from rt_cluster import BIN, BenchCluster, note, print_bench, wall_of

SUBMITS = 5
SETTLE_S = 3.0


def submit(with_peers: bool) -> None:
    """`rt submit --start --stop` of an empty script, each time from nothing to nothing."""
    with BenchCluster(workers=1, cpus=2, daemons=False) as cluster:
        script = cluster.work / "empty.py"
        script.write_text("")
        argv = [str(BIN / "rt"), "submit", str(cluster.yaml), "--start", "--stop", str(script)]
        took = [wall_of(argv, cluster.work, cluster.env) for _ in range(SUBMITS)]
    print_bench("submit", statistics.median(took), "s", "<=1.5", peers.submit(with_peers))
    note(f"median of {SUBMITS}: " + " ".join(f"{seconds:.2f}" for seconds in took))


def memory_kib(pid: int) -> tuple[int, int]:
    """(resident, proportional) set size."""
    fields = {}
    for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
        name, value = line.split(":")
        fields[name] = int(value.split()[0])
    return fields["Rss"], fields["Pss"]


def idle(with_peers: bool) -> None:
    """A head and one worker that have nothing to do."""
    with BenchCluster(workers=1, cpus=2) as cluster:
        time.sleep(SETTLE_S)
        sizes = {part: memory_kib(cluster.pid(part)) for part in cluster.parts}
        threads = {part: len(list(pathlib.Path(f"/proc/{cluster.pid(part)}/task").iterdir()))
                   for part in cluster.parts}
    print_bench("idle", sum(rss for rss, _ in sizes.values()) * 1024 / 1e6, "MB", "<=60",
                peers.idle(with_peers))
    note("; ".join(f"{part}: resident {rss / 1024:.1f} MiB, proportional {pss / 1024:.1f} MiB, "
                   f"{threads[part]} threads" for part, (rss, pss) in sizes.items()))
