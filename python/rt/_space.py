"""Search spaces: the primitives and their checks (common/spec/space.h)."""

from __future__ import annotations

import inspect
import math
import random
from collections.abc import Iterable, Sequence
from typing import Any, Callable

from rt._json import shown, unboxed


class Domain:
    """A variable of a search space: the name of a primitive and its arguments."""

    def __init__(self, name: str, arguments: Sequence[Any]) -> None:
        self.name = name
        self.arguments = list(arguments)
        if name != "choice":
            _check_numbers(name, self.arguments)

    def sample(self, spec: Any = None, size: int = 1) -> Any:
        """One draw, or a list of `size` draws, for experiments by hand; a search draws others."""
        draws = [self.draw(random) for _ in range(size)]
        return draws[0] if size == 1 else draws

    def draw(self, source: Any) -> Any:
        """One draw from a source of random numbers: a random.Random, or the module `random`."""
        return _draw(self.name, self.arguments, source)

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


def _draw(name: str, arguments: list[Any], source: Any) -> Any:
    if name == "choice":
        return source.choice(arguments)
    if name.endswith("randn"):
        value = source.gauss(arguments[0], arguments[1])
        return round(value / arguments[2]) * arguments[2] if name[0] == "q" else value
    lower, upper = arguments[:2]
    if name in ("quniform", "qrandint"):
        q = arguments[2]
        return q * source.randint(math.ceil(lower / q - 1e-9), math.floor(upper / q + 1e-9))
    if name == "randint":
        return source.randrange(lower, upper)
    if "log" in name:
        value = math.exp(source.uniform(math.log(lower), math.log(upper)))
    else:
        value = source.uniform(lower, upper)
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
    """A float in [lower, upper) whose logarithm is uniform. `base` has no effect."""
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
    """One of the values, which may be any objects. Domains inside a chosen value are drawn too.

    Raises ValueError for an empty list, and for a value that is not a list.
    """
    return Domain("choice", _listed("choice", categories))


def grid_search(values: Sequence[Any]) -> dict[str, list[Any]]:
    """Each of the values in order: multiplies the number of trials. Errors: see choice."""
    return {"grid_search": _listed("grid_search", values)}


def _listed(name: str, values: Iterable[Any]) -> list[Any]:
    try:
        listed = list(values)
    except TypeError:
        raise ValueError(f"{name} takes a list of values, not {shown(values)}") from None
    if not listed:
        raise ValueError(f"{name} needs at least one value")
    return listed


class Unresolved(Exception):
    """A function asked for a value that is not computed yet."""


class Access(dict):  # type: ignore[type-arg]
    """A configuration for sample_from functions: by attribute or key, also below `config`."""

    def __getitem__(self, key: Any) -> Any:
        if key == "config" and not super().__contains__("config"):
            return self
        value = super().__getitem__(key)
        if isinstance(value, (SampleFrom, Domain)):
            raise Unresolved(str(key))
        return Access(value) if type(value) is dict else value

    def get(self, key: Any, default: Any = None) -> Any:
        """The value, or the default."""
        return self[key] if key in self or key == "config" else default

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"the configuration has no {name!r}") from None


class SampleFrom:
    """A value that a function computes from the other values, in the driver."""

    def __init__(self, func: Callable[..., Any]) -> None:
        if not callable(func):
            raise ValueError(f"sample_from takes a function, not {type(func).__name__}")
        self.func = func

    def sample(self, spec: Any = None, size: int = 1) -> Any:
        """One value, or a list of `size` values, for experiments by hand."""
        values = [self.compute(dict(spec or {})) for _ in range(size)]
        return values[0] if size == 1 else values

    def compute(self, config: dict[str, Any]) -> Any:
        """The value for a configuration. Raises Unresolved when it needs a missing value."""
        try:
            inspect.signature(self.func).bind()
        except (TypeError, ValueError):
            return self.func(Access(config))
        return self.func()

    def __repr__(self) -> str:
        return f"sample_from({shown(self.func)})"


def sample_from(func: Callable[..., Any]) -> SampleFrom:
    """The value that func(spec) returns. `spec.config.x`, or spec["x"], is the value drawn for x.

    The function may take no argument, and may use other sample_from values, which are computed
    first. It runs in the driver, once for each trial, and its result is stored.
    """
    return SampleFrom(func)
