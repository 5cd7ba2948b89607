"""Search spaces: the primitives and their checks (common/spec/space.h)."""

from __future__ import annotations

import inspect
import math
import random
from collections.abc import Iterable, Sequence
from typing import Any, Callable, TypeVar

from rt._json import INT_MAX, is_finite, is_number, shown, unboxed
from rt._paths import Explained
from rt._samplers import LogUniform, Normal, Quantized, Sampler, Uniform
from rt._seeds import as_seed


class Domain(Explained):
    """A variable of a search space: the name of a primitive and its arguments.

    Ray's subclasses say what is drawn: Float, Integer or Categorical.
    """

    _ray_name = "rt.tune.search.sample.Domain"
    _sampler_names: dict[type, str] = {}

    def __init__(self, name: str, arguments: Sequence[Any]) -> None:
        self.name = name
        self.arguments = list(arguments)
        if name != "choice":
            _check_numbers(name, self.arguments)

    def is_function(self) -> bool:
        """Whether a function computes the value: False, because sample_from is no Domain."""
        return False

    def is_grid(self) -> bool:
        """Whether all values are tried: False, because a grid is a dict (grid_search)."""
        return False

    def is_valid(self, value: Any) -> bool:
        """Whether the value could be drawn."""
        raise NotImplementedError(type(self).__name__)

    def cast(self, value: Any) -> Any:
        """The value in the type of the domain."""
        return value

    @property
    def domain_str(self) -> str:
        """The range or the values, without the distribution: "(0, 1)"."""
        return f"({shown(self.arguments[0])}, {shown(self.arguments[1])})"

    @property
    def sampler(self) -> Sampler:
        """The distribution: an object of rt._samplers, such as LogUniform()."""
        plain = self.name.lstrip("q")
        made: Sampler
        if plain == "randn":
            made = Normal(*self.arguments[:2])
        else:
            made = LogUniform() if "log" in plain else Uniform()
        return Quantized(made, self.arguments[2]) if self.name.startswith("q") else made

    def get_sampler(self) -> Sampler:
        """The same as `sampler`."""
        return self.sampler

    def set_sampler(self, sampler: Any, allow_override: bool = False) -> None:
        """Replaces the distribution. ValueError: one was chosen before, and allow_override is
        False; or the domain has no such distribution."""
        if not allow_override and type(self.sampler) is not Uniform:
            raise ValueError(f"{self!r} has a distribution; allow_override=True replaces it")
        changed = self.with_sampler(sampler)
        self.name, self.arguments = changed.name, changed.arguments

    def with_sampler(self, sampler: Sampler) -> Domain:
        """A copy with another distribution. Raises ValueError where there is none."""
        q: Any = None
        if isinstance(sampler, Quantized):
            q, sampler = sampler.q, sampler.sampler
        name = self._sampler_names.get(type(sampler))
        if name is None or (name == "choice" and q is not None):
            kind = type(sampler).__name__
            raise ValueError(f"{self!r} has no distribution {kind}; for a grid: grid_search")
        arguments = self.arguments
        if isinstance(sampler, Normal):
            arguments = [sampler.mean, sampler.sd]
        elif isinstance(self, (Float, Integer)):
            arguments = [self.lower, self.upper]
        if q is None:
            return _domain(type(self), name, arguments)
        return _domain(type(self), f"q{name}", [*arguments, q])

    def sample(self, config: Any = None, size: int = 1, random_state: Any = None) -> Any:
        """One draw, or a list of `size` draws, for experiments by hand; a search draws others.

        random_state: a seed, or a generator of NumPy, from which a seed is drawn.
        """
        seed = as_seed(random_state)
        source: Any = random if seed is None else random.Random(seed)
        draws = [self.draw(source) for _ in range(size)]
        return draws[0] if size == 1 else draws

    def draw(self, source: Any) -> Any:
        """One draw from a source of random numbers: a random.Random, or the module `random`."""
        return _draw(self.name, self.arguments, source)

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(map(shown, self.arguments))})"


