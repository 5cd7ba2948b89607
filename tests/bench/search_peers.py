#!/usr/bin/env python3
"""Compares the head's search algorithms with Optuna on problems that both are given here.

    search_peers.py FOLDER [--cases noisy,mixed,…] [--seeds 0:15] [--run ours,optuna] [--table]
    search_peers.py FOLDER --latency

Ours is asked through rt.tune.search.Optimizer (set RT_BIN and PYTHONPATH); Optuna needs
`pip install optuna`, and torch for its GPSampler. FOLDER keeps a file per case and side with a line
per problem, seed and number of trials; what is there is not run again. Optuna's runs of the version
that docs/search-quality.md names are recorded in search/optuna-VERSION, and not run again either.
--table prints the medians. --latency times the next trial of a search that knows results.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
import warnings
from pathlib import Path
from typing import Any, Callable, NamedTuple

import search_problems as problems
from search_problems import Choice, Problem, Real, Whole


OPTUNA = "5.0.0"
RECORDED = Path(__file__).parent / "search" / f"optuna-{OPTUNA}"


class Case(NamedTuple):
    """The problems, and after how many trials they are compared."""

    title: str
    problems: dict[str, Problem]
    marks: tuple[int, ...]
    ours: str = "tpe"
    theirs: str = "default"
    shift: float = 0.0
    in_flight: int = 1


CASES = {
    "noisy": Case("noise of 5 % of the range", {n: problems.noisy(p) for n, p in
                                                problems.NINE.items()}, (100, 200)),
    "mixed": Case("numbers, whole numbers and categories", problems.MIXED, (100, 200)),
    "conditional": Case("parameters with conditions", problems.CONDITIONAL, (100, 200)),
    "wide": Case("40 parameters", problems.WIDE, (100, 200)),
    "noisy-cma": Case("CMA-ES, noise of 5 % of the range", {n: problems.noisy(p) for n, p in
                                                           problems.NINE.items()}, (100, 200),
                      "cmaes", "cmaes"),
    "mixed-cma": Case("CMA-ES, numbers, whole numbers and categories", problems.MIXED, (100, 200),
                      "cmaes", "cmaes"),
    "wide-cma": Case("CMA-ES, 40 parameters", problems.WIDE, (100, 200), "cmaes", "cmaes"),
    "between-cma": Case("CMA-ES, 12 and 25 parameters", problems.BETWEEN, (100, 200), "cmaes",
                        "cmaes"),
    "wide-shifted-cma": Case("CMA-ES, 25 and 40 parameters, the box moved by up to 25 %",
                             {**problems.BETWEEN, **problems.WIDE}, (100, 200), "cmaes", "cmaes",
                             0.25),
    "shifted": Case("the box moved by up to 25 %", problems.NINE, (100,), shift=0.25),
    "shifted-cma": Case("CMA-ES, the box moved by up to 25 %", problems.NINE, (100, 200),
                        "cmaes", "cmaes", 0.25),
    "shifted-gp": Case("GP-BO, the box moved by up to 25 %", problems.NINE, (50, 100), "gp", "gp",
                       0.25),
    "noisy-gp": Case("GP-BO, noise of 5 % of the range", {n: problems.noisy(p) for n, p in
                                                          problems.NINE.items()}, (50, 100),
                     "gp", "gp"),
    "mixed-gp": Case("GP-BO, numbers, whole numbers and categories", problems.MIXED, (50, 100),
                     "gp", "gp"),
    "conditional-gp": Case("GP-BO, parameters with conditions", problems.CONDITIONAL, (50, 100),
                           "gp", "gp"),
    "wide-gp": Case("GP-BO, 40 parameters", problems.WIDE, (50, 100), "gp", "gp"),
    "flight": Case("16 trials in flight", problems.NINE, (100,), in_flight=16),
    "flight-gp": Case("GP-BO, 16 trials in flight", problems.NINE, (100,), "gp", "gp",
                      in_flight=16),
    "several": Case("several objectives", problems.SEVERAL, (200,), "auto"),
    "several-gp": Case("several objectives, GP-BO", problems.SEVERAL, (100, 200), "gp"),
}  # fmt: skip


def our_space(problem: Problem) -> dict[str, Any]:
    """As rt writes it: a map with "if" holds what has a condition."""
    from rt import tune

    def domain(each: Any) -> Any:
        if isinstance(each, Real):
            return tune.uniform(each.lower, each.upper)
        if isinstance(each, Whole):
            return tune.randint(each.lower, each.upper + 1)
        return tune.choice(list(each.values))

    space: dict[str, Any] = {}
    for name, each in problem.space.items():
        if name in problem.conditions:
            parent, wanted = problem.conditions[name]
            inside = problem.conditions.get(parent)
            path = f"of {parent}/{parent}" if inside else parent
            space[f"of {name}"] = {"if": {path: wanted}, name: domain(each)}
        else:
            space[name] = domain(each)
    return space


def flat(config: dict[str, Any]) -> dict[str, Any]:
    """The configuration without the maps of conditions."""
    found: dict[str, Any] = {}
    for name, value in config.items():
        found.update(value if isinstance(value, dict) else {name: value})
    return found


class Ours:
    """rt's algorithm."""

    def __init__(self, problem: Problem, case: Case, seed: int) -> None:
        from rt.tune.search import Optimizer

        several = len(problem.reference)
        metric = [f"f{k}" for k in range(several)] if several else None
        self.search = Optimizer(our_space(problem), metric=metric,
                                mode=["min"] * several if several else "min",
                                algorithm=case.ours, seed=seed)

    def ask(self) -> tuple[Any, dict[str, Any]]:
        trial = self.search.ask()
        return trial, flat(trial.config)

    def tell(self, trial: Any, value: Any) -> None:
        self.search.tell(trial, value)

    def add(self, config: dict[str, Any], value: float) -> None:
        self.search.add(config, value)

    def close(self) -> None:
        self.search.close()


