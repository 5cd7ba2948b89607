"""The end-to-end figures: bench.py [--peers] NAME… (run.sh prepares what it needs)."""

from __future__ import annotations

import argparse
import datetime
import os
import pathlib
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import checkpoints
import cloud
import data_sets
import digits
import elastic_accuracy
import elastic_lib
import elastic_live
import far_tasks
import freeze
import hosts
import light
import loss
import memory
import outside_tasks
import populations
import reports
import rt_cluster
import slow_store
import spread
import start
import tasks
import train
import trials
import worker_killed
import wrapped
from rt_cluster import BIN, ROOT

BENCHES = {
    "trials_1s": trials.trials_1s,
    "reports": reports.reports,
    "shell_trials": trials.shell_trials,
    "python_trials": trials.python_trials,
    "python_trials_1s": trials.python_trials_1s,
    "digits": digits.digits,
    "wrapped": wrapped.wrapped,
    "submit": start.submit,
    "idle": start.idle,
    "hosts": hosts.hosts,
    "cloud": cloud.cloud,
    "dispatch": light.dispatch,
    "many_nodes": light.many_nodes,
    "fleet": light.fleet,
    "loss": loss.loss,
    "worker_killed": worker_killed.worker_killed,
    "worker_memory": memory.worker_memory,
    "checkpoints": checkpoints.checkpoints,
    "slow_store": slow_store.slow_store,
    "fanout": spread.fanout,
    "clone": spread.clone,
    "exploit": populations.exploit,
    "verdict": populations.verdict,
    "train": train.train,
    "elastic_lib": elastic_lib.elastic_lib,
    "elastic_accuracy": elastic_accuracy.elastic_accuracy,
    "elastic_live": elastic_live.elastic_live,
    "data_torch": data_sets.data_torch,
    "data_map": data_sets.data_map,
    "tasks": tasks.tasks,
    "far_tasks": far_tasks.far_tasks,
    "outside_tasks": outside_tasks.outside_tasks,
    "freeze": freeze.freeze,
    "gpu_given_back": freeze.gpu_given_back,
}
PROGRAMS = {"core": "bench_core", "restart": "bench_restart", "status": "bench_status",
            "store": "bench_store", "next_trial": "bench_next_trial",
            "planner": "bench_planner", "elastic": "bench_elastic"}  # They print their own lines.


def fsync_us() -> float:
    """Median of appending 4 KiB and syncing it, where the clusters' journals will be."""
    took = []
    with tempfile.TemporaryFile() as file:
        for _ in range(200):
            file.write(b"x" * 4096)
            file.flush()
            begin = time.perf_counter()
            os.fdatasync(file.fileno())
            took.append(time.perf_counter() - begin)
    return statistics.median(took) * 1e6


def processor() -> str:
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def header() -> None:
    commit = subprocess.run(["git", "describe", "--always", "--dirty", "--abbrev=12"], cwd=ROOT,
                            capture_output=True, text=True).stdout.strip() or "unknown"
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    load = " ".join(f"{value:.2f}" for value in os.getloadavg())
    print(f"# {datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M} UTC, commit {commit}")
    print(f"# {processor()}, {len(os.sched_getaffinity(0))} cores, {memory:.0f} GiB, "
          f"Linux {platform.release()}, Python {platform.python_version()}")
    print(f"# fdatasync of 4 KiB: {fsync_us():.0f} us; load before: {load}", flush=True)


def slow_down(delay_ms: float) -> None:
    """Runs this program once more, with every sync of it and its children that much slower."""
    with tempfile.TemporaryDirectory() as directory:
        library = f"{directory}/slow_sync.so"
        source = pathlib.Path(__file__).with_name("slow_sync.c")
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, str(source), "-ldl"],
                       check=True)
        env = {**os.environ, "LD_PRELOAD": library,
               "RT_BENCH_SYNC_DELAY_US": str(int(delay_ms * 1000))}
        done = subprocess.run([sys.executable, *sys.argv], env=env)
    sys.exit(done.returncode)


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # So that clusters are taken down.
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--peers", action="store_true", help="measure Ray in the same run")
    parser.add_argument("--wheel", action="store_true",
                        help="measure the package as installed from its wheel, not the source tree")
    parser.add_argument("--repeats", type=int, default=loss.repeats,
                        help="of each loss of a node (default %(default)s)")
    parser.add_argument("--overload-s", type=float, default=loss.overload_s,
                        help="how long the processors are taken (default %(default)s)")
    parser.add_argument("--fsync-delay-ms", type=float, default=0,
                        help="make every sync to a disk this much slower")
    args = parser.parse_args()
    if args.fsync_delay_ms > 0 and "RT_BENCH_SYNC_DELAY_US" not in os.environ:
        slow_down(args.fsync_delay_ms)
    loss.repeats, loss.overload_s = args.repeats, args.overload_s
    rt_cluster.installed_package = args.wheel
    if args.wheel:  # Else a package or programs that the caller prefers would be measured.
        for name in ("PYTHONPATH", "RT_BIN"):
            os.environ.pop(name, None)
    unknown = set(args.names) - {*BENCHES, *PROGRAMS}
    if unknown:
        parser.error(f"no such figure: {', '.join(sorted(unknown))}; there are "
                     f"{', '.join([*BENCHES, *PROGRAMS])}")
    header()
    if args.wheel:
        rt_cluster.interpreter()  # Makes the wheel, if it is not there.
        print("# the package installed from its wheel", flush=True)
    # What one figure leaves is removed after the last: it would slow the next one down.
    with tempfile.TemporaryDirectory(prefix="rt-bench-") as folder:
        tempfile.tempdir = folder
        for name in args.names or [*BENCHES, *PROGRAMS]:
            if name in BENCHES:
                BENCHES[name](args.peers)
            else:
                subprocess.run([str(BIN / PROGRAMS[name])], check=True)
        tempfile.tempdir = None


main()
