"""Tasks and an actor whose executors, processes and worker daemon are killed at random.

    RT_BIN=build/release/bin build/venv/bin/python tests/chaos/tasks.py [--rounds 100] [--seed 1]

A round is a script on an embedded cluster: 10 000 tasks (--tasks), most of them submitted by other
tasks, and an actor. Meanwhile processes of the round are killed with SIGKILL, chosen by the seed.
Every result must be right; only a task that is not to be tried again may end with an error, which
names what ended it. Afterwards the script has no value, task or descriptor left, and the machine
no process and no file of the round. The exit code is the number of rounds that failed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
MARK = "RT_CHAOS_ROUND"
VICTIMS = ("executor", "process", "process", "worker")
ROUND_S = 300.0  # A round takes seconds; one that hangs has failed.
ENDS_WITHIN_S = 30.0

SCRIPT = """
import gc, os, sys, time
import rt as ray
from rt.core._current import get_client

count = int(sys.argv[1])
ray.init(num_cpus=4)

@ray.remote(max_retries=-1)
def leaf(n):
    return n * n

@ray.remote(max_retries=-1)
def node(n):
    return sum(ray.get([leaf.remote(n + i) for i in range(4)]))

@ray.remote(max_retries=-1)
def large(n):
    return bytes([n % 256]) * 200_000

@ray.remote(max_retries=0)
def once(n):
    time.sleep(0.001)
    return n

@ray.remote(max_restarts=-1, max_task_retries=-1)
class Sums:
    def total(self, *values):
        return sum(values)

def check(is_right, what):
    if not is_right:
        print("WRONG", what, flush=True)
        os._exit(1)

def descriptors():
    return len(os.listdir("/proc/self/fd"))

def until(holds, what):
    end = time.monotonic() + 30
    while not holds():
        if time.monotonic() > end:
            check(False, what())
        time.sleep(0.02)

