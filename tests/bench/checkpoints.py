"""Checkpoints of 2 GiB on a worker and a head of one machine, over mTLS: `checkpoints`.

    checkpoint_blocked    how long report() keeps a trial that gives its files away
    checkpoint_push       from report() to the commit: hashed, sent, synced
    checkpoint_changed    new bytes in the store after 5 % of the tensors changed
    checkpoint_pull       the same bytes back, verified

The bars of push and pull are 85 % of a bare loop in the same run that reads, hashes, sends over
TLS, hashes and writes the same bytes: for the push with an fdatasync per file, for the pull from
files that are not in the page cache, to files that stay in it. With --peers, restic too.
"""

from __future__ import annotations

import datetime
import os
import pathlib
import shutil
import subprocess
import sys
import time

from rt_cluster import BIN, ROOT, BenchCluster, note, print_bench

FILES, FILE_BYTES = 8, 256 << 20
TOTAL = FILES * FILE_BYTES
CHANGED = TOTAL // 20
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
        env = {**cluster.env, "RT_CLUSTER": "it", "RT_BIN": str(BIN),
               "PYTHONPATH": str(ROOT / "python")}
        driver = subprocess.Popen([sys.executable, "save.py", str(go)], env=env,
                                  cwd=cluster.work, stdin=subprocess.DEVNULL)
        try:
            first = committed(cluster, 1)
            before = stored(cluster)
            go.touch()
            second = committed(cluster, 2)
            grown = stored(cluster) - before
            assert driver.wait(timeout=120) == 0
            manifest = second["manifest"]
            target = cluster.home / "pulled"
            # A virtual machine gets memory that it never had from its host, slowly: who comes
            # first would pay for all. So one pull before what is measured, and the same for both.
            pull(cluster, manifest, target)
            bare = {what: bare_rate(target, cluster.home / "bare", what == "push")
                    for what in ("push", "pull")}
            shutil.rmtree(target)
            forget(cluster.home / "home/clusters/it/head/blobs")
            pull_s = pull(cluster, manifest, target)
            if with_peers:
                restic(target, cluster.home)
            shutil.rmtree(target)
        finally:
            driver.kill()
        experiment = cluster.experiment(1)
        rows = cluster.rows(experiment, cluster.trials(1)[0])
    blocked = [row["blocked_s"] for row in rows if row["blocked_s"] >= 0]
    push = [seconds(one["committed_at"]) - row["began"]
            for one, row in zip((first, second), rows[::2])]
    print_bench("checkpoint_blocked", max(blocked) * 1e3, "ms", "<=50", "whole upload")
    print_bench("checkpoint_push", TOTAL / MIB / push[0], "MiB/s", f">={0.85 * bare['push']:.0f}",
                f"a bare loop {bare['push']:.0f} MiB/s; Ray 50-120 (published)")
    print_bench("checkpoint_changed", 100 * grown / TOTAL, "%_of_the_bytes", "<=6", "full copy")
    print_bench("checkpoint_pull", TOTAL / MIB / pull_s, "MiB/s", f">={0.85 * bare['pull']:.0f}",
                f"a bare loop {bare['pull']:.0f} MiB/s; Ray 50-120 (published)")
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


def bare_rate(tree: pathlib.Path, target: pathlib.Path, sync: bool) -> float:
    """MiB/s of the least that a transfer of the tree's files must do."""
    seconds_in_all = 0.0
    target.mkdir()
    if not sync:  # As in the store, which is written past the page cache.
        forget(tree)
    for shard in sorted(tree.iterdir()):
        done = subprocess.run([BIN / "bench_bare_transfer", shard, target / shard.name,
                               *(["sync"] if sync else [])], capture_output=True, text=True,
                              check=True)
        seconds_in_all += shard.stat().st_size / MIB / float(done.stdout)
    shutil.rmtree(target)
    return TOTAL / MIB / seconds_in_all


def restic(tree: pathlib.Path, home: pathlib.Path) -> None:
    """The same bytes by restic (Debian's package), in a repository on the same disk."""
    if shutil.which("restic") is None:
        raise SystemExit("checkpoints --peers: apt-get install restic")
    repository, back = home / "restic", home / "restic-back"
    env = {**os.environ, "RESTIC_PASSWORD": "bench", "RESTIC_REPOSITORY": str(repository),
           "RESTIC_CACHE_DIR": str(home / "restic-cache")}

    def run(*arguments: str) -> float:
        began = time.perf_counter()
        subprocess.run(["restic", "-q", *arguments], env=env, check=True, stdin=subprocess.DEVNULL)
        return time.perf_counter() - began

    run("init")
    backup, restore = run("backup", str(tree)), run("restore", "latest", "--target", str(back))
    note(f"restic backup {TOTAL / MIB / backup:.0f} MiB/s, restore "
         f"{TOTAL / MIB / restore:.0f} MiB/s; ours is to be twice as fast")
    for path in (repository, back):
        shutil.rmtree(path)


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
