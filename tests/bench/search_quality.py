#!/usr/bin/env python3
"""Writes the tables of docs/search-quality.md: simple regrets of the head's search algorithms.

    search_quality.py BENCH_SEARCH FOLDER [--algorithms tpe,cmaes,gp,auto] [--seeds 30:60]

FOLDER keeps a file per algorithm and case, with a line per function, seed and number of trials.
What is there is not run again, so a run that was interrupted continues. Delete a file to run its
case anew.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
from pathlib import Path
from typing import NamedTuple

FUNCTIONS = (
    "branin2", "hartmann3", "hartmann6", "rosenbrock2", "rosenbrock4", "ackley5", "levy4",
    "rastrigin4", "sphere10",
)


class Case(NamedTuple):
    """One table: its title, what bench_search is told, and the numbers of trials."""

    title: str
    arguments: tuple[str, ...]
    trials: tuple[int, ...]


def cases(algorithm: str) -> dict[str, Case]:
    """The tables of an algorithm. GP-BO is for fewer trials than the others."""
    marks = (50, 100) if algorithm == "gp" else (100, 200)
    count = f"trials={marks[-1]}"
    return {
        "plain": Case("one trial in flight", (count,), marks),
        "shifted": Case("the box moved by up to 25 %", (count, "shift=0.25"), marks),
        "wide": Case("16 trials in flight", ("trials=100", "in_flight=16"), (100,)),
    }


Key = tuple[str, int, int]  # Function, seed, trials.


def read(path: Path) -> dict[Key, float]:
    """The regrets that the file has; a line that an interruption cut is left out."""
    known: dict[Key, float] = {}
    if not path.exists():
        return known
    for line in path.read_text(encoding="utf-8").splitlines():
        words = line.split()
        if len(words) == 5:
            known[(words[0], int(words[1]), int(words[2]))] = float(words[4])
    return known


def run_missing(bench: str, path: Path, algorithm: str, case: Case, seeds: range) -> None:
    """Runs what the file lacks, a function and a seed at a time."""
    known = read(path)
    for function in FUNCTIONS:
        for seed in seeds:
            if all((function, seed, trials) in known for trials in case.trials):
                continue
            command = [bench, "raw", f"algorithm={algorithm}", f"functions={function}",
                       f"seeds={seed}:{seed + 1}", *case.arguments]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            with path.open("a", encoding="utf-8") as file:
                file.write(done.stdout)


def peers(bench: str, algorithm: str, case: Case) -> dict[tuple[str, int], float]:
    """Optuna's medians, as the program has them; nothing where none was measured."""
    command = [bench, "peers", f"algorithm={algorithm}", *case.arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    rows = [line.split() for line in done.stdout.splitlines()]
    return {(name, int(trials)): float(value) for name, trials, value in rows}


def table(path: Path, case: Case, seeds: range, optuna: dict[tuple[str, int], float]) -> str:
    """The case in Markdown: median, quartiles, Optuna's median and the ratio."""
    known = read(path)
    head = ["function"]
    for trials in case.trials:
        head += [f"{trials} trials", "Optuna", "ratio"] if optuna else [f"{trials} trials"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for function in FUNCTIONS:
        cells = [function]
        for trials in case.trials:
            values = [known[(function, seed, trials)] for seed in seeds]
            low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
            cells.append(f"{middle:.3g} [{low:.3g} to {high:.3g}]")
            peer = optuna.get((function, trials))
            if peer is not None:
                cells += [f"{peer:.3g}", f"**{middle / peer:.2g}**"]
            elif optuna:
                cells += ["", ""]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bench", help="the program bench_search")
    parser.add_argument("folder", type=Path, help="where the runs are kept")
    parser.add_argument("--algorithms", default="tpe,cmaes,gp,auto",
                        help="names, with commas between them")
    parser.add_argument("--seeds", default="30:60", help="FROM:TO, without TO")
    arguments = parser.parse_args()
    begin, end = (int(part) for part in arguments.seeds.split(":"))
    seeds = range(begin, end)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for algorithm in arguments.algorithms.split(","):
        for name, case in cases(algorithm).items():
            path = arguments.folder / f"{algorithm}-{name}.txt"
            run_missing(arguments.bench, path, algorithm, case, seeds)
            print(f"\n## {algorithm}, {case.title}\n")
            print(table(path, case, seeds, peers(arguments.bench, algorithm, case)), flush=True)


if __name__ == "__main__":
    main()
