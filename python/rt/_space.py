"""Search spaces: the primitives, their checks, and their JSON form (common/spec/space.h)."""

from __future__ import annotations

import inspect
import math
import random
from collections.abc import Sequence
from typing import Any, Callable, Optional

from rt._json import INT_MAX, clean, shown, unboxed
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


class SampleFrom:
    """A value that a function computes, in the driver, from the others."""

    def __init__(self, func: Callable[..., Any]) -> None:
        if not callable(func):
            raise ValueError(f"sample_from takes a function, not {type(func).__name__}")
        self.func = func

    def sample(self, spec: Any = None, size: int = 1) -> Any:
        """One value, or a list of `size` values, for trying things out."""
        values = [_call(self.func, Access(dict(spec or {}))) for _ in range(size)]
        return values[0] if size == 1 else values

    def __repr__(self) -> str:
        return f"sample_from({shown(self.func)})"


def sample_from(func: Callable[..., Any]) -> SampleFrom:
    """What func(spec) returns: `spec.config.x`, or spec["x"], is what was drawn for x.

    It may take nothing, and may use other sample_from values: they are computed first. It runs in
    the driver, once for each trial; what it returned is stored.
    """
    return SampleFrom(func)


class Unresolved(Exception):
    """A function asked for a value that is not computed yet."""


class Access(dict):  # type: ignore[type-arg]
    """A configuration as sample_from functions see it: by attribute or key, also below `config`."""

    def __getitem__(self, key: Any) -> Any:
        if key == "config" and not super().__contains__("config"):
            return self
        value = super().__getitem__(key)
        if isinstance(value, SampleFrom):
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


def _call(func: Callable[..., Any], access: Access) -> Any:
    try:
        inspect.signature(func).bind()
    except TypeError:
        return func(access)
    except ValueError:
        return func(access)
    return func()


def sampled(space: Any, path: Path = ()) -> list[tuple[Path, SampleFrom]]:
    """The sample_from values of a space, with their paths."""
    if isinstance(space, SampleFrom):
        return [(path, space)]
    items: Any = ()
    if isinstance(space, dict):
        items = space.items()
    elif isinstance(space, list):
        items = enumerate(space)
    return [found for key, value in items for found in sampled(value, (*path, key))]


def place(config: Any, path: Path, value: Any) -> None:
    """Puts a value at a path that is there."""
    for step in path[:-1]:
        config = config[step]
    config[path[-1]] = value


def value_at(config: Any, path: Path) -> Any:
    """The value at a path that is there."""
    for step in path:
        config = config[step]
    return config


def resolve(config: dict[str, Any], values: list[tuple[Path, SampleFrom]]) -> dict[str, Any]:
    """`config` with its sample_from values computed, each after those that it uses; in place.

    Raises ValueError when some wait for each other.
    """
    for path, value in values:
        place(config, path, value)
    left = list(values)
    while left:
        waiting = []
        for path, value in left:
            try:
                place(config, path, _call(value.func, Access(config)))
            except Unresolved:
                waiting.append((path, value))
        if len(waiting) == len(left):
            names = ", ".join(_text(path) for path, _ in left)
            raise ValueError(f"{names}: these sample_from values need each other")
        left = waiting
    return config


def json_config(config: dict[str, Any]) -> dict[str, Any]:
    """A configuration that was computed in the driver, as it travels: tuples and arrays as lists.

    Raises ValueError, which names the parameter, for a value that JSON cannot hold.
    """
    return {str(key): json_value(value, (str(key),)) for key, value in config.items()}


def json_value(value: Any, path: Path) -> Any:
    """One value of such a configuration; `path` says which."""
    value = unboxed(value)
    if isinstance(value, dict):
        return {str(key): json_value(item, (*path, str(key))) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_value(item, (*path, i)) for i, item in enumerate(value)]
    if not _is_json(value):
        value = clean(value)
        if isinstance(value, str) or not _is_json(value):
            raise ValueError(
                f"{_text(path)}: {value} cannot be sent to a trial; compute it in the trainable, "
                "from numbers, texts, lists or dicts"
            )
    return value


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


def has_variables(space: dict[str, Any]) -> bool:
    """Whether anything in it is to be drawn or computed."""
    return _has_domain(space)


def constants(encoded: Any) -> Any:
    """An encoded space without its variables."""
    if not isinstance(encoded, dict):
        return encoded
    kept = {}
    for key, value in encoded.items():
        if isinstance(value, dict) and len(value) == 1 and next(iter(value)) in _PRIMITIVES:
            if "constant" in value:
                kept[key] = value
        else:
            kept[key] = constants(value)
    return kept


def _encode(value: Any, path: Path, table: ValueTable) -> Any:
    if len(path) > _DEPTH_MAX:
        raise ValueError(f"{_text(path)}: nested more than {_DEPTH_MAX} levels deep")
    if isinstance(value, SampleFrom):
        return None  # Computed in the driver, once the rest is drawn.
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
    if isinstance(value, (Domain, SampleFrom)):
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