class Optuna:
    """Optuna's default sampler, or another one of it."""

    def __init__(self, problem: Problem, case: Case, seed: int) -> None:
        import optuna

        if optuna.__version__ != OPTUNA:
            raise SystemExit(f"Optuna {optuna.__version__} is installed: the runs in {RECORDED} "
                             f"are of {OPTUNA}; pip install optuna=={OPTUNA}")
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        warnings.filterwarnings("ignore")
        several = len(problem.reference)
        made = optuna.samplers
        if case.theirs == "cmaes":
            sampler: Any = made.CmaEsSampler(seed=seed)
        elif case.theirs == "gp":
            sampler = made.GPSampler(seed=seed, deterministic_objective=not problem.noise)
        else:  # As create_study chooses, with a seed.
            default = optuna.create_study(directions=["minimize"] * max(several, 1)).sampler
            sampler = type(default)(seed=seed)
        self.study = optuna.create_study(directions=["minimize"] * max(several, 1),
                                         sampler=sampler)
        self.problem = problem

    def ask(self) -> tuple[Any, dict[str, Any]]:
        trial = self.study.ask()
        config: dict[str, Any] = {}
        for name, each in self.problem.space.items():
            parent, wanted = self.problem.conditions.get(name, ("", ""))
            if parent and config.get(parent) != wanted:
                continue
            if isinstance(each, Real):
                config[name] = trial.suggest_float(name, each.lower, each.upper)
            elif isinstance(each, Whole):
                config[name] = trial.suggest_int(name, each.lower, each.upper)
            elif isinstance(each, Choice):
                config[name] = trial.suggest_categorical(name, each.values)
        return trial, config

    def tell(self, trial: Any, value: Any) -> None:
        self.study.tell(trial, value)

    def add(self, config: dict[str, Any], value: float) -> None:
        import optuna

        made = {name: optuna.distributions.FloatDistribution(each.lower, each.upper)
                for name, each in self.problem.space.items() if isinstance(each, Real)}
        self.study.add_trial(optuna.trial.create_trial(params=config, distributions=made,
                                                       value=value))

    def close(self) -> None:
        pass


def run(
    make: Callable[..., Any], name: str, case: Case, seed: int
) -> tuple[dict[int, float], float]:
    """The regret at each mark, or the hypervolume, and the seconds that the search took."""
    problem = case.problems[name]
    if case.shift:
        problem = problems.shifted(problem, case.shift, seed)
    search, noise = make(problem, case, seed), random.Random(f"noise {name} {seed}")
    order = random.Random(f"order {seed}")
    told, true, found, points = float("inf"), float("inf"), {}, []
    flying: list[Any] = []
    began, asked, count = time.process_time(), 0, 0
    while count < case.marks[-1]:
        while len(flying) < case.in_flight and asked < case.marks[-1]:
            flying.append(search.ask())
            asked += 1
        trial, config = flying.pop(order.randrange(len(flying)))
        value = problem.value(config)
        count += 1
        if problem.reference:
            search.tell(trial, value)
            points.append(value)
        else:
            seen = value + noise.gauss(0, problem.noise) if problem.noise else value
            search.tell(trial, seen)
            if seen < told:
                told, true = seen, value
        if count in case.marks:
            found[count] = volume(points, problem) if points else max(true - problem.least, 1e-14)
    spent = time.process_time() - began
    search.close()
    return found, spent


