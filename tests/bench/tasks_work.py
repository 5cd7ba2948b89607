"""Tasks and actors, measured in a driver: tasks_work.py rt|ray NAME… prints "FIGURE NAME VALUE"
for each of the figures. The same code runs with both packages; tasks.py starts it.

The cluster is up before it starts: RT_CLUSTER or RAY_ADDRESS names it.
"""

from __future__ import annotations

import os
import sys
import time

IS_RAY = sys.argv[1] == "ray"
BEGAN = time.monotonic()
if IS_RAY:
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import ray
else:
    import rt as ray

# Of what takes Ray minutes it does less: all but memory is compared as a rate.
TASKS = 20_000 if not IS_RAY else 4_000
CALLS = 20_000 if not IS_RAY else 4_000
IN_TURN = 2_000 if not IS_RAY else 500
ACTORS = 40 if not IS_RAY else 8
VALUES = 10_000 if not IS_RAY else 1_000
GROWTH = 100_000


def figure(name: str, value: float) -> None:
    print(f"FIGURE {name} {value!r}", flush=True)


def connect() -> None:
    if IS_RAY:
        ray.init(log_to_driver=False, logging_level="error")
    else:
        ray.init()


@ray.remote
def nothing() -> None:
    pass


@ray.remote
class Counter:
    def __init__(self) -> None:
        self.count = 0

    def add(self) -> int:
        self.count += 1
        return self.count


def warm() -> None:
    """All executors are there, and what a call costs is known."""
    for _ in range(3):
        ray.get([nothing.remote() for _ in range(1000)])


def first() -> None:
    """init() to the first result; the import of the package is told apart."""
    imported = time.monotonic() - BEGAN
    start = time.monotonic()
    connect()
    ray.get(nothing.remote())
    figure("first_ms", (time.monotonic() - start) * 1e3)
    figure("import_ms", imported * 1e3)


def tasks() -> None:
    warm()
    best = 0.0
    for _ in range(3):
        start = time.perf_counter()
        ray.get([nothing.remote() for _ in range(TASKS)])
        best = max(best, TASKS / (time.perf_counter() - start))
    figure("tasks_per_s", best)


def client() -> None:
    """One of several clients: its rate until a moment of the machine's monotonic clock."""
    warm()
    print("READY", flush=True)
    end = float(sys.stdin.readline())
    done, start = 0, time.monotonic()
    while time.monotonic() < end:
        ray.get([nothing.remote() for _ in range(500)])
        done += 500
    figure("client_tasks_per_s", done / (time.monotonic() - start))


def trip() -> None:
    warm()
    took = []
    for _ in range(IN_TURN):
        start = time.perf_counter()
        ray.get(nothing.remote())
        took.append(time.perf_counter() - start)
    took.sort()
    figure("trip_p50_us", took[len(took) // 2] * 1e6)
    figure("trip_p99_us", took[len(took) * 99 // 100] * 1e6)


def calls() -> None:
    counter = Counter.remote()
    ray.get([counter.add.remote() for _ in range(1000)])
    best = 0.0
    for _ in range(3):
        start = time.perf_counter()
        ray.get([counter.add.remote() for _ in range(CALLS)])
        best = max(best, CALLS / (time.perf_counter() - start))
    figure("calls_per_s", best)
    start = time.perf_counter()
    for _ in range(IN_TURN):
        ray.get(counter.add.remote())
    figure("calls_in_turn_per_s", IN_TURN / (time.perf_counter() - start))


def actors() -> None:
    ray.get(Counter.remote().add.remote())
    start = time.perf_counter()
    made = [Counter.remote() for _ in range(ACTORS)]
    ray.get([each.add.remote() for each in made])
    figure("actors_per_s", ACTORS / (time.perf_counter() - start))


def values() -> None:
    """1 GiB of numpy: put, get, sum, each against the same work on arrays of this process."""
    import numpy

    array = numpy.arange(1 << 27, dtype=numpy.int64)
    ray.get(ray.put(array[: 1 << 20]))
    copies, puts = [], []
    for _ in range(3):
        start = time.perf_counter()
        fresh = numpy.empty_like(array)
        numpy.copyto(fresh, array)
        copies.append(time.perf_counter() - start)
        del fresh
        ref = None
        start = time.perf_counter()
        ref = ray.put(array)
        puts.append(time.perf_counter() - start)
    figure("put_ratio", min(copies) / min(puts))
    figure("put_gib_per_s", 1 / min(puts))
    figure("put_first_ratio", min(copies) / puts[0])  # Into memory that is made for it.
    found = ray.get(ref)
    again = []
    for _ in range(20):
        start = time.perf_counter()
        found = ray.get(ref)
        again.append(time.perf_counter() - start)
    figure("get_again_ms", sorted(again)[10] * 1e3)
    sums: list[list[float]] = [[], []]
    for _ in range(5):
        for index, each in enumerate((array, found)):
            start = time.thread_time()  # Only of this thread, so other programs matter less.
            each.sum()
            sums[index].append(time.thread_time() - start)
    figure("sum_ratio", min(sums[0]) / min(sums[1]))


def wait() -> None:
    warm()
    left = [nothing.remote() for _ in range(VALUES)]
    ray.get(left)
    start, cpu = time.perf_counter(), time.thread_time()
    count = len(left)
    while left:
        _, left = ray.wait(left)
    figure("wait_s", time.perf_counter() - start)
    figure("wait_cpu_s", time.thread_time() - cpu)
    figure("wait_count", count)


def growth() -> None:
    """Resident bytes that 100 000 tasks add in this process and in the daemons: with all
    references held, and once they are gone."""
    warm()
    pids = [os.getpid(), *map(int, os.environ.get("RT_BENCH_PIDS", "").split())]
    before = [resident(pid) for pid in pids]
    refs = [nothing.remote() for _ in range(GROWTH)]
    ray.get(refs)
    figure("growth_held_mb", (resident(pids[0]) - before[0]) / 1e6)
    del refs
    ray.get(nothing.remote())
    after = [resident(pid) for pid in pids]
    figure("growth_driver_mb", (after[0] - before[0]) / 1e6)
    figure("growth_daemons_mb", (sum(after[1:]) - sum(before[1:])) / 1e6)


def resident(pid: int) -> int:
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


WORK = {each.__name__: each for each in
        (first, tasks, client, trip, calls, actors, values, wait, growth)}

if __name__ == "__main__":
    if sys.argv[2:] != ["first"]:
        connect()
    for name in sys.argv[2:]:
        WORK[name]()
