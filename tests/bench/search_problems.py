"""Problems of search_peers.py: a space, and what a configuration is worth (less is better).

The functions are those of tests/bench/search/functions.cc, Zitzler et al., "Comparison of
multiobjective evolutionary algorithms", 2000 (ZDT), and Deb et al., "Scalable test problems for
evolutionary multiobjective optimization", 2005 (DTLZ2).
"""

from __future__ import annotations

import math
import random
from typing import Any, Callable, NamedTuple

Config = dict[str, Any]


class Real(NamedTuple):
    """A number between two bounds."""

    lower: float
    upper: float


class Whole(NamedTuple):
    """A whole number, both bounds included."""

    lower: int
    upper: int


class Choice(NamedTuple):
    """One of these, without an order."""

    values: tuple[str, ...]


class Problem(NamedTuple):
    """space: parameters in order; one with a condition exists where `conditions` says.

    value: of a configuration, a number or one per objective. least: the minimum. noise: the
    standard deviation of what the search is told. reference: of the hypervolume.
    """

    space: dict[str, Any]
    value: Callable[[Config], Any]
    least: float = 0.0
    noise: float = 0.0
    conditions: dict[str, tuple[str, str]] = {}
    reference: tuple[float, ...] = ()


def _rosenbrock(x: list[float]) -> float:
    return sum(100 * (b - a * a) ** 2 + (1 - a) ** 2 for a, b in zip(x, x[1:]))


def _ackley(x: list[float]) -> float:
    n = len(x)
    squares = math.sqrt(sum(v * v for v in x) / n)
    waves = sum(math.cos(2 * math.pi * v) for v in x) / n
    return -20 * math.exp(-0.2 * squares) - math.exp(waves) + 20 + math.e


def _levy(x: list[float]) -> float:
    w = [1 + (v - 1) / 4 for v in x]
    total = math.sin(math.pi * w[0]) ** 2
    total += sum((v - 1) ** 2 * (1 + 10 * math.sin(math.pi * v + 1) ** 2) for v in w[:-1])
    return total + (w[-1] - 1) ** 2 * (1 + math.sin(2 * math.pi * w[-1]) ** 2)


def _rastrigin(x: list[float]) -> float:
    return 10 * len(x) + sum(v * v - 10 * math.cos(2 * math.pi * v) for v in x)


def _sphere(x: list[float]) -> float:
    return sum(v * v for v in x)


def _branin(x: list[float]) -> float:
    bend = x[1] - 5.1 / (4 * math.pi**2) * x[0] ** 2 + 5 / math.pi * x[0] - 6
    return bend**2 + 10 * (1 - 1 / (8 * math.pi)) * math.cos(x[0]) + 10


_A = ((10, 3, 17, 3.5, 1.7, 8), (0.05, 10, 17, 0.1, 8, 14), (3, 3.5, 1.7, 10, 17, 8),
      (17, 8, 0.05, 10, 0.1, 14))  # fmt: skip
_P = ((1312, 1696, 5569, 124, 8283, 5886), (2329, 4135, 8307, 3736, 1004, 9991),
      (2348, 1451, 3522, 2883, 3047, 6650), (4047, 8828, 8732, 5743, 1091, 381))  # fmt: skip
_A3 = ((3, 10, 30), (0.1, 10, 35), (3, 10, 30), (0.1, 10, 35))
_P3 = ((3689, 1170, 2673), (4699, 4387, 7470), (1091, 8732, 5547), (381, 5743, 8828))


def _hartmann(x: list[float], a: Any, p: Any) -> float:
    total = 0.0
    for weight, row, at in zip((1, 1.2, 3, 3.2), a, p):
        total -= weight * math.exp(-sum(k * (v - 1e-4 * c) ** 2 for k, v, c in zip(row, x, at)))
    return total


def _box(
    function: Callable[[list[float]], float], axes: list[Real], least: float = 0.0
) -> Problem:
    space = {f"x{i:02d}": axis for i, axis in enumerate(axes)}
    return Problem(space, lambda c: function([c[name] for name in space]), least)


NINE = {
    "branin2": _box(_branin, [Real(-5, 10), Real(0, 15)], 0.397887357729739),
    "hartmann3": _box(lambda x: _hartmann(x, _A3, _P3), [Real(0, 1)] * 3, -3.86278214782076),
    "hartmann6": _box(lambda x: _hartmann(x, _A, _P), [Real(0, 1)] * 6, -3.32236801141551),
    "rosenbrock2": _box(_rosenbrock, [Real(-5, 10)] * 2),
    "rosenbrock4": _box(_rosenbrock, [Real(-5, 10)] * 4),
    "ackley5": _box(_ackley, [Real(-32.768, 32.768)] * 5),
    "levy4": _box(_levy, [Real(-10, 10)] * 4),
    "rastrigin4": _box(_rastrigin, [Real(-5.12, 5.12)] * 4),
    "sphere10": _box(_sphere, [Real(-5.12, 5.12)] * 10),
}