class Float(Domain):
    """A float of a range: Float(1e-4, 1e-1).loguniform() is tune.loguniform(1e-4, 1e-1)."""

    _sampler_names = {Uniform: "uniform", LogUniform: "loguniform", Normal: "randn"}

    def __init__(self, lower: float, upper: float) -> None:
        super().__init__("uniform", [lower, upper])

    @property
    def lower(self) -> float:
        """The lower bound; of a normal distribution -inf."""
        return -math.inf if self.name.endswith("randn") else float(self.arguments[0])

    @property
    def upper(self) -> float:
        """The upper bound; of a normal distribution inf."""
        return math.inf if self.name.endswith("randn") else float(self.arguments[1])

    def uniform(self) -> Float:
        """tune.uniform over the range."""
        return _domain(Float, "uniform", [self.lower, self.upper])

    def loguniform(self, base: float = 10) -> Float:
        """tune.loguniform over the range."""
        return _domain(Float, "loguniform", [self.lower, self.upper])

    def normal(self, mean: float = 0.0, sd: float = 1.0) -> Float:
        """tune.randn, which ignores the range."""
        return _domain(Float, "randn", [mean, sd])

    def quantized(self, q: float) -> Float:
        """The same distribution in multiples of q."""
        return _domain(Float, f"q{self.name.lstrip('q')}", [*self.arguments[:2], q])

    def cast(self, value: Any) -> float:
        """float(value)."""
        return float(value)

    @property
    def domain_str(self) -> str:
        """The range: "(0.0, 1.0)"."""
        return f"({self.lower}, {self.upper})"

    def is_valid(self, value: Any) -> bool:
        """Whether the value could be drawn."""
        return is_number(value) and self.lower <= value <= self.upper


class Integer(Domain):
    """An integer of a range: Integer(1, 9).uniform() is tune.randint(1, 9)."""

    _sampler_names = {Uniform: "randint", LogUniform: "lograndint"}

    def __init__(self, lower: int, upper: int) -> None:
        super().__init__("randint", [lower, upper])

    @property
    def lower(self) -> int:
        """The lower bound, which is drawn."""
        return int(self.arguments[0])

    @property
    def upper(self) -> int:
        """The upper bound, which is drawn only with quantized()."""
        return int(self.arguments[1])

    def uniform(self) -> Integer:
        """tune.randint over the range."""
        return _domain(Integer, "randint", [self.lower, self.upper])

    def loguniform(self, base: float = 10) -> Integer:
        """tune.lograndint over the range."""
        return _domain(Integer, "lograndint", [self.lower, self.upper])

    def quantized(self, q: int) -> Integer:
        """The same distribution in multiples of q."""
        return _domain(Integer, f"q{self.name.lstrip('q')}", [*self.arguments[:2], q])

    def cast(self, value: Any) -> int:
        """int(value)."""
        return int(value)

    def is_valid(self, value: Any) -> bool:
        """Whether the value could be drawn."""
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        return is_whole and self.lower <= value < self.upper + (self.name[0] == "q")


class Categorical(Domain):
    """One of several values: Categorical(values).uniform() is tune.choice(values)."""

    _sampler_names = {Uniform: "choice"}

    def __init__(self, categories: Sequence[Any]) -> None:
        super().__init__("choice", _listed("choice", categories))

    @property
    def categories(self) -> list[Any]:
        """The values."""
        return self.arguments

    def uniform(self) -> Categorical:
        """tune.choice of the values."""
        return self

    @property
    def domain_str(self) -> str:
        """The values: "['a', 'b']"."""
        return shown(self.arguments)

    def grid(self) -> dict[str, list[Any]]:
        """tune.grid_search of the values."""
        return grid_search(self.arguments)

    def is_valid(self, value: Any) -> bool:
        """Whether the value could be drawn."""
        return value in self.arguments