def volume(points: list[list[float]], problem: Problem) -> float:
    """The hypervolume of all points."""
    from rt.tune._pareto import hypervolume

    return hypervolume(points, problem.reference)


def read(path: Path) -> dict[tuple[str, int, int], float]:
    """(problem, seed, trials) -> value; a line that an interruption cut is left out."""
    known = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        words = line.split()
        if len(words) == 5:
            known[(words[0], int(words[1]), int(words[2]))] = float(words[3])
    return known


def runs_of(folder: Path, case: str, side: str) -> dict[tuple[str, int, int], float]:
    """What is known of one side: the recorded runs of Optuna, and those in the folder."""
    recorded = read(RECORDED / f"{case}.txt") if side == "optuna" else {}
    return {**recorded, **read(folder / f"{case}-{side}.txt")}


def latency() -> None:
    """Prints milliseconds of ask() after known results, medians of ten; ours include the pipe."""
    for name, axes, count in (("tpe", 10, 1000), ("gp", 6, 100)):
        problem = Problem({f"x{k}": Real(0.0, 1.0) for k in range(axes)},
                          lambda config: sum((x - 0.3) ** 2 for x in config.values()), 0.0)
        theirs = "gp" if name == "gp" else "default"
        case = Case("latency", {name: problem}, (count,), name, theirs)
        draws = random.Random(1)
        known = [{f"x{k}": draws.random() for k in range(axes)} for _ in range(count)]
        medians = []
        for make in (Ours, Optuna):
            search = make(problem, case, 1)
            for config in known:
                search.add(config, problem.value(config))
            times = []
            for _ in range(10):
                began = time.perf_counter()
                trial, config = search.ask()
                times.append(time.perf_counter() - began)
                search.tell(trial, problem.value(config))
            search.close()
            medians.append(1e3 * statistics.median(times))
        print(f"{name}, {axes} parameters, {count} results: {medians[0]:.2f} ms, Optuna "
              f"{medians[1]:.2f} ms, ratio {medians[0] / medians[1]:.3f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--seeds", default="0:15", help="FROM:TO, without TO")
    parser.add_argument("--run", default="", help="ours, optuna, or both with a comma")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--latency", action="store_true")
    arguments = parser.parse_args()
    if arguments.latency:
        return latency()
    begin, end = (int(part) for part in arguments.seeds.split(":"))
    arguments.folder.mkdir(parents=True, exist_ok=True)
    sides = {"ours": Ours, "optuna": Optuna}
    for case_name in arguments.cases.split(","):
        case = CASES[case_name]
        for side in filter(None, arguments.run.split(",")):
            path = arguments.folder / f"{case_name}-{side}.txt"
            known = runs_of(arguments.folder, case_name, side)
            for seed in range(begin, end):
                for name in case.problems:
                    if all((name, seed, mark) in known for mark in case.marks):
                        continue
                    found, spent = run(sides[side], name, case, seed)
                    with path.open("a", encoding="utf-8") as file:
                        for mark, value in found.items():
                            file.write(f"{name} {seed} {mark} {value:.6g} {spent:.2f}\n")
        if arguments.table:
            print(f"\n## {case.title}\n\n{table(arguments.folder, case_name, case)}", flush=True)


def table(folder: Path, case_name: str, case: Case) -> str:
    """Medians side by side, in Markdown, over the seeds that both sides have."""
    ours, theirs = (runs_of(folder, case_name, side) for side in ("ours", "optuna"))
    lines = ["| problem | trials | ours | Optuna | ratio | seeds |", "|" + "---|" * 6]
    for name, problem in case.problems.items():
        for mark in case.marks:
            seeds = [s for n, s, m in ours if (n, m) == (name, mark) and (n, s, m) in theirs]
            if not seeds:
                continue
            mine = statistics.median(ours[(name, s, mark)] for s in seeds)
            other = statistics.median(theirs[(name, s, mark)] for s in seeds)
            lines.append(f"| {name} | {mark} | {mine:.3g} | {other:.3g} | **{mine / other:.2g}** | "
                         f"{len(seeds)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
