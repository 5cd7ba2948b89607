"""Tasks and actors: `tasks`, one line for each row of the figures. The work is tasks_work.py,
which Ray runs, too, with --peers."""

from __future__ import annotations

import os
import pathlib
import statistics
import subprocess
import time
from typing import Callable

import peers
from rt_cluster import BenchCluster, interpreter, note, print_bench, python_env

SCRIPT = str(pathlib.Path(__file__).resolve().with_name("tasks_work.py"))
PARTS = ("tasks", "trip", "calls", "actors", "wait", "values")
FIRSTS, FIRSTS_OF_RAY = 7, 3
CLIENTS, CLIENTS_S = 4, 4.0
Figures = dict[str, float]
# Name, unit, bar; what Ray takes by its own documents or an earlier measurement.
ROWS = (
    ("tasks_per_s", "tasks/s", ">=10000", "2500 tasks/s"),
    ("tasks_per_s_4_clients", "tasks/s", ">=12000", "none"),
    ("calls_per_s", "calls/s", ">=20000", "7400 calls/s"),
    ("calls_in_turn_per_s", "calls/s", ">=6000", "1500 calls/s"),
    ("trip_p50_us", "us", "<=200", "1000 us"),
    ("trip_p99_us", "us", "<=1000", "none"),
    ("first_ms", "ms", "<=150", "3000 ms"),
    ("actors_per_s", "actors/s", ">=50", "2.9 actors/s"),
    ("put_ratio", "of memcpy", ">=0.7", "none"),
    ("get_again_ms", "ms", "<=1", "none"),
    ("sum_ratio", "of a local array", ">=0.9", "none"),
    ("wait_10000_s", "s", "<=0.3", "49 s"),
    ("growth_mb", "MB", "<=50", "none"),
)


def read_figures(text: str) -> Figures:
    """What tasks_work.py printed."""
    lines = [line.split() for line in text.splitlines() if line.startswith("FIGURE ")]
    return {name: float(value) for _, name, value in lines}


def measure(argv: list[str], env: dict[str, str], firsts_count: int) -> Figures:
    """The figures with a cluster that is up. argv: a Python with the package, and which it is."""

    def run(*names: str) -> Figures:
        done = subprocess.run([argv[0], SCRIPT, argv[1], *names], env=env, text=True,
                              capture_output=True, stdin=subprocess.DEVNULL, timeout=600)
        if done.returncode != 0:
            raise SystemExit(f"{names}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        return read_figures(done.stdout)

    firsts = [run("first") for _ in range(firsts_count)]
    found = {name: statistics.median(each[name] for each in firsts) for name in firsts[0]}
    for name in PARTS if argv[1] == "ray" else (*PARTS, "growth"):
        found.update(run(name))
    found["wait_10000_s"] = found["wait_s"] * 10_000 / found["wait_count"]
    return found


def with_clients(argv: list[str], env: dict[str, str]) -> float:
    """Tasks per second of several drivers at a time, on a cluster with a slot for each."""
    clients = [subprocess.Popen([argv[0], SCRIPT, argv[1], "client"], env=env, text=True,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE)
               for _ in range(CLIENTS)]
    try:
        for each in clients:
            while each.stdout.readline() not in ("READY\n", ""):
                pass
        start = time.monotonic()
        for each in clients:
            each.stdin.write(f"{start + CLIENTS_S}\n")
            each.stdin.flush()
        texts = [each.communicate(timeout=120)[0] for each in clients]
    finally:
        for each in clients:
            each.kill()
            each.wait()
    return sum(read_figures(text)["client_tasks_per_s"] for text in texts)


def guarded(work: Callable[[], Figures]) -> Figures | str:
    """What failed, as the peer's text."""
    try:
        return work()
    except (SystemExit, OSError, KeyError, subprocess.SubprocessError) as error:
        return f"Ray failed: {' '.join(str(error).split())[-200:]}"


def peer_text(name: str, unit: str, recorded: str, ray: Figures | str | None) -> str:
    if ray is None:
        return recorded if recorded == "none" else f"{recorded} (recorded)"
    if isinstance(ray, str):
        return ray
    return f"{ray[name]:.4g} {unit} (Ray, measured now)" if name in ray else "none"


def tasks(with_peers: bool) -> None:
    """Tasks and actors of a driver on a local cluster."""
    with BenchCluster(workers=1, cpus=2) as cluster:
        pids = " ".join(str(cluster.pid(part)) for part in cluster.parts)
        env = {**cluster.env, **python_env(), "RT_CLUSTER": "it", "RT_BENCH_PIDS": pids}
        found = measure([interpreter(), "rt"], env, FIRSTS)
    with BenchCluster(workers=1, cpus=CLIENTS) as cluster:
        env = {**cluster.env, **python_env(), "RT_CLUSTER": "it"}
        found["tasks_per_s_4_clients"] = with_clients([interpreter(), "rt"], env)
    found["growth_mb"] = found["growth_driver_mb"] + found["growth_daemons_mb"]
    load = os.getloadavg()[0]
    ray = guarded(ray_figures) if with_peers else None
    for name, unit, bar, recorded in ROWS:
        print_bench(name, found[name], unit, bar, peer_text(name, unit, recorded, ray))
    note(f"first_ms: median of {FIRSTS}, without the import of the package, which took "
         f"{found['import_ms']:.0f} ms; put: {found['put_gib_per_s']:.2f} GiB/s, "
         f"the first one {found['put_first_ratio']:.2f} of memcpy")
    note(f"growth: driver {found['growth_driver_mb']:.1f} MB ({found['growth_held_mb']:.1f} MB "
         f"with all references held), daemons {found['growth_daemons_mb']:.1f} MB; "
         f"wait: {found['wait_cpu_s']:.2f} s of cpu; load {load:.1f}")


def ray_figures() -> Figures:
    """The same with Ray, on clusters of its own."""
    with peers.ray_cluster(cpus=2) as (python, env):
        found = measure([python, "ray"], env, FIRSTS_OF_RAY)
    with peers.ray_cluster(cpus=CLIENTS) as (python, env):
        found["tasks_per_s_4_clients"] = with_clients([python, "ray"], env)
    return found
