"""The faults of disks (D), clocks (C), resources (R) and load (L); see faults.py."""

from __future__ import annotations

import os
import pathlib
import resource
import subprocess
import sys
from typing import Optional

import chain
from faults import FAULTS, Field, NoEffect, fault, kill
from harness import BIN, wait_until

SPINNERS = 40
WATCHERS = 24
AHEAD_S = 3600
__all__ = ["FAULTS"]  # All of them, with what is added here.


# --- D: disks -------------------------------------------------------------------------------------


@fault("D")
def full_head(field: Field) -> None:
    """The journal's disk is full: the head ends and says so; with room it goes on."""
    field.busy_node()
    head = field.cluster.head
    ballast = field.cluster.fill("head")
    try:
        status = wait_until("the head has ended", head.ended, 20)
    except AssertionError:
        raise NoEffect("the head had nothing to write") from None
    finally:
        ballast.unlink()
    assert status == 1, f"the head ended with {status}"
    text = (head.folder / "log").read_text(errors="replace")
    assert "Free some space there, then start it again." in text, text[-1000:]
    field.cluster.start_head()


@fault("D")
def full_worker(field: Field) -> None:
    """The disk of a node is full, with its spools, run directories and checkpoints."""
    node = field.busy_node()
    ballast = field.cluster.fill(node)
    field.hold(1, 3)
    ballast.unlink()


@fault("D")
def flip(field: Field) -> None:
    """One bit of the newest checkpoint's bytes flips, in the store and wherever a node keeps it,
    and its trial needs it."""
    trials = [pid for node in field.cluster.nodes for pid in field.trials_on(node)]
    field.must(bool(trials), "no trial ran any more")
    blobs = field.cluster.home / "head/blobs/chunks"
    chunks = [(path.stat().st_mtime_ns, path) for path in blobs.rglob("*") if path.is_file()
              and path.stat().st_size == field.search.checkpoint_bytes]
    field.must(bool(chunks), "no checkpoint is stored")
    newest = max(chunks)[1]
    right = newest.read_bytes()
    owner = owner_of(field, right)
    if owner is None:
        raise NoEffect("its trial is just ending")
    pid, k, attempt, step = owner
    field.search.broken.add((k, attempt, step))
    at = field.rng.randrange(len(right))
    wrong = bytes([right[at] ^ 1 << field.rng.randrange(8)])
    kept = [path for path in field.cluster.home.rglob("checkpoints/*/*")
            if path.is_file() and path.stat().st_size == len(right) and path.read_bytes() == right]
    for path in [newest, *kept]:
        with open(path, "r+b") as chunk:
            chunk.seek(at)
            chunk.write(wrong)
    kill(pid)

    def is_said() -> bool:
        shown = [field.cluster.trial(one["id"])
                 for one in field.cluster.trials(field.search.number)]
        return any("the checkpoint is broken" in (attempt["reason"] or "")
                   for trial in shown for attempt in trial["attempts"])
    try:
        wait_until("the broken checkpoint was met", is_said, 10)
    except AssertionError:
        raise NoEffect("a newer checkpoint was committed in time") from None


def owner_of(field: Field, weights: bytes) -> Optional[tuple[int, int, int, int]]:
    """(pid, k, attempt, step) of the trial whose checkpoint that is, if it still runs."""
    for node in field.cluster.nodes:
        for pid in field.trials_on(node):
            try:
                environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes().decode()
            except OSError:
                continue
            told = dict(line.split("=", 1) for line in environment.split("\0") if "=" in line)
            k = int(told["RT_TRIAL_ID"].split("/")[1])
            states = chain.states(field.search.seed, k, field.search.steps)
            for step, state in enumerate(states):
                if chain.weights_of(state, len(weights)) == weights:
                    return pid, k, int(told["RT_ATTEMPT"]), step
    return None


# --- C: clocks ------------------------------------------------------------------------------------


@fault("C")
def clock_ahead(field: Field) -> None:
    """A node comes back with steady clocks that are an hour ahead of the others'."""
    node = field.busy_node()
    daemon = field.cluster.daemons[node]
    field.network.kill_all(node)
    daemon.ended()
    daemon.start(["unshare", "--time", "--monotonic", str(AHEAD_S), "--boottime", str(AHEAD_S)])

    def is_shifted() -> bool:
        text = pathlib.Path(f"/proc/{daemon.pid}/cmdline").read_text()
        return text.startswith(daemon.argv[0]) and \
            os.readlink(f"/proc/{daemon.pid}/ns/time") != os.readlink("/proc/self/ns/time")
    try:
        wait_until("its clock is shifted", is_shifted, 5)
        wait_until("a trial runs there", lambda: field.trials_on(node), 5)
    except AssertionError as error:
        raise NoEffect(str(error)) from None


# --- R: resources ---------------------------------------------------------------------------------


@fault("R")
def busy_cpu(field: Field) -> None:
    """Twenty spinning processes for each of two cores."""
    field.busy_node()
    spinners = [subprocess.Popen([sys.executable, "-E", "-S", "-c", "while True: pass"])
                for _ in range(SPINNERS)]
    try:
        field.hold(1.5, 2.5)
    finally:
        for spinner in spinners:
            spinner.kill()
            spinner.wait()


@fault("R")
def few_files(field: Field) -> None:
    """No descriptor is left to a worker for a while: sockets, files and launches fail."""
    daemon = field.cluster.daemons[field.busy_node()]
    hard = resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE)[1]
    held = len(os.listdir(f"/proc/{daemon.pid}/fd"))
    before = resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (held, hard))
    field.hold(1, 3)
    resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, before)


# --- L: load --------------------------------------------------------------------------------------


@fault("L")
def many_watchers(field: Field) -> None:
    """People look: half of them read nothing of what they asked for."""
    field.busy_node()
    watchers = []
    for index in range(WATCHERS):
        out = subprocess.PIPE if index % 2 else subprocess.DEVNULL
        watchers.append(subprocess.Popen(
            [str(BIN / "rt"), "watch", str(field.search.number)], env=field.cluster.env,
            cwd=field.cluster.work, stdin=subprocess.DEVNULL, stdout=out,
            stderr=subprocess.DEVNULL))
    try:
        field.hold(2, 3)
        alive = sum(watcher.poll() is None for watcher in watchers)
        over = field.cluster.experiment(field.search.number)["state"] != "RUNNING"
        field.must(alive == WATCHERS or over, f"only {alive} watchers stayed")
    finally:
        for watcher in watchers:
            watcher.kill()
            watcher.wait()
            if watcher.stdout is not None:
                watcher.stdout.close()
