"""The JSON form of search spaces (common/spec/space.h) and of values computed for a trial."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import is_dataclass
from typing import Any, Optional

from rt._json import INT_MAX, clean, dump, float_text, numbers, shown, unboxed
from rt._space import Domain, SampleFrom
from rt._values import Path, ValueTable, is_plain_text, value_as_text

_CONFIG_BYTES_MAX = 64 << 10  # The same bound as in the head.

_PRIMITIVES = {
    "uniform", "quniform", "loguniform", "qloguniform", "randn", "qrandn", "randint", "qrandint",
    "lograndint", "qlograndint", "choice", "grid", "grid_search", "constant", "sample_from",
}  # fmt: skip
_DEPTH_MAX = 32


def json_config(config: dict[str, Any]) -> dict[str, Any]:
    """The wire form of a configuration that the driver computed; restore_values is the inverse.

    Raises ValueError, which names the parameter, for a value that cannot be pickled.
    """
    return {str(key): json_value(value, (str(key),)) for key, value in config.items()}


def nested_point(point: dict[str, Any], space: Any) -> dict[str, Any]:
    """A point with {"net": {"lr": 1}} for "net/lr", unless the space has a key "net/lr".

    Otherwise a trial gets the key "net/lr" as well as a value that is drawn for net.lr.
    """
    nested: dict[str, Any] = {}
    for key, value in point.items():
        first, *steps = str(key).split("/")
        if steps and isinstance(space, dict) and key not in space and first in space:
            while steps:
                value = {steps.pop(): value}
            key = first
        nested[key] = _merged(nested.get(key), value)
    return nested


def _merged(known: Any, value: Any) -> Any:
    if not isinstance(known, dict) or not isinstance(value, dict):
        return value
    return {**known, **{key: _merged(known.get(key), item) for key, item in value.items()}}


def nest_points(search: dict[str, Any], space: Any) -> dict[str, Any]:
    """The `search` of a specification, with its points as nested_point has them."""
    return {
        name: {**options, "points": [nested_point(point, space) for point in options["points"]]}
        if options.get("points")
        else options
        for name, options in search.items()
    }


def json_value(value: Any, path: Path) -> Any:
    """One value of such a configuration, at `path`."""
    if isinstance(value, (Domain, SampleFrom)):
        raise ValueError(f"{_text(path)}: {value!r} is to be drawn; a value is needed here")
    value = unboxed(value, one_element=False)
    if type(value) is dict and all(type(key) is str for key in value):
        return {key: json_value(item, (*path, key)) for key, item in value.items()}
    if type(value) is list:
        return [json_value(item, (*path, i)) for i, item in enumerate(value)]
    if type(value) is float:
        return float_text(value)
    if _is_json(value):
        return value
    try:
        return value_as_text(value)
    except ValueError as error:
        raise ValueError(f"{_text(path)}: {error}") from error


def encode_space(space: Optional[dict[str, Any]]) -> tuple[dict[str, Any], ValueTable]:
    """The JSON form of a space, and the table of the values that JSON cannot hold.

    Raises ValueError that begins with the path of the invalid value.
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
    """Whether any value in it will be drawn or computed."""
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
            if draws_inside(value):
                return {"choice": _encode_choice(value.arguments, path, table)}
            values = _encode_values(value.arguments, path, table)
            return {"choice": [_literal(each) if _looks_drawn(each) else each for each in values]}
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
        if isinstance(value.get("if"), dict) and not _has_domain(value):
            return {"constant": encoded}  # A constant that has this key: no condition.
        return encoded
    if isinstance(value, list):
        return [_encode(item, (*path, i), table) for i, item in enumerate(value)]
    return _plain(value, path, table)


def _encode_values(values: list[Any], path: Path, table: ValueTable) -> list[Any]:
    if any(map(_has_grid, values)):
        raise ValueError(f"{_text(path)}: the values of a choice or grid cannot hold a grid_search")
    texts = {value for value in values if type(value) is str}
    return [_plain(value, path, table, texts) for value in values]


def draws_inside(choice: Domain) -> bool:
    """Whether the head draws the domains inside the values of a choice: none is computed."""
    values = choice.arguments
    return any(map(_has_domain, values)) and not any(map(_has_sample_from, values))


def _encode_choice(values: list[Any], path: Path, table: ValueTable) -> list[Any]:
    """The values of a choice, with domains inside."""
    if any(map(_has_grid, values)):
        raise ValueError(f"{_text(path)}: the values of a choice or grid cannot hold a grid_search")
    texts = {value for value in values if type(value) is str}
    return [
        _encode_inner(value, path, table)
        if _has_domain(value)
        else _literal(_plain(value, path, table, texts))
        for value in values
    ]