_Kind = TypeVar("_Kind", bound=Domain)


def _domain(kind: type[_Kind], name: str, arguments: Sequence[Any]) -> _Kind:
    made = kind.__new__(kind)
    Domain.__init__(made, name, arguments)
    return made


def _is_multiple(value: float, q: float) -> bool:
    ratio = value / q
    return abs(ratio - round(ratio)) <= 1e-9 * max(1.0, abs(ratio))


def _check_numbers(name: str, arguments: list[Any]) -> None:
    for i, value in enumerate(arguments):
        value = arguments[i] = unboxed(value)
        if not is_number(value) or not is_finite(value):
            text = shown(value)
            raise ValueError(f"{name}: argument {i + 1} must be a finite number, not {text}")
        if "randint" in name and value != int(value):
            raise ValueError(f"{name}: argument {i + 1} must be a whole number, not {value!r}")
        if "randint" in name and abs(value) > INT_MAX:
            raise ValueError(f"{name}: argument {i + 1} must fit into 64 bits, not {shown(value)}")
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


def uniform(lower: float, upper: float) -> Float:
    """A float in [lower, upper)."""
    return _domain(Float, "uniform", [lower, upper])


def quniform(lower: float, upper: float, q: float) -> Float:
    """A multiple of q in [lower, upper], both included; the bounds must be multiples of q."""
    return _domain(Float, "quniform", [lower, upper, q])


def loguniform(lower: float, upper: float, base: float = 10) -> Float:
    """A float in [lower, upper) whose logarithm is uniform. `base` has no effect."""
    return _domain(Float, "loguniform", [lower, upper])


def qloguniform(lower: float, upper: float, q: float, base: float = 10) -> Float:
    """A multiple of q in [lower, upper], nearest to a loguniform draw."""
    return _domain(Float, "qloguniform", [lower, upper, q])


def randn(mean: float = 0.0, sd: float = 1.0) -> Float:
    """A normal draw."""
    return _domain(Float, "randn", [mean, sd])


def qrandn(mean: float, sd: float, q: float) -> Float:
    """A normal draw rounded to a multiple of q."""
    return _domain(Float, "qrandn", [mean, sd, q])


def randint(lower: int, upper: int) -> Integer:
    """An integer in [lower, upper)."""
    return _domain(Integer, "randint", [lower, upper])


def qrandint(lower: int, upper: int, q: int = 1) -> Integer:
    """A multiple of q in [lower, upper], both included."""
    return _domain(Integer, "qrandint", [lower, upper, q])


def lograndint(lower: int, upper: int, base: float = 10) -> Integer:
    """An integer in [lower, upper): the floor of a loguniform draw."""
    return _domain(Integer, "lograndint", [lower, upper])


def qlograndint(lower: int, upper: int, q: int, base: float = 10) -> Integer:
    """A multiple of q in [lower, upper], nearest to a loguniform draw."""
    return _domain(Integer, "qlograndint", [lower, upper, q])


def choice(categories: Sequence[Any]) -> Categorical:
    """One of the values, which may be any objects. Domains inside a chosen value are drawn too.

    Raises ValueError for an empty list, and for a value that is not a list.
    """
    return Categorical(categories)


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

    def is_function(self) -> bool:
        """Whether a function computes the value: True."""
        return True

    def is_grid(self) -> bool:
        """Whether all values are tried: False."""
        return False

    def is_valid(self, value: Any) -> bool:
        """Whether the value could come of it; nothing is known of the function, so True."""
        return True

    def cast(self, value: Any) -> Any:
        """The value."""
        return value

    @property
    def domain_str(self) -> str:
        """The function."""
        return f"{shown(self.func)}()"

    def sample(self, config: Any = None, size: int = 1, random_state: Any = None) -> Any:
        """One value, or a list of `size` values, for experiments by hand."""
        values = [self.compute(dict(config or {})) for _ in range(size)]
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
