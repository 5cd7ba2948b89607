#!/usr/bin/env python3
"""Times searches of real trainings until one is nearly as accurate as the best that is known.

    real_training.py FOLDER [--seeds 0:10] [--tasks mlp,xgboost,torch] [--sides rt,ray,…]
                     [--limit 120] [--table]

Run it with a Python that has scikit-learn, XGBoost, PyTorch, Optuna and Ray (for the sides that
are asked for), RT_BIN and PYTHONPATH of this tree. All sides have two slots, the same trainings
(real_work.py), spaces and rungs: rt `auto` with ASHA, Ray with ASHA and random configurations
(ray) or OptunaSearch (ray-optuna), Ray with BOHB (ray-bohb, which needs hpbandster and
ConfigSpace), and Optuna alone: its default sampler and successive halving in two processes. FOLDER
keeps a file per task and side, with a line per seed:

    SEED SECONDS START-UP TRIALS EPOCHS BEST

SECONDS are from the begin of the search to the first accuracy within 0.005 of the best known one,
START-UP those before it, and EPOCHS what was trained until then. A search that does not get there
has the limit. What is there is not run again, so a run that was interrupted continues. `--table`
runs nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
SIDES = ("rt", "ray", "ray-optuna", "ray-bohb", "optuna")
# The best of 200 trials of Optuna's TPE with successive halving.
BEST = {"mlp": 0.98889, "xgboost": 0.98243, "torch": 0.99167}
WITHIN = 0.005
SAMPLES = 5000  # More than any search gets to.


def read_log(log: pathlib.Path) -> tuple[float | None, list[tuple[float, float, str]]]:
    """When the search began, and (time, accuracy, trial) of each epoch of its trainings."""
    began, rows = None, []
    text = log.read_text(encoding="utf-8") if log.exists() else ""
    for line in text[: text.rfind("\n") + 1].splitlines():
        words = line.split()
        if words[0] == "begin":
            began = float(words[1])
        else:
            rows.append((float(words[0]), float(words[1]), words[2]))
    return began, rows


def end(process: subprocess.Popen) -> None:
    """Ends a search and what it started: Ctrl-C first."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGINT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=15)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def run(side: str, task: str, seed: int, limit: float) -> str:
    """The line of one search."""
    home = pathlib.Path(tempfile.mkdtemp(prefix="rt-real-"))
    log = home / "log"
    env = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "RT_CLUSTER": "",
           "RT_HOME": str(home / "home"), "RT_RESULTS": str(home / "results"),
           "RAY_USAGE_STATS_ENABLED": "0", "PYTHONPATH":
           f"{HERE}:{os.environ.get('PYTHONPATH', '')}", "REAL_TRAINING_LOG": str(log)}
    command = [sys.executable, str(HERE / "real_search.py"), side, task, str(seed), str(SAMPLES)]
    started = time.time()
    with (home / "output").open("wb") as output:
        process = subprocess.Popen(command, env=env, cwd=home, stdin=subprocess.DEVNULL,
                                   stdout=output, stderr=output, start_new_session=True)
        try:
            while True:
                time.sleep(0.02)
                began, rows = read_log(log)
                hits = [row[0] for row in rows if row[1] >= BEST[task] - WITHIN]
                if hits or (began is not None and time.time() - began > limit):
                    break
                is_late = began is None and time.time() > started + 120
                if process.poll() is not None or is_late:
                    tail = (home / "output").read_text(errors="replace")[-2000:]
                    raise SystemExit(f"{side} {task} {seed}: it ended too soon\n{tail}")
        finally:
            end(process)
    shutil.rmtree(home, ignore_errors=True)
    assert began is not None
    seconds = min(hits[0] - began, limit) if hits else limit
    until = [row for row in rows if not hits or row[0] <= hits[0]]
    trials = len({row[2] for row in until})
    best = max((row[1] for row in until), default=0.0)
    return f"{seed} {seconds:.3f} {began - started:.3f} {trials} {len(until)} {best:.5f}"


def table(folder: pathlib.Path, tasks: list[str], sides: list[str], seeds: range) -> str:
    """Medians and quartiles in Markdown, and the ratios of rt's medians."""
    lines = ["| training | side | s to the target | s with start-up | trials | epochs | seeds "
             "| rt's ratio |", "|---|---|---|---|---|---|---|---|"]
    for task in tasks:
        medians = {}
        for side in sides:
            path = folder / f"{task}-{side}.txt"
            text = path.read_text(encoding="utf-8") if path.exists() else ""
            runs = [[float(word) for word in line.split()] for line in text.splitlines()]
            runs = [each for each in runs if int(each[0]) in seeds]
            if len(runs) < 2:
                continue
            low, middle, high = statistics.quantiles([r[1] for r in runs], n=4, method="inclusive")
            whole = statistics.median(r[1] + r[2] for r in runs)
            medians[side] = (middle, whole)
            ratio = "" if side == "rt" or "rt" not in medians else (
                f"{medians['rt'][0] / middle:.2f} ({medians['rt'][1] / whole:.2f} with start-up)")
            trials, epochs = (statistics.median(each[i] for each in runs) for i in (3, 4))
            lines.append(f"| {task} | {side} | {middle:.1f} [{low:.1f} to {high:.1f}] "
                         f"| {whole:.1f} | {trials:.0f} | {epochs:.0f} | {len(runs)} | {ratio} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path, help="where the runs are kept")
    parser.add_argument("--tasks", default=",".join(BEST))
    parser.add_argument("--sides", default=",".join(SIDES))
    parser.add_argument("--seeds", default="0:10", help="FROM:TO, without TO")
    parser.add_argument("--limit", type=float, default=120, help="seconds that a search may take")
    parser.add_argument("--table", action="store_true", help="run nothing")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # It ends its search first.
    begin, stop = (int(part) for part in arguments.seeds.split(":"))
    tasks, sides = arguments.tasks.split(","), arguments.sides.split(",")
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for seed in range(begin, stop) if not arguments.table else ():
        for task in tasks:
            for side in sides:  # In turns, so that a busy machine is busy for all of them.
                path = arguments.folder / f"{task}-{side}.txt"
                known = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
                if not any(line.split()[0] == str(seed) for line in known):
                    line = run(side, task, seed, arguments.limit)
                    with path.open("a", encoding="utf-8") as file:
                        file.write(line + "\n")
    print(table(arguments.folder, tasks, sides, range(begin, stop)))


if __name__ == "__main__":
    main()
