#!/usr/bin/env python3
"""Writes the tables of docs/search-quality.md about searches whose trials are compared at rungs.

    search_fidelity.py BENCH_FIDELITY FOLDER [--seeds 30:60] [--methods default,random]
                       [--problems mfh3_good] [--budget 100] [--table]

FOLDER keeps a file per problem and method, with a line per seed and budget. What is there is not
run again, so a run that was interrupted continues. `--table` runs nothing, and tells of how many
seeds each cell is.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
from pathlib import Path

PROBLEMS = ("mfh3_good", "mfh6_good", "mfh3_terrible", "mfh6_terrible", "counting8", "counting32")
METHODS = ("random", "asha", "hyperband", "default", "bohb", "dehb", "mobster")
BUDGETS = (20, 50, 100)

Runs = dict[tuple[int, int], float]  # Seed and budget: the regret.


def read(path: Path) -> Runs:
    """The regrets that the file has; a line that an interruption cut is left out."""
    known: Runs = {}
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            words = line.split()
            if len(words) == 7:
                known[int(words[2]), int(words[3])] = float(words[4])
    return known


def run_missing(bench: str, path: Path, problem: str, method: str, seeds: range,
                most: int) -> None:
    """Runs the seeds that the file lacks up to the budget `most`, one at a time."""
    for seed in seeds:
        known = read(path)
        if all((seed, budget) in known for budget in BUDGETS if budget <= most):
            continue
        command = [bench, f"problems={problem}", f"methods={method}", f"seeds={seed}:{seed + 1}",
                   f"budget={most}"]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(done.stdout)


def cell(runs: Runs, budget: int, seeds: range) -> str:
    """Median and quartiles, or nothing; the number of seeds where some are missing."""
    values = [runs[seed, budget] for seed in seeds if (seed, budget) in runs]
    if len(values) < 2:
        return ""
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    few = "" if len(values) == len(seeds) else f" ({len(values)} seeds)"
    return f"{middle:.3g} [{low:.3g} to {high:.3g}]{few}"


def table(folder: Path, problem: str, methods: list[str], seeds: range) -> str:
    """The problem in Markdown, a row per method."""
    lines = ["| " + " | ".join([problem, *(f"{budget} R" for budget in BUDGETS)]) + " |",
             "|---|" + "---|" * len(BUDGETS)]
    for method in methods:
        runs = read(folder / f"{problem}-{method}.txt")
        lines.append("| " + " | ".join([method, *(cell(runs, each, seeds) for each in BUDGETS)])
                     + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bench", help="the program bench_fidelity")
    parser.add_argument("folder", type=Path, help="where the runs are kept")
    parser.add_argument("--problems", default=",".join(PROBLEMS))
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--seeds", default="30:60", help="FROM:TO, without TO")
    parser.add_argument("--budget", type=int, default=BUDGETS[-1],
                        help="the largest; larger ones take most of the time")
    parser.add_argument("--table", action="store_true", help="run nothing")
    arguments = parser.parse_args()
    begin, end = (int(part) for part in arguments.seeds.split(":"))
    seeds, methods = range(begin, end), arguments.methods.split(",")
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for problem in arguments.problems.split(","):
        for method in methods:
            if not arguments.table:
                path = arguments.folder / f"{problem}-{method}.txt"
                run_missing(arguments.bench, path, problem, method, seeds,
                            arguments.budget)
        print(f"\n{table(arguments.folder, problem, methods, seeds)}", flush=True)


if __name__ == "__main__":
    main()
