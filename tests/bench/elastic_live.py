"""`elastic_live`: 6 jobs of mixed sizes on 4 slots, resized by the head, against each at its best
fixed size, first come first served. The jobs sleep instead of training (elastic_live_job.py), so
that the figure is that of the scheduler and of real resizes, and not of the processor."""

from __future__ import annotations

import pathlib
import statistics
import sys
import time

from rt_cluster import BenchCluster, note, print_bench

from harness import wait_until  # isort: skip

JOB = pathlib.Path(__file__).resolve().parent / "elastic_live_job.py"
SLOTS, ROUNDS, ARRIVALS_S, INTERVAL_S = 4, 5, 1.0, 2
# Seconds with one rank, and seconds that each further rank adds to a step of 0.1 s.
JOBS = [(40.0, 0.002), (20.0, 0.002), (12.0, 0.05), (8.0, 0.5), (6.0, 0.002), (16.0, 0.05)]


def elastic_live(_with_peers: bool) -> None:
    ratios = []
    with BenchCluster(workers=1, cpus=SLOTS, daemons=False) as cluster:
        with open(cluster.yaml, "a", encoding="utf-8") as file:
            file.write(f"elastic: {{interval_s: {INTERVAL_S}}}\n")
        cluster.up()
        for turn in range(ROUNDS):
            fixed = _mean_completion(cluster, f"fixed-{turn}", elastic=False)
            resized = _mean_completion(cluster, f"elastic-{turn}", elastic=True)
            ratios.append(resized / fixed)
            note(f"mean completion: {fixed:.1f} s at fixed sizes, {resized:.1f} s elastic")
    print_bench("elastic_live_6_jobs_4_slots", statistics.median(ratios), "of_fixed", "<=0.8",
                "none")


def best_size(sync_s: float) -> int:
    """The most ranks that are used by half at least."""
    def efficiency(ranks: int) -> float:
        return 0.1 / (0.1 + sync_s * (ranks - 1))

    return max(ranks for ranks in range(1, SLOTS + 1) if efficiency(ranks) >= 0.5)


def _mean_completion(cluster: BenchCluster, name: str, elastic: bool) -> float:
    numbers = []
    for index, (work_s, sync_s) in enumerate(JOBS):
        begin = time.monotonic()
        ranks = f"[1, {SLOTS}]" if elastic else str(best_size(sync_s))
        path = cluster.home / f"{name}-{index}.yaml"
        path.write_text(f"""
experiment: {name}-{index}
command: [{sys.executable}, {JOB}, "{work_s}", "{sync_s}"]
resources: {{cpu: 1, ranks: {ranks}}}
""")
        numbers.append(cluster.json("submit", "--detach", str(path))["id"])
        time.sleep(max(0.0, ARRIVALS_S - (time.monotonic() - begin)))
    ended = [wait_until("a job has ended", lambda number=number: next(
        (one for one in [cluster.experiment(number)] if one["ended_at"]), None), 300)
        for number in numbers]
    states = {one["state"] for one in ended}
    assert states == {"COMPLETED"}, states
    return statistics.mean(one["elapsed_s"] for one in ended)
