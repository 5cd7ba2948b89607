"""The digits search as a plain script, against the same processes in a bare loop."""

from __future__ import annotations

import concurrent.futures
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

import peers
from rt_cluster import ROOT, interpreter, note, print_bench, python_env, wall_of

TRIALS, EPOCHS, SLOTS = 48, 27, 2
SINGLES = 5  # Searches of one trial: the median counts.
HERE = pathlib.Path(__file__).resolve().parent


def two_cores() -> list[str]:
    """A plain script's cluster takes all cores: where there are more than two, it gets two."""
    cores = sorted(os.sched_getaffinity(0))
    return ["taskset", "-c", ",".join(map(str, cores[:SLOTS]))] if len(cores) > SLOTS else []


def bare_loop(work: list[tuple[int, pathlib.Path]], env: dict[str, str]) -> float:
    """Seconds for a process per trial, SLOTS at a time."""
    import time

    def one(item: tuple[int, pathlib.Path]) -> None:
        subprocess.run([*two_cores(), sys.executable, str(HERE / "bare_digits.py"), str(item[0]),
                        str(item[1])], env=env, check=True, stdin=subprocess.DEVNULL)

    start = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(SLOTS) as pool:
        list(pool.map(one, work))
    return time.monotonic() - start


def digits(with_peers: bool) -> None:
    """From nothing to nothing; the bare loop trains each trial's own configuration and epochs."""
    home = pathlib.Path(tempfile.mkdtemp(prefix="rt-bench-"))
    env = {**os.environ, "RT_HOME": str(home / "home"), "RT_RESULTS": str(home / "results"),
           "RT_CLUSTER": "", **python_env()}
    try:
        script = [*two_cores(), interpreter(), str(ROOT / "examples/digits/digits.py"),
                  "--epochs", str(EPOCHS), "--samples"]
        took = wall_of([*script, str(TRIALS)], home, env)
        work = [(len(path.read_text().splitlines()), path.parent / "params.json")
                for path in sorted((home / "results").glob("*/*/result.json"))]
        if len(work) != TRIALS:
            raise SystemExit(f"digits: results of {len(work)} trials, not of {TRIALS}")
        bare = bare_loop(work, env)
        singles = [wall_of([*script, "1"], home, env) for _ in range(SINGLES)]
    finally:
        shutil.rmtree(home, ignore_errors=True)
    print_bench("digits", took / bare, "x_bare_loop", "<=1.25", peers.digits(with_peers))
    print_bench("digits_search", took, "s", "<=4", peers.digits(False))
    print_bench("digits_one", statistics.median(singles), "s", "<=1.8",
                "8.3 s (recorded, Ray 2.60)")
    note(f"{TRIALS} trials, {sum(epochs for epochs, _ in work)} epochs: {took:.2f} s, the bare "
         f"loop of {TRIALS} processes, {SLOTS} at a time: {bare:.2f} s")
