"""Search spaces in the form of other libraries, as Ray's search classes take them."""

from __future__ import annotations

from typing import Any, Optional

from rt import _space
from rt._space import Domain, SampleFrom

_USE = "give it tune's primitives, such as {'lr': tune.loguniform(1e-4, 1e-1)}"


def of_tune(owner: str, space: Any) -> Optional[dict[str, Any]]:
    """The space itself. Raises ValueError for one of another library."""
    if space is None:
        return None
    if not isinstance(space, dict):
        kind = type(space).__name__
        raise ValueError(
            f"{owner}: space is a {kind} of the library, which rt does not run; {_USE}"
        )
    for name, value in space.items():
        module = type(value).__module__.partition(".")[0]
        if module in ("hyperopt", "nevergrad", "hebo"):
            raise ValueError(f"{owner}: {name!r} is an object of {module}; {_USE}")
    return space


def from_optuna(space: Any) -> Optional[dict[str, Any]]:
    """A dict of Optuna's distributions, or of tune's primitives."""
    if not isinstance(space, dict):
        return of_tune("OptunaSearch", space)
    return {name: _from_distribution(each) for name, each in space.items()}


def _from_distribution(value: Any) -> Any:
    if isinstance(value, dict):
        return from_optuna(value)
    if not type(value).__module__.startswith("optuna"):
        return value
    choices = getattr(value, "choices", None)
    if choices is not None:
        return _space.choice(list(choices))
    kind, low, high = type(value).__name__, value.low, value.high
    is_log, step = getattr(value, "log", False), value.step
    if kind.startswith("Int"):
        if is_log:
            return _space.lograndint(low, high + 1)
        return _space.randint(low, high + 1) if step == 1 else _space.qrandint(low, high, step)
    if is_log:
        return _space.loguniform(low, high)
    return _space.uniform(low, high) if step is None else _space.quniform(low, high, step)


def from_bounds(space: Any) -> Optional[dict[str, Any]]:
    """{name: (lower, upper)}, or tune's primitives."""
    if not isinstance(space, dict):
        return of_tune("BayesOptSearch", space)
    return {
        name: _space.uniform(*each) if isinstance(each, tuple) and len(each) == 2 else each
        for name, each in space.items()
    }


def from_ax(space: Any) -> Optional[dict[str, Any]]:
    """Ax's list of parameters ({"name", "type", "bounds" | "values" | "value", "log_scale"})."""
    if not isinstance(space, list):
        return of_tune("AxSearch", space)
    return {each["name"]: _from_parameter(each) for each in space}


def _from_parameter(each: dict[str, Any]) -> Any:
    kind = each.get("type")
    if kind == "fixed":
        return each["value"]
    if kind == "choice":
        return _space.choice(each["values"])
    if kind != "range":
        raise ValueError(f"AxSearch: {each['name']!r} has the unknown type {kind!r}")
    low, high = each["bounds"]
    is_log = bool(each.get("log_scale"))
    if each.get("value_type") == "int" or (isinstance(low, int) and isinstance(high, int)):
        return (_space.lograndint if is_log else _space.randint)(low, high + 1)
    return (_space.loguniform if is_log else _space.uniform)(low, high)


def from_config_space(space: Any) -> Optional[dict[str, Any]]:
    """A ConfigSpace without conditions, or tune's primitives."""
    if not hasattr(space, "get_hyperparameters") and not hasattr(space, "conditions"):
        return of_tune("TuneBOHB", space)
    conditions = getattr(space, "conditions", None)
    if conditions:
        raise ValueError(f"TuneBOHB: a ConfigSpace with conditions; {_USE}")
    return {str(name): _from_hyperparameter(space[name]) for name in list(space)}


def _from_hyperparameter(each: Any) -> Any:
    kind = type(each).__name__
    for attribute in ("choices", "sequence"):
        if hasattr(each, attribute):
            return _space.choice(list(getattr(each, attribute)))
    if kind == "Constant":
        return each.value
    if kind not in ("UniformFloatHyperparameter", "UniformIntegerHyperparameter"):
        raise ValueError(f"TuneBOHB: {each.name!r} is a {kind}; {_USE}")
    if "Integer" in kind:
        return (_space.lograndint if each.log else _space.randint)(each.lower, each.upper + 1)
    return (_space.loguniform if each.log else _space.uniform)(each.lower, each.upper)


def from_zoopt(space: Any) -> Optional[dict[str, Any]]:
    """ZOOpt's {name: (ValueType, bounds, step or order)}, or tune's primitives."""
    if not isinstance(space, dict):
        return of_tune("ZOOptSearch", space)
    return {name: _from_dimension(name, each) for name, each in space.items()}


def _from_dimension(name: str, each: Any) -> Any:
    if isinstance(each, (Domain, SampleFrom)) or not isinstance(each, tuple):
        return each
    kind = str(getattr(each[0], "name", each[0])).lower()
    if "continuous" in kind:
        return _space.uniform(*each[1])
    if "discrete" in kind:
        low, high = each[1]
        return _space.randint(low, high + 1)
    if "grid" in kind:
        return _space.choice(list(each[1]))
    raise ValueError(f"ZOOptSearch: {name!r} has the unknown type {each[0]!r}; {_USE}")