def shifted(problem: Problem, part: float, seed: int) -> Problem:
    """The same function in a box that is moved by up to that part of its width on each axis."""
    source = random.Random(f"shift {seed}")
    space = {}
    for name, axis in problem.space.items():
        moved = part * (axis.upper - axis.lower) * (2 * source.random() - 1)
        space[name] = Real(axis.lower + moved, axis.upper + moved)
    return problem._replace(space=space)


def drawn(problem: Problem, source: random.Random) -> Config:
    """A random configuration."""
    config: Config = {}
    for name, domain in problem.space.items():
        parent, wanted = problem.conditions.get(name, ("", ""))
        if parent and config.get(parent) != wanted:
            continue
        if isinstance(domain, Real):
            config[name] = source.uniform(domain.lower, domain.upper)
        elif isinstance(domain, Whole):
            config[name] = source.randint(domain.lower, domain.upper)
        else:
            config[name] = source.choice(domain.values)
    return config


def noisy(problem: Problem) -> Problem:
    """With normal noise: its deviation is 5 % of the range between the 1 % and 99 % quantiles."""
    source = random.Random("range")
    values = sorted(problem.value(drawn(problem, source)) for _ in range(2000))
    return problem._replace(noise=0.05 * (values[1980] - values[20]))


_KINDS = Choice(("a", "b", "c", "d", "e"))
_SIGNS = {"a": 0.0, "b": 0.4, "c": 0.8, "d": 1.5, "e": 3.0}


def _mixed(
    function: Callable[[list[float]], float], reals: int, wholes: int, kinds: int
) -> Problem:
    space: dict[str, Any] = {f"x{i}": Real(-5, 5) for i in range(reals)}
    space.update({f"n{i}": Whole(-8, 8) for i in range(wholes)})
    space.update({f"k{i}": _KINDS for i in range(kinds)})

    def value(config: Config) -> float:
        numbers = [float(config[f"x{i}"]) for i in range(reals)]
        numbers += [config[f"n{i}"] / 2 for i in range(wholes)]
        labels = [config[f"k{i}"] for i in range(kinds)]
        scale = 1 + 0.2 * sum(each == "e" for each in labels)
        return scale * function(numbers) + sum(_SIGNS[each] for each in labels)

    return Problem(space, value, function([1.0] * (reals + wholes)))


MIXED = {
    "mixed_levy": _mixed(_levy, 2, 2, 2),
    "mixed_rosenbrock": _mixed(_rosenbrock, 2, 2, 1),
    "mixed_sphere": _mixed(lambda x: _sphere([v - 1 for v in x]), 4, 4, 4),
    "mixed_ackley": _mixed(lambda x: _ackley([v - 1 for v in x]), 3, 1, 3),
    "mixed_rastrigin": _mixed(lambda x: _rastrigin([v - 1 for v in x]), 2, 2, 1),
}


def _branches(
    functions: dict[str, Callable[[list[float]], float]], own: int, offset: float
) -> Problem:
    """Each value of `kind` has parameters of its own; `s` is there for all."""
    names = tuple(functions)
    space: dict[str, Any] = {"kind": Choice(names), "s": Real(-5, 5)}
    conditions = {}
    for name in names:
        for i in range(own):
            space[f"{name}{i}"] = Real(-5, 5)
            conditions[f"{name}{i}"] = ("kind", name)

    def value(config: Config) -> float:
        kind = config["kind"]
        numbers = [config["s"], *(config[f"{kind}{i}"] for i in range(own))]
        return functions[kind](numbers) + offset * names.index(kind)

    return Problem(space, value, conditions=conditions)


