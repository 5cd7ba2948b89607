"""Tasks of a driver outside of the cluster: `outside_tasks`. Its bytes go through `rt bridge`, the
head and the daemon of the executor's node (adr/0041), which are all on this machine here.

    outside_first_ms      from `rt.init()` to the first result, median of 5
    outside_tasks_per_s   20 000 no-op tasks submitted together, best of 3
    outside_trip_p50_us   2 000 tasks one after another; outside_trip_p99_us
    outside_value_s       50 MB that a task takes, and other 50 MB that it returns, median of 3
"""

from __future__ import annotations

import os
import pathlib
import statistics
import subprocess

from rt_cluster import BenchCluster, interpreter, note, print_bench, python_env
from tasks import Figures, read_figures

FIRSTS = 5
VALUE_BYTES = 50_000_000
ROWS = (
    ("first_ms", "ms", "<=600"),
    ("tasks_per_s", "tasks/s", ">=3000"),
    ("trip_p50_us", "us", "<=2000"),
    ("trip_p99_us", "us", "<=10000"),
    ("value_s", "s", "<=2"),
)

# Executors of this machine would be reached on their sockets otherwise.
ELSEWHERE = """
import os, sys, time
import rt as ray
import rt.core._session as session

session.boot_id = lambda: "elsewhere"

@ray.remote
def nothing():
    pass

begun = time.perf_counter()
ray.init()
ray.get(nothing.remote())
first = time.perf_counter() - begun
"""
FIRST = ELSEWHERE + """
print("FIGURE first_ms", first * 1e3)
"""
SCRIPT = ELSEWHERE + f"""
@ray.remote
def back(value):
    return value[1:] + value[:1]

def seconds(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start

ray.get([nothing.remote() for _ in range(2000)])
count = 20_000
took = min(seconds(lambda: ray.get([nothing.remote() for _ in range(count)])) for _ in range(3))
print("FIGURE tasks_per_s", count / took)
trips = sorted(seconds(lambda: ray.get(nothing.remote())) for _ in range(2000))
print("FIGURE trip_p50_us", trips[len(trips) // 2] * 1e6)
print("FIGURE trip_p99_us", trips[len(trips) * 99 // 100] * 1e6)

def travel():
    value = os.urandom({VALUE_BYTES})
    found = []
    took = seconds(lambda: found.append(ray.get(back.remote(ray.put(value)))))
    assert found[0] == value[1:] + value[:1]
    return took

print("FIGURE value_s", sorted(travel() for _ in range(3))[1], flush=True)
"""


def outside_tasks(_with_peers: bool) -> None:
    """A driver that is not in the cluster, on a cluster of one worker with 2 cpus that is up."""
    with BenchCluster(workers=1, cpus=2) as cluster:
        env = {**cluster.env, **python_env(), "RT_CLUSTER": "it"}
        firsts = [_run(cluster.work, FIRST, env)["first_ms"] for _ in range(FIRSTS)]
        before = cluster.cpu_s()
        found = {**_run(cluster.work, SCRIPT, env), "first_ms": statistics.median(firsts)}
        after = cluster.cpu_s()
    for name, unit, bar in ROWS:
        print_bench(f"outside_{name}", found[name], unit, bar, "none")
    note(f"cpu: head {after['head'] - before['head']:.1f} s, "
         f"worker {after['worker-1'] - before['worker-1']:.1f} s; load {os.getloadavg()[0]:.1f}")


def _run(folder: pathlib.Path, text: str, env: dict[str, str]) -> Figures:
    (folder / "outside.py").write_text(text)
    done = subprocess.run([interpreter(), "outside.py"], cwd=folder, env=env, text=True,
                          capture_output=True, stdin=subprocess.DEVNULL, timeout=300)
    if done.returncode != 0:
        raise SystemExit(f"outside_tasks: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return read_figures(done.stdout)
