"""Tasks on another node: `far_tasks`, on namespaces as nodes (tests/chaos), so it needs root.

    far_trip_p50_us   one task after another, from a job on one node to an executor on the other:
                      through both daemons and the network between
    far_value_ratio   bytes that leave the job's node for a value that four executors of the other
                      one use, over its size
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import tempfile

from rt_cluster import BIN, interpreter, note, print_bench, python_env
from tasks import read_figures

HERE = pathlib.Path(__file__).resolve().parent
CHAOS = HERE.parent / "chaos"
NODES = ("n1", "n2")
CPUS = 4
VALUE_BYTES = 20_000_000

TRIPS = 2_000

# The nodes are on one machine, and only their sockets tell them apart. Each has a resource with its
# name, so that the tasks run on the other one.
SCRIPT = f"""
import os, pathlib, subprocess, sys, time
import rt as ray
import rt.core._session as session

session.boot_id = lambda: "elsewhere"
files = pathlib.Path(sys.argv[1])
own = subprocess.run(["ip", "-o", "addr"], capture_output=True, text=True, check=True).stdout
(other,) = [name for name, address in (arg.split("=") for arg in sys.argv[2:])
            if address + "/" not in own]

@ray.remote(num_cpus=0, resources={{other: 1}})
def nothing():
    pass

@ray.remote(num_cpus=0, resources={{other: 1}})
def use(value, number):
    (files / f"met-{{number}}").touch()
    while len(list(files.glob("met-*"))) < {CPUS}:
        time.sleep(0.001)
    return len(value)

def crossed():
    (line,) = [line for line in open("/proc/net/dev") if "eth0:" in line]
    return int(line.split(":")[1].split()[8])  # Bytes that the node has sent.

def trip():
    start = time.perf_counter()
    ray.get(nothing.remote())
    return time.perf_counter() - start

ray.get([nothing.remote() for _ in range(1000)])
took = sorted([trip() for _ in range({TRIPS})][{TRIPS} // 10:])
print("FIGURE trip_p50_us", took[len(took) // 2] * 1e6)
print("FIGURE trip_p99_us", took[len(took) * 99 // 100] * 1e6)
before = crossed()
value = ray.put(b"x" * {VALUE_BYTES})
assert ray.get([use.remote(value, number) for number in range({CPUS})]) == [{VALUE_BYTES}] * {CPUS}
print("FIGURE value_ratio", (crossed() - before) / {VALUE_BYTES}, flush=True)
"""


def far_tasks(with_peers: bool) -> None:
    """Makes its namespaces, and measures inside."""
    del with_peers
    subprocess.run(["unshare", "--net", "--mount", sys.executable, __file__], check=True)


def main() -> None:
    sys.path[:0] = [str(CHAOS), str(CHAOS.parent / "integration")]
    from cluster import ChaosCluster
    from network import Network

    cluster = ChaosCluster(Network(list(NODES)), cpus=CPUS)
    for node in NODES:
        argv = cluster.daemons[node].argv
        argv[argv.index(f"cpu={CPUS}")] += f",{node}={CPUS}"
    try:
        cluster.up()
        measure(cluster)
    finally:
        cluster.close()


def measure(cluster) -> None:  # type: ignore[no-untyped-def]
    with tempfile.TemporaryDirectory(prefix="rt-bench-far-") as folder:
        (pathlib.Path(folder) / "script.py").write_text(SCRIPT)
        path = f"{pathlib.Path(interpreter()).parent}:{os.environ['PATH']}"
        done = subprocess.run(
            [str(BIN / "rt"), "-c", "it", "submit", "script.py", "--", folder,
             *(f"{node}={cluster.network.address(node)}" for node in NODES)],
            env={**cluster.env, **python_env(), "PATH": path}, cwd=folder, text=True,
            capture_output=True, timeout=300)
    if done.returncode != 0:
        raise SystemExit(f"far_tasks: {done.stdout[-2000:]}{done.stderr[-2000:]}{cluster.logs()}")
    found = read_figures(done.stdout)
    print_bench("far_trip_p50_us", found["trip_p50_us"], "us", "<=600", "none")
    print_bench("far_value_ratio", found["value_ratio"], "of its size", "<=1.1", "none")
    note(f"far_trip_p99_us {found['trip_p99_us']:.0f}; load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
