#!/usr/bin/env python3
"""Runs tests that only compute beside all the others, on processors that would be idle.

    beside.py start FOLDER NAME…      what tests/run.sh begins with: those of FOLDER/*.json, two at
                                      once, in the order given; ends with them
    beside.py run FOLDER NAME         the ctest NAME: waits for it and prints what it printed; where
                                      tests/run.sh did not start it, runs it itself

CMake writes FOLDER/NAME.json, the command (rt_beside in tests/CMakeLists.txt). The programs have
the policy SCHED_IDLE: they also run beside tests that need the machine for themselves, and these do
not notice. Where the kernel shares out processors by session (sched_autogroup_enabled), a policy
holds within one session only, and the daemons of tests have theirs: this session comes last.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

STARTED = "RT_BESIDE"  # The process that started them, in the environment of ctest.
AT_ONCE = 2
PR_SET_PDEATHSIG = 1
LOOK_EVERY_S = 0.2


def command(folder: Path, name: str) -> list[str]:
    return [str(word) for word in json.loads((folder / f"{name}.json").read_text())]


def run(folder: Path, name: str) -> None:
    with (folder / f"{name}.out").open("wb") as out:
        done = subprocess.run(
            command(folder, name), stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
            preexec_fn=lambda: os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0)),
        )  # fmt: skip
    part = folder / f"{name}.part"
    part.write_text(f"{done.returncode}\n")
    part.rename(folder / f"{name}.status")


def start(folder: Path, names: list[str]) -> int:
    for name in names:
        (folder / f"{name}.status").unlink(missing_ok=True)
    os.setsid()
    with contextlib.suppress(FileNotFoundError):  # A kernel that shares out by process.
        Path("/proc/self/autogroup").write_text("19")
    # All of them end with tests/run.sh, however that ends.
    signal.signal(signal.SIGTERM, lambda *_: os.killpg(0, signal.SIGKILL))
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    print(os.getpid(), flush=True)  # From here on ctest may ask.
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(lambda name: run(folder, name), names))
    return 0


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def result(folder: Path, name: str) -> int:
    starter = os.environ.get(STARTED)
    if starter is None:
        return subprocess.run(command(folder, name)).returncode
    status = folder / f"{name}.status"
    while not status.exists():
        if not is_alive(int(starter)) and not status.exists():
            print(f"{name} has no result: the process that started it has ended")
            return 1
        time.sleep(LOOK_EVERY_S)
    sys.stdout.flush()
    sys.stdout.buffer.write((folder / f"{name}.out").read_bytes())
    code = int(status.read_text())
    if code < 0:
        print(f"{name} was ended by signal {-code} ({signal.Signals(-code).name})")
    return code if code >= 0 else 128 - code


def main(words: list[str]) -> int:
    if len(words) >= 2 and words[0] == "start":
        return start(Path(words[1]), words[2:])
    if len(words) == 3 and words[0] == "run":
        return result(Path(words[1]), words[2])
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
