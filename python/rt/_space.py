"""Search spaces: the primitives, their checks, and their JSON form (common/spec/space.h)."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any, Callable, Optional

from rt._json import INT_MAX, shown, unboxed
from rt._values import Path, ValueTable

_PRIMITIVES = {
    "uniform", "quniform", "loguniform", "qloguniform", "randn", "qrandn", "randint", "qrandint",
    "lograndint", "qlograndint", "choice", "grid", "grid_search", "constant", "sample_from",
}  # fmt: skip
_DEPTH_MAX = 32


class Domain:
    """A variable of a search space: the name of a primitive and its arguments."""

    def __init__(self, name: str, arguments: Sequence[Any]) -> None:
        self.name = name
        self.arguments = list(arguments)
        if name != "choice":
            _check_numbers(name, self.arguments)

    def sample(self, spec: Any = None, size: int = 1) -> Any:
        """One draw, or a list of `size` draws, for trying things out; not what a search draws."""
        draws = [_draw(self.name, self.arguments) for _ in range(size)]
        return draws[0] if size == 1 else draws

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(map(shown, self.arguments))})"


def _is_multiple(value: float, q: float) -> bool:
    ratio = value / q
    return abs(ratio - round(ratio)) <= 1e-9 * max(1.0, abs(ratio))


def _check_numbers(name: str, arguments: list[Any]) -> None:
    for i, value in enumerate(arguments):
        value = arguments[i] = unboxed(value)
        good = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not good or not math.isfinite(value):
            raise ValueError(f"{name}: argument {i + 1} must be a finite number, not {value!r}")
        if "randint" in name and value != int(value):
            raise ValueError(f"{name}: argument {i + 1} must be a whole number, not {value!r}")
    if "randint" in name:
        arguments[:] = [int(value) for value in arguments]
    quantised = name.startswith("q")
    lower, upper = arguments[:2]
    q = arguments[2] if quantised else 0
    if quantised and q <= 0:
        raise ValueError(f"{name}: q must be above 0, not {q!r}")
    if name.endswith("randn"):
        if upper < 0:
            raise ValueError(f"{name}: the standard deviation must not be negative")
        return
    if "log" in name and lower <= 0:
        raise ValueError(f"{name}: a logarithmic range needs a lower bound above 0, not {lower!r}")
    if lower > upper or (lower == upper and not quantised):
        raise ValueError(f"{name}: the lower bound {lower!r} must be below the upper {upper!r}")
    if name in ("quniform", "qloguniform"):
        if not (_is_multiple(lower, q) and _is_multiple(upper, q)):
            raise ValueError(f"{name}: both bounds must be multiples of q = {q!r}")
    elif quantised and math.floor(upper / q) < math.ceil(lower / q):
        raise ValueError(f"{name}: no multiple of {q!r} lies between the bounds")


def _draw(name: str, arguments: list[Any]) -> Any:
    if name == "choice":
        return random.choice(arguments)
    if name.endswith("randn"):
        value = random.gauss(arguments[0], arguments[1])
        return round(value / arguments[2]) * arguments[2] if name[0] == "q" else value
    lower, upper = arguments[:2]
    if name in ("quniform", "qrandint"):
        q = arguments[2]
        return q * random.randint(math.ceil(lower / q - 1e-9), math.floor(upper / q + 1e-9))
    if name == "randint":
        return random.randrange(lower, upper)
    if "log" in name:
        value = math.exp(random.uniform(math.log(lower), math.log(upper)))
    else:
        value = random.uniform(lower, upper)
    if name[0] == "q":
        value = min(max(round(value / arguments[2]) * arguments[2], lower), upper)
    return min(int(value), upper - 1) if name == "lograndint" else value


def uniform(lower: float, upper: float) -> Domain:
    """A float in [lower, upper)."""
    return Domain("uniform", [lower, upper])


def quniform(lower: float, upper: float, q: float) -> Domain:
    """A multiple of q in [lower, upper], both included; the bounds must be multiples of q."""
    return Domain("quniform", [lower, upper, q])


def loguniform(lower: float, upper: float, base: float = 10) -> Domain:
    """A float in [lower, upper) whose logarithm is uniform. `base` changes nothing."""
    return Domain("loguniform", [lower, upper])


def qloguniform(lower: float, upper: float, q: float, base: float = 10) -> Domain:
    """A multiple of q in [lower, upper], nearest to a loguniform draw."""
    return Domain("qloguniform", [lower, upper, q])


def randn(mean: float = 0.0, sd: float = 1.0) -> Domain:
    """A normal draw."""
    return Domain("randn", [mean, sd])


def qrandn(mean: float, sd: float, q: float) -> Domain:
    """A normal draw rounded to a multiple of q."""
    return Domain("qrandn", [mean, sd, q])


def randint(lower: int, upper: int) -> Domain:
    """An integer in [lower, upper)."""
    return Domain("randint", [lower, upper])


def qrandint(lower: int, upper: int, q: int = 1) -> Domain:
    """A multiple of q in [lower, upper], both included."""
    return Domain("qrandint", [lower, upper, q])


def lograndint(lower: int, upper: int, base: float = 10) -> Domain:
    """An integer in [lower, upper): the floor of a loguniform draw."""
    return Domain("lograndint", [lower, upper])


def qlograndint(lower: int, upper: int, q: int, base: float = 10) -> Domain:
    """A multiple of q in [lower, upper], nearest to a loguniform draw."""
    return Domain("qlograndint", [lower, upper, q])


def choice(categories: Sequence[Any]) -> Domain:
    """One of the values. They may be any objects. Raises ValueError when there is none."""
    values = list(categories)
    if not values:
        raise ValueError("choice needs at least one value")
    return Domain("choice", values)


def grid_search(values: Sequence[Any]) -> dict[str, list[Any]]:
    """Each of the values in turn: multiplies the number of trials."""
    listed = list(values)
    if not listed:
        raise ValueError("grid_search needs at least one value")
    return {"grid_search": listed}


def sample_from(func: Callable[..., Any]) -> Domain:
    """Not available: raises ValueError that says what to do instead."""
    raise ValueError(
        "sample_from is not available: draw with tune.uniform, tune.choice or another primitive, "
        "and compute what depends on the draw inside the trainable, from its config"
    )


def encode_space(space: Optional[dict[str, Any]]) -> tuple[dict[str, Any], ValueTable]:
    """The JSON form of a space, and the table of the values that it could only name.

    Raises ValueError that begins with the path of the culprit.
    """
    if space is None:
        return {}, {}
    if not isinstance(space, dict):
        raise ValueError(f"the search space must be a dict, not {type(space).__name__}")
    table: ValueTable = {}
    encoded = {}
    for key, value in space.items():
        if not isinstance(key, str):
            raise ValueError(f"the search space's keys must be text, not {key!r}")
        encoded[key] = _encode(value, (key,), table)
    return encoded, table


def _encode(value: Any, path: Path, table: ValueTable) -> Any:
    if len(path) > _DEPTH_MAX:
        raise ValueError(f"{_text(path)}: nested more than {_DEPTH_MAX} levels deep")
    if isinstance(value, Domain):
        if value.name == "choice":
            return {"choice": _encode_values(value.arguments, path, table)}
        return {value.name: value.arguments}
    if isinstance(value, dict) and list(value) == ["grid_search"]:
        if not isinstance(value["grid_search"], (list, tuple, range)) or not value["grid_search"]:
            raise ValueError(f"{_text(path)}: grid_search needs a list of at least one value")
        return {"grid": _encode_values(list(value["grid_search"]), path, table)}
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        encoded = {key: _encode(item, (*path, key), table) for key, item in value.items()}
        if len(encoded) == 1 and next(iter(encoded)) in _PRIMITIVES:
            if _has_domain(value):
                raise ValueError(f"{_text(path)}: a parameter cannot be called {next(iter(value))}")
            return {"constant": encoded}
        return encoded
    if isinstance(value, list):
        return [_encode(item, (*path, i), table) for i, item in enumerate(value)]
    return _plain(value, path, table)


def _encode_values(values: list[Any], path: Path, table: ValueTable) -> list[Any]:
    if any(_has_domain(value) for value in values):
        raise ValueError(f"{_text(path)}: the values of a choice or grid cannot be domains")
    return [_plain(value, path, table) for value in values]


def _has_domain(value: Any) -> bool:
    if isinstance(value, Domain):
        return True
    if isinstance(value, dict):
        return list(value) == ["grid_search"] or any(map(_has_domain, value.values()))
    return isinstance(value, (list, tuple)) and any(map(_has_domain, value))


def _is_json(value: Any) -> bool:
    if value is None or type(value) in (bool, str):
        return True
    if type(value) is int:
        return -INT_MAX - 1 <= value <= INT_MAX
    if type(value) is float:
        return math.isfinite(value)
    if type(value) is list:
        return all(map(_is_json, value))
    return type(value) is dict and all(type(k) is str and _is_json(v) for k, v in value.items())


def _plain(value: Any, path: Path, table: ValueTable) -> Any:
    value = unboxed(value)
    if _is_json(value):
        return value
    pairs = table.setdefault(path, [])
    text = shown(value)
    taken = {each for each, _ in pairs}
    number = 2
    while text in taken:
        text = f"{shown(value)} #{number}"
        number += 1
    pairs.append((text, value))
    return text


def _text(path: Path) -> str:
    return "/".join(map(str, path))