def _encode_inner(value: Any, path: Path, table: ValueTable) -> Any:
    _refuse_hidden(value, path)
    return _encode(value, path, table)


def _literal(value: Any) -> Any:
    """A value in which the head does not look for domains."""
    return {"constant": value} if isinstance(value, (dict, list)) else value


def _has_grid(value: Any) -> bool:
    if isinstance(value, dict):
        return list(value) == ["grid_search"] or any(map(_has_grid, value.values()))
    if isinstance(value, Domain) and value.name == "choice":
        return any(map(_has_grid, value.arguments))
    return isinstance(value, (list, tuple)) and any(map(_has_grid, value))


def _has_sample_from(value: Any) -> bool:
    if isinstance(value, SampleFrom):
        return True
    if isinstance(value, Domain):
        return value.name == "choice" and any(map(_has_sample_from, value.arguments))
    if isinstance(value, dict):
        return any(map(_has_sample_from, value.values()))
    return isinstance(value, (list, tuple)) and any(map(_has_sample_from, value))


def _looks_drawn(value: Any) -> bool:
    """Whether the head would see a variable or a condition in this constant."""
    if isinstance(value, dict):
        is_primitive = len(value) == 1 and next(iter(value)) in _PRIMITIVES
        return is_primitive or "if" in value or any(map(_looks_drawn, value.values()))
    return isinstance(value, list) and any(map(_looks_drawn, value))


def _has_domain(value: Any) -> bool:
    if isinstance(value, (Domain, SampleFrom)):
        return True
    if isinstance(value, dict):
        return list(value) == ["grid_search"] or any(map(_has_domain, value.values()))
    return isinstance(value, (list, tuple)) and any(map(_has_domain, value))


def _is_json(value: Any) -> bool:
    if value is None or type(value) is bool:
        return True
    if type(value) is str:
        return is_plain_text(value)
    if type(value) is int:
        return -INT_MAX - 1 <= value <= INT_MAX
    if type(value) is float:
        return math.isfinite(value)
    if type(value) is list:
        return all(map(_is_json, value))
    return type(value) is dict and all(type(k) is str and _is_json(v) for k, v in value.items())


def _refuse_hidden(value: Any, path: Path) -> None:
    """No value is drawn inside a tuple, a dataclass, or a dict whose keys are not texts."""
    if isinstance(value, tuple) and _has_domain(value):
        raise ValueError(f"{_text(path)}: a domain inside a tuple is not drawn; use a list")
    texts = not isinstance(value, dict) or all(type(key) is str for key in value)
    if not texts and _has_domain(value):
        raise ValueError(
            f"{_text(path)}: a domain inside a dict is drawn when all keys of it are texts"
        )
    if is_dataclass(value) and any(map(_has_domain, vars(value).values())):
        kind = type(value).__name__
        raise ValueError(f"{_text(path)}: a domain inside a {kind} is not drawn here; use a dict")
    if isinstance(value, (dict, list)):
        for each in value.values() if isinstance(value, dict) else value:
            _refuse_hidden(each, path)


def _plain(value: Any, path: Path, table: ValueTable, texts: Collection[str] = ()) -> Any:
    """The value, or the text that represents it in the table: none of `texts`, which are values."""
    _refuse_hidden(value, path)
    value = unboxed(value, one_element=False)
    if type(value) is float:
        return float_text(value)
    if _is_json(value):
        return value
    pairs = table.setdefault(path, [])
    text = name = shown(value) if is_plain_text(shown(value)) else f"<{shown(value)!a}>"
    taken = {each for each, _ in pairs}.union(texts)
    number = 2
    while text in taken:
        text = f"{name} #{number}"
        number += 1
    pairs.append((text, value))
    return text


def _text(path: Path) -> str:
    return "/".join(map(str, path))


def bounded(params: dict[str, Any]) -> dict[str, Any]:
    """`params`, unless they are more than the head takes: ValueError."""
    size = len(dump(params))
    if size > _CONFIG_BYTES_MAX:
        raise ValueError(
            f"a configuration has at most {_CONFIG_BYTES_MAX} bytes as JSON, and this one {size}; "
            "pass large values to all trials with tune.with_parameters"
        )
    return params


def json_results(given: Any) -> Any:
    """Known results in the form of the head: NaN and infinite values are failures, as in YAML."""
    if not isinstance(given, (list, tuple)):
        return given
    made = []
    for each in given:
        if isinstance(each, dict) and isinstance(each.get("config"), dict):
            value = numbers(clean(each.get("value")))
            several = value if isinstance(value, list) else [value]
            lost = any(isinstance(one, float) and not math.isfinite(one) for one in several)
            each = {**each, "config": json_config(each["config"])}
            if "value" in each:
                each["value"] = None if lost else value
        made.append(each)
    return made
