"""Figures of a head with many nodes: `dispatch` and `many_nodes` (light workers, real mTLS)."""

from __future__ import annotations

import datetime
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

from rt_cluster import BIN, note, print_bench

DISPATCH_NODES, DISPATCH_SLOTS, DISPATCH_TRIALS = 50, 4, 20_000
MANY_NODES, MANY_TRIALS, MANY_SECONDS = 200, 1_000, 30
STATUS_CALLS = 100
FLEET_NODES, FLEET_TRIALS, FLEET_SECONDS = 1_000, 10_000, 60


class LightCluster:
    """A head started by hand and a process that is its nodes."""

    def __init__(self, nodes: int, slots: int, reports: bool = False) -> None:
        self.home = pathlib.Path(tempfile.mkdtemp(prefix="rt-light-"))
        self.env = {**os.environ, "RT_HOME": str(self.home / "home"),
                    "RT_RESULTS": str(self.home / "results")}
        state = self.home / "state"
        self.log = open(self.home / "head.log", "w")
        self.head = subprocess.Popen(
            [str(BIN / "rt-head"), "--state-dir", str(state), "--listen", "127.0.0.1:0"],
            env=self.env, stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL)
        address = state / "address"
        end = time.monotonic() + 20
        while not address.exists():
            if time.monotonic() > end or self.head.poll() is not None:
                raise SystemExit(f"the head does not start: {self.home / 'head.log'}")
            time.sleep(0.01)
        self.rt("context", "add", "light", "--from", str(state / "admin"))
        self.rt("context", "use", "light")
        arguments = [str(BIN / "bench_light_workers"), address.read_text().strip(),
                     str(state / "admin"), str(self.home / "nodes"), str(nodes), str(slots)]
        self.nodes = subprocess.Popen(arguments + (["reports"] if reports else []), text=True,
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.nodes.stdout is not None
        if self.nodes.stdout.readline() != "ready\n":
            raise SystemExit("the light workers did not join")

    def __enter__(self) -> LightCluster:
        return self

    def __exit__(self, *_: object) -> None:
        assert self.nodes.stdin is not None
        self.nodes.stdin.close()
        self.nodes.wait(30)
        self.head.terminate()
        self.head.wait(30)
        self.log.close()
        subprocess.run(["rm", "-rf", str(self.home)], check=True)

    def rt(self, *args: str) -> str:
        done = subprocess.run([str(BIN / "rt"), *args], env=self.env, capture_output=True,
                              text=True, cwd=self.home, stdin=subprocess.DEVNULL, timeout=300)
        if done.returncode != 0:
            raise SystemExit(f"rt {' '.join(args)} -> {done.returncode}\n{done.stderr}")
        return done.stdout

    def stats(self) -> dict:
        assert self.nodes.stdin is not None and self.nodes.stdout is not None
        self.nodes.stdin.write("\n")
        self.nodes.stdin.flush()
        return json.loads(self.nodes.stdout.readline())

    def experiment(self) -> dict:
        return json.loads(self.rt("exp", "show", "last", "-o", "json"))

    def submit(self, name: str, text: str) -> None:
        path = self.home / f"{name}.yaml"
        path.write_text(text)
        self.rt("submit", "--detach", str(path))

    def cpu_s(self, pid: int) -> float:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return sum(int(field) for field in fields[11:13]) / os.sysconf("SC_CLK_TCK")

    def resident_mb(self) -> float:
        for line in pathlib.Path(f"/proc/{self.head.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        return 0.0


def dispatch(_peers: bool) -> None:
    """No-op trials through the head: placed, sent, started, ended, recorded, all sinks on."""
    with LightCluster(DISPATCH_NODES, DISPATCH_SLOTS) as cluster:
        cluster.submit("warm", "experiment: warm\ncommand: [/bin/true]\nnum_samples: 400\n")
        while cluster.experiment()["state"] != "COMPLETED":
            time.sleep(0.05)
        head, nodes = cluster.cpu_s(cluster.head.pid), cluster.cpu_s(cluster.nodes.pid)
        cluster.submit("dispatch", "experiment: dispatch\ncommand: [/bin/true]\n"
                                   f"num_samples: {DISPATCH_TRIALS}\n")
        while (done := cluster.experiment())["state"] != "COMPLETED":
            time.sleep(0.2)
        head = cluster.cpu_s(cluster.head.pid) - head
        nodes = cluster.cpu_s(cluster.nodes.pid) - nodes
        memory = cluster.resident_mb()
        listed = json.loads(cluster.rt("trial", "list", "--exp", str(done["id"]), "-o", "json"))
    if done["trials_by_state"]["COMPLETED"] != DISPATCH_TRIALS:
        raise SystemExit(f"dispatch: {done['trials_by_state']}")
    last = max(datetime.datetime.fromisoformat(trial["ended_at"].replace("Z", "+00:00"))
               for trial in listed["items"])
    first = datetime.datetime.fromisoformat(done["created_at"].replace("Z", "+00:00"))
    seconds = (last - first).total_seconds()
    print_bench("dispatch", DISPATCH_TRIALS / seconds, "trials/s", ">=5000", "none")
    note(f"{DISPATCH_TRIALS} trials, {DISPATCH_NODES} light workers x {DISPATCH_SLOTS} slots over "
         f"mTLS: {seconds:.2f} s to the last end, {done['elapsed_s']:.2f} s until all "
         f"directories are written and synced; head {memory:.0f} MB")
    note(f"cpu per trial: head {head / DISPATCH_TRIALS * 1e6:.0f} us, "
         f"all workers {nodes / DISPATCH_TRIALS * 1e6:.0f} us")


def many_nodes(_peers: bool) -> None:
    """What a head costs while many trials report once a second."""
    with LightCluster(MANY_NODES, MANY_TRIALS // MANY_NODES, reports=True) as cluster:
        cluster.submit("many", "experiment: many\ncommand: [/bin/true]\nmetric: loss\nmode: min\n"
                               f"num_samples: {MANY_TRIALS}\n")
        while cluster.experiment()["trials_by_state"]["RUNNING"] < MANY_TRIALS:
            time.sleep(0.1)
        cluster.stats()
        begin, rows = time.monotonic(), cluster.stats()["acked_rows"]
        head = cluster.cpu_s(cluster.head.pid)
        took = []
        for _ in range(STATUS_CALLS):
            start = time.perf_counter()
            cluster.rt("status", "-o", "json")
            took.append((time.perf_counter() - start) * 1e3)
            time.sleep(max(0.0, MANY_SECONDS / STATUS_CALLS - took[-1] / 1e3))
        seconds = time.monotonic() - begin
        head = cluster.cpu_s(cluster.head.pid) - head
        stats, memory = cluster.stats(), cluster.resident_mb()
        cluster.rt("exp", "stop", "last")
    p99 = statistics.quantiles(took, n=100)[98]
    peer = "Ray >1.6 GB, 3.4 s p99 (published)"
    print_bench("many_nodes_memory", memory, "MB", "<=150", peer)
    print_bench("many_nodes_status_p99", p99, "ms", "<=50", peer)
    print_bench("many_nodes_sync_p99", stats["sync_ms_p99"], "ms", "<=50", peer)
    note(f"{MANY_NODES} light workers, {MANY_TRIALS} trials, "
         f"{(stats['acked_rows'] - rows) / seconds:.0f} reports/s committed; "
         f"status median {statistics.median(took):.1f} ms (the command's own start included), "
         f"Sync median {stats['sync_ms_p50']:.1f} ms; head {head / seconds * 100:.0f} % of a core")


def fleet(_peers: bool) -> None:
    """Status of a head with 1 000 nodes while 10 000 trials report once a second."""
    with LightCluster(FLEET_NODES, FLEET_TRIALS // FLEET_NODES, reports=True) as cluster:
        cluster.submit("fleet", "experiment: fleet\ncommand: [/bin/true]\nmetric: loss\nmode: min\n"
                                f"num_samples: {FLEET_TRIALS}\n")
        while cluster.experiment()["trials_by_state"]["RUNNING"] < FLEET_TRIALS:
            time.sleep(0.5)
        rows, begin = cluster.stats()["acked_rows"], time.monotonic()
        head, nodes = cluster.cpu_s(cluster.head.pid), cluster.cpu_s(cluster.nodes.pid)
        time.sleep(FLEET_SECONDS)
        stats, seconds = cluster.stats(), time.monotonic() - begin
        head = (cluster.cpu_s(cluster.head.pid) - head) / seconds
        nodes = (cluster.cpu_s(cluster.nodes.pid) - nodes) / seconds
        memory = cluster.resident_mb()
        cluster.rt("exp", "stop", "last")
    print_bench("fleet_status_p99", stats["status_ms_p99"], "ms", "<=10", "none")
    note(f"{FLEET_NODES} light workers, {FLEET_TRIALS} trials, "
         f"{(stats['acked_rows'] - rows) / seconds:.0f} reports/s committed; Status over one "
         f"connection: median {stats['status_ms_p50']:.1f} ms of {stats['status_calls']} calls; "
         f"Sync p99 {stats['sync_ms_p99']:.1f} ms; head {memory:.0f} MB")
    note(f"cores: head {head:.2f}, light workers and their reports {nodes:.2f}")