def _tree() -> Problem:
    """An optimizer with parameters of its own, one of which decides about a third level."""
    space = {
        "opt": Choice(("sgd", "adam", "none")), "lr": Real(-4, 0), "momentum": Real(0, 1),
        "plan": Choice(("step", "cosine")), "gamma": Real(0, 1), "b1": Real(0.5, 1),
        "b2": Real(0.5, 1),
    }  # fmt: skip
    conditions = {
        "momentum": ("opt", "sgd"), "plan": ("opt", "sgd"), "gamma": ("plan", "step"),
        "b1": ("opt", "adam"), "b2": ("opt", "adam"),
    }  # fmt: skip

    def value(config: Config) -> float:
        loss = (config["lr"] + 1.7) ** 2
        if config["opt"] == "sgd":
            loss += 4 * (config["momentum"] - 0.87) ** 2
            loss += 3 * (config["gamma"] - 0.3) ** 2 if config["plan"] == "step" else 0.15
        elif config["opt"] == "adam":
            loss += 0.05 + 9 * (config["b1"] - 0.91) ** 2 + 9 * (config["b2"] - 0.98) ** 2
        else:
            loss += 0.5
        return float(loss)

    return Problem(space, value, conditions=conditions)


def _centred(x: list[float]) -> float:
    return _sphere([v - 1.3 for v in x])


CONDITIONAL = {
    "branches_easy": _branches({"p": _centred, "q": _levy, "r": _ackley}, 3, 0.5),
    "branches_hard": _branches({"p": _rosenbrock, "q": _rastrigin, "r": _levy}, 3, 2.0),
    "branches_many": _branches(
        {name: (lambda x, k=k: _sphere([v - k / 2 for v in x]) + k) for k, name in
         enumerate(("f", "g", "h", "i", "j"))}, 2, 0.0),
    "tree": _tree(),
    "branches_deep": _branches({"p": _levy, "q": _centred}, 6, 1.0),
}  # fmt: skip

def _wide(axes: int) -> dict[str, Problem]:
    """Five functions, none of which has its minimum in the middle of the box."""
    return {
        f"sphere{axes}": _box(_sphere, [Real(-5.12, 4.1)] * axes),
        f"ackley{axes}": _box(_ackley, [Real(-32.768, 25)] * axes),
        f"levy{axes}": _box(_levy, [Real(-10, 10)] * axes),
        f"rosenbrock{axes}": _box(_rosenbrock, [Real(-5, 10)] * axes),
        f"rastrigin{axes}": _box(_rastrigin, [Real(-5.12, 4.1)] * axes),
    }


WIDE = _wide(40)
BETWEEN = {**_wide(12), **_wide(25)}


def _zdt(kind: int, axes: int = 30) -> Problem:
    space = {f"x{i:02d}": Real(0, 1) for i in range(axes)}

    def value(config: Config) -> list[float]:
        x = [config[name] for name in space]
        g = 1 + 9 * sum(x[1:]) / (axes - 1)
        if kind == 1:
            return [x[0], g * (1 - math.sqrt(x[0] / g))]
        if kind == 2:
            return [x[0], g * (1 - (x[0] / g) ** 2)]
        return [x[0], g * (1 - math.sqrt(x[0] / g) - x[0] / g * math.sin(10 * math.pi * x[0]))]

    return Problem(space, value, reference=(1.1, 11.0))


def _dtlz2(objectives: int = 3, axes: int = 12) -> Problem:
    space = {f"x{i:02d}": Real(0, 1) for i in range(axes)}

    def value(config: Config) -> list[float]:
        x = [config[name] for name in space]
        g = sum((v - 0.5) ** 2 for v in x[objectives - 1 :])
        values = []
        for k in range(objectives):
            each = 1 + g
            for v in x[: objectives - 1 - k]:
                each *= math.cos(v * math.pi / 2)
            if k > 0:
                each *= math.sin(x[objectives - 1 - k] * math.pi / 2)
            values.append(each)
        return values

    return Problem(space, value, reference=(2.5, 2.5, 2.5))


def _mixed_objectives() -> Problem:
    """A network's error against its cost, over widths, depth and a kind."""
    space = {
        "kind": Choice(("mlp", "conv", "tree")), "depth": Whole(1, 8), "width": Whole(4, 64),
        "lr": Real(-5, 0), "drop": Real(0, 0.8),
    }  # fmt: skip

    def value(config: Config) -> list[float]:
        size = config["depth"] * config["width"] / 512
        base = {"mlp": 0.3, "conv": 0.2, "tree": 0.35}[config["kind"]]
        cost = size * {"mlp": 1.0, "conv": 2.0, "tree": 0.4}[config["kind"]]
        miss = base + 0.5 * math.exp(-6 * size) + 0.05 * (config["lr"] + 2.5) ** 2
        return [miss + abs(config["drop"] - 0.2 - 0.3 * size) * 0.4, cost]

    return Problem(space, value, reference=(1.6, 2.1))


SEVERAL = {
    "zdt1": _zdt(1), "zdt2": _zdt(2), "zdt3": _zdt(3), "dtlz2": _dtlz2(),
    "mixed2": _mixed_objectives(),
}  # fmt: skip
