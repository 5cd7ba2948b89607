"""Checkpoints of 2 GiB on a worker and a head of one machine, over mTLS: `checkpoints`.

    checkpoint_blocked    how long report() keeps a trial that gives its files away
    checkpoint_push       from report() to the commit: hashed, sent, synced
    checkpoint_changed    new bytes in the store after 5 % of the tensors changed
    checkpoint_pull       the same bytes back, verified

The bars of push and pull are 85 % of a bare loop in the same run that reads, hashes, sends over
TLS, hashes and writes the same bytes with an fdatasync per file; beside the pull stands the loop
without one, because a pull leaves its files to the page cache. Pulls, loops and, with --peers,
restic's restores take turns, each from files that are not in the page cache: medians of ROUNDS.
"""

from __future__ import annotations

import collections
import datetime
import os
import pathlib
import shutil
import statistics
import subprocess
import time

from rt_cluster import BIN, BenchCluster, interpreter, note, print_bench, python_env

FILES, FILE_BYTES = 8, 256 << 20
TOTAL = FILES * FILE_BYTES
CHANGED = TOTAL // 20
ROUNDS = 5
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
    with BenchCluster(workers=1, cpus=1) as cluster:
        go = cluster.home / "go"
        (cluster.work / "save.py").write_text(PROGRAM)
        env = {**cluster.env, **python_env(), "RT_CLUSTER": "it"}
        driver = subprocess.Popen([interpreter(), "save.py", str(go)], env=env,
                                  cwd=cluster.work, stdin=subprocess.DEVNULL)
        try:
            first = committed(cluster, 1)
            before = stored(cluster)
            go.touch()
            second = committed(cluster, 2)
            grown = stored(cluster) - before
            assert driver.wait(timeout=120) == 0
            manifest = second["manifest"]
            tree = cluster.home / "pulled"
            # A virtual machine gets memory that it never had from its host, slowly: who comes
            # first would pay for all. So one pull before what is measured, and the same for all.
            pull(cluster, manifest, tree)
            rates = measure(cluster, manifest, tree, with_peers)
            shutil.rmtree(tree)
        finally:
            driver.kill()
        experiment = cluster.experiment(1)
        rows = cluster.rows(experiment, cluster.trials(1)[0])
    blocked = [row["blocked_s"] for row in rows if row["blocked_s"] >= 0]
    push = [seconds(one["committed_at"]) - row["began"]
            for one, row in zip((first, second), rows[::2])]
    print_bench("checkpoint_blocked", max(blocked) * 1e3, "ms", "<=50", "whole upload")
    middle = {what: statistics.median(each) for what, each in rates.items()}
    bare = middle["bare loop, fdatasync"]
    restic_backup = f"; restic backup {middle['restic backup']:.0f}" if with_peers else ""
    restic_restore = f"; restic restore {middle['restic restore']:.0f}" if with_peers else ""
    print_bench("checkpoint_push", TOTAL / MIB / push[0], "MiB/s", f">={0.85 * bare:.0f}",
                f"a bare loop {bare:.0f} MiB/s{restic_backup}; Ray 50-120 (published)")
    print_bench("checkpoint_changed", 100 * grown / TOTAL, "%_of_the_bytes", "<=6", "full copy")
    print_bench("checkpoint_pull", middle["pull"], "MiB/s", f">={0.85 * bare:.0f}",
                f"a bare loop {bare:.0f} MiB/s, {middle['bare loop']:.0f} without fdatasync"
                f"{restic_restore}; Ray 50-120 (published)")
    for what, each in rates.items():
        note(f"{what}: {' '.join(f'{rate:.0f}' for rate in each)} MiB/s")
    note(f"2 GiB in {FILES} files; 5 % changed: committed after {push[1]:.2f} s "
         f"(the first: {push[0]:.2f} s)")


def pull(cluster: BenchCluster, manifest: str, target: pathlib.Path) -> float:
    """Seconds that it takes to bring the tree to `target`."""
    began = time.perf_counter()
    cluster.bridge([{"op": "blob_pull_dir", "manifest": manifest, "target": str(target)}])
    return time.perf_counter() - began


def forget(directory: pathlib.Path) -> None:
    """Leaves nothing below it in the page cache."""
    for path in directory.rglob("*"):
        if path.is_file():
            with open(path, "rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def measure(cluster: BenchCluster, manifest: str, tree: pathlib.Path,
            with_restic: bool) -> dict[str, list[float]]:
    """MiB/s of each way to bring the bytes of `tree` to another directory, in turns."""
    rates: dict[str, list[float]] = collections.defaultdict(list)
    other = cluster.home / "other"
    blobs = cluster.home / "home/clusters/it/head/blobs"
    restic = Restic(cluster.home) if with_restic else None
    for number in range(ROUNDS):
        for what in ("bare loop, fdatasync", "bare loop"):
            forget(tree)
            rates[what].append(TOTAL / MIB / bare_loop(tree, other, "fdatasync" in what))
            shutil.rmtree(other)
        forget(blobs)
        rates["pull"].append(TOTAL / MIB / pull(cluster, manifest, other))
        shutil.rmtree(other)
        if restic is None:
            continue
        if number == 0:  # From files in the page cache, as those of the push are.
            rates["restic backup"].append(TOTAL / MIB / restic.backup(tree))
        forget(restic.repository)
        rates["restic restore"].append(TOTAL / MIB / restic.restore(other))
        shutil.rmtree(other)
    return rates


def bare_loop(tree: pathlib.Path, target: pathlib.Path, sync: bool) -> float:
    """Seconds of the least that a transfer of the tree's files must do."""
    took = 0.0
    target.mkdir()
    for shard in sorted(tree.iterdir()):
        done = subprocess.run([BIN / "bench_bare_transfer", shard, target / shard.name,
                               *(["sync"] if sync else [])], capture_output=True, text=True,
                              check=True)
        took += shard.stat().st_size / MIB / float(done.stdout)
    return took


class Restic:
    """Debian's package, with a repository on the same disk."""

    def __init__(self, home: pathlib.Path) -> None:
        if shutil.which("restic") is None:
            raise SystemExit("checkpoints --peers: apt-get install restic")
        self.repository = home / "restic"
        self.env = {**os.environ, "RESTIC_PASSWORD": "bench",
                    "RESTIC_REPOSITORY": str(self.repository),
                    "RESTIC_CACHE_DIR": str(home / "restic-cache")}
        self.run("init")

    def run(self, *arguments: str) -> float:
        began = time.perf_counter()
        subprocess.run(["restic", "-q", *arguments], env=self.env, check=True,
                       stdin=subprocess.DEVNULL)
        return time.perf_counter() - began

    def backup(self, tree: pathlib.Path) -> float:
        """Seconds."""
        for path in tree.rglob("*"):
            path.read_bytes()
        return self.run("backup", str(tree))

    def restore(self, target: pathlib.Path) -> float:
        """Seconds."""
        return self.run("restore", "latest", "--target", str(target))


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