hub = get_client()
ray.get(node.remote(0))
until(lambda: not any(pool.slots for pool in hub.schedule.pools.values()), lambda: "idle slots")
before = descriptors()
print("began", flush=True)
sums = Sums.remote()
nodes = [node.remote(n) for n in range(count // 5 * 9 // 10)]
blobs = [large.remote(n) for n in range(count // 200)]
single = [once.remote(n) for n in range(count // 20)]
totals = [sums.total.remote(*nodes[n:n + 10]) for n in range(0, len(nodes) - 10, 40)]
square = lambda n: sum((n + i) ** 2 for i in range(4))
for n, ref in enumerate(nodes):
    check(ray.get(ref, timeout=240) == square(n), f"node {n}")
for n, ref in enumerate(totals):
    right = sum(square(40 * n + i) for i in range(10))
    check(ray.get(ref, timeout=240) == right, f"total {n}")
for n, ref in enumerate(blobs):
    check(ray.get(ref, timeout=240) == bytes([n % 256]) * 200_000, f"large {n}")
crashed = 0
for n, ref in enumerate(single):
    try:
        check(ray.get(ref, timeout=240) == n, f"once {n}")
    except ray.exceptions.WorkerCrashedError as error:
        check("once" in str(error) and "ended: " in str(error), str(error))
        crashed += 1
print("computed", flush=True)
nodes = totals = blobs = single = sums = ref = None
gc.collect()

def is_empty():
    with hub.lock:
        hub.drain()
        return not hub.entries and not hub.tasks and not hub.store_of._used

def what_is_left():
    values = [(number, entry.count, entry.is_ready, bool(entry.task))
              for number, entry in hub.entries.items()]
    actors = [(each.id, each.state, each.is_ending, each.waiting)
              for each in hub.actors.by_id.values()]
    return f"values {values}, tasks {list(hub.tasks)}, actors {actors} are left"

until(is_empty, what_is_left)
until(lambda: descriptors() <= before, lambda: f"{descriptors()} descriptors, before {before}")
print("right", crashed, flush=True)
ray.shutdown()
"""


def processes(mark: str) -> dict[int, str]:
    """The command lines of the processes of a round, by pid."""
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                if f"{MARK}={mark}".encode() not in file.read().split(b"\0"):
                    continue
            with open(f"/proc/{name}/cmdline", "rb") as file:
                found[int(name)] = file.read().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # It has ended.
    return found


def parent_of(pid: int) -> int:
    """0: it has ended."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return int(file.read().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def victims(mark: str) -> dict[str, list[int]]:
    """What may be killed, by kind, in the order of the pids."""
    found = processes(mark)
    python = {pid: parent_of(pid) for pid, text in found.items() if "rt._executor" in text}
    # The fork server's children are executors, and their children run tasks or the actor.
    servers = {pid for pid, parent in python.items() if parent not in python}
    executors = {pid for pid, parent in python.items() if parent in servers}
    return {
        "worker": sorted(pid for pid, text in found.items() if "/rt-worker " in text),
        "executor": sorted(executors),
        "process": sorted(pid for pid, parent in python.items() if parent in executors),
    }


def kill_some(
    script: subprocess.Popen[str], output: pathlib.Path, mark: str, rng: random.Random, kills: int,
    folders: set[str],
) -> list[str]:
    """Kills processes of the round until it has enough, or the script has computed its results.
    Notes the folders of its daemons."""
    done: list[str] = []
    while len(done) < kills and script.poll() is None:
        time.sleep(rng.uniform(0.02, 0.25))  # The pace of the kills.
        text = output.read_text()
        folders.update(re.findall(r"/tmp/rt-\w+", " ".join(processes(mark).values())))
        if "computed" in text:
            break
        found = victims(mark)
        choice = found[rng.choice(VICTIMS)] if "began" in text else []
        # A daemon that is killed as soon as it is up is started ever later: nothing else happens.
        if choice and found["executor"]:
            pid = rng.choice(choice)
            with contextlib.suppress(ProcessLookupError):
                kind = next(kind for kind, pids in found.items() if pid in pids)
                os.kill(pid, signal.SIGKILL)
                done.append(kind)
    return done


def run_round(seed: int, tasks: int, kills: int) -> str:
    """What was wrong; empty: nothing."""
    mark = f"{os.getpid()}-{seed}"
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="rt-chaos-tasks-") as made:
        folder = pathlib.Path(made)
        temporary = folder / "tmp"
        temporary.mkdir()
        (folder / "script.py").write_text(SCRIPT)
        env = {name: value for name, value in os.environ.items() if not name.startswith("RT_")}
        env |= {MARK: mark, "RT_BIN": os.environ.get("RT_BIN", str(ROOT / "build/release/bin")),
                "PYTHONPATH": str(ROOT / "python"), "RT_HOME": str(folder / "home"),
                "TMPDIR": str(temporary)}  # fmt: skip
        output, folders = folder / "output", set[str]()
        with open(output, "w") as file, subprocess.Popen(
            [sys.executable, str(folder / "script.py"), str(tasks)], env=env, cwd=folder, text=True,
            stdout=file, stderr=subprocess.STDOUT,
        ) as script:  # fmt: skip
            rng = random.Random(seed)
            killed = kill_some(script, output, mark, rng, kills, folders)
            try:
                script.wait(timeout=ROUND_S)
            except subprocess.TimeoutExpired:
                script.send_signal(signal.SIGINT)  # Its traceback says where it waits.
                script.wait(timeout=ENDS_WITHIN_S)
        out = output.read_text()
        wrong = "" if script.returncode == 0 and "right" in out else out
        end = time.monotonic() + ENDS_WITHIN_S
        while processes(mark) and time.monotonic() < end:
            time.sleep(0.05)
        left = processes(mark)
        if left:
            wrong += f"\nprocesses are left: {left}"
            for pid in left:
                os.kill(pid, signal.SIGKILL)
        files = [str(each.relative_to(temporary)) for each in temporary.rglob("*")]
        files += [each for each in sorted(folders) if os.path.exists(each)]
        if files:
            wrong += f"\nfiles are left: {files[:10]}"
    counts = {kind: killed.count(kind) for kind in sorted(set(killed))}
    print(f"round {seed}: {'FAILED' if wrong else 'right'}, {time.monotonic() - began:.1f} s, "
          f"killed {counts}", flush=True)  # fmt: skip
    return wrong


def main() -> int:
    """The number of rounds that failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--kills", type=int, default=40, help="of one round, at most")
    given = parser.parse_args()
    failed = 0
    for seed in range(given.seed, given.seed + given.rounds):
        wrong = run_round(seed, given.tasks, given.kills)
        failed += bool(wrong)
        if wrong:
            print(wrong, flush=True)
    print(f"{failed} of {given.rounds} rounds failed")
    return min(failed, 100)


if __name__ == "__main__":
    sys.exit(main())
