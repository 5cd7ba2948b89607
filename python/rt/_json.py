"""JSON as rt writes it: NaN and infinities are strings, and unsupported values become text."""

from __future__ import annotations

import codecs
import json
import math
import re
from collections.abc import Iterable
from typing import Any, Optional, Union

_SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
INT_MAX = 2**63 - 1
SPECIAL_TEXTS = frozenset(_SPECIAL)  # On the wire these represent numbers.


def shown(value: Any) -> str:
    """repr(value) without memory addresses, at most 200 characters."""
    try:
        text = _ADDRESS.sub("", repr(value))
    except Exception:
        text = f"<{type(value).__name__}>"
    return text if len(text) <= 200 else text[:197] + "..."


def unboxed(value: Any, one_element: bool = True) -> Any:
    """A numpy scalar, or a zero-dimensional array or tensor, as a Python number; others unchanged.

    `one_element`: also converts an array or tensor of one element.
    """
    if isinstance(value, (bool, int, float, str)) and type(value).__module__ == "builtins":
        return value
    item = getattr(value, "item", None)
    if item is None or getattr(value, "shape", None) not in (((), (1,)) if one_element else ((),)):
        return value
    try:
        return item()
    except Exception:
        return value


def is_number(value: Any) -> bool:
    """Whether it is an int or a float; a bool is none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_finite(value: Union[int, float]) -> bool:
    """Whether a float can hold the number."""
    try:
        return math.isfinite(value)
    except OverflowError:  # An int beyond 1.8e308.
        return False


def float_text(value: float) -> Any:
    """A finite float unchanged, the others as "NaN", "Infinity" or "-Infinity"."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")


def clean(value: Any, depth: int = 0) -> Any:
    """`value` in a form that JSON can hold: tuples, sets and arrays become lists, others text.

    Raises ValueError for an int that no float can hold.
    """
    kind = type(value)
    if kind is float:
        return float_text(value)
    if kind is int:
        return value if -INT_MAX - 1 <= value <= INT_MAX else _as_float(value)
    if value is None or kind is bool or kind is str:
        return value
    if depth > 30:
        return shown(value)
    value = unboxed(value)
    if isinstance(value, dict):
        return {str(key): clean(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [clean(item, depth + 1) for item in value]
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return clean(int(value))
    if isinstance(value, float):
        return float_text(float(value))
    if isinstance(value, str):
        return str(value)
    tolist = getattr(value, "tolist", None)
    if tolist is not None and getattr(value, "size", 0) != 0 and _small(value):
        return clean(tolist(), depth + 1)
    return shown(value)


def clean_row(metrics: dict[str, Any]) -> Any:
    """`clean` for a row of metrics; its ValueError names the metric."""
    try:
        return clean(metrics)
    except ValueError:
        for name, value in metrics.items():
            try:
                clean(value)
            except ValueError as error:
                raise ValueError(f"report(): the metric {name!r}: {error}") from None
        raise


def _as_float(value: int) -> float:
    if not is_finite(value):
        bits = value.bit_length()
        raise ValueError(f"an integer of {bits} bits is too large; a number reaches 1.8e308")
    return float(value)


def _small(array: Any) -> bool:
    try:
        return len(array) <= 1000
    except TypeError:
        return False


def numbers(value: Any) -> Any:
    """Replaces the strings for NaN and infinities by floats, in a tree that was read."""
    if isinstance(value, str):
        return _SPECIAL.get(value, value)
    if isinstance(value, dict):
        return {key: numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [numbers(item) for item in value]
    return value


def _escape(error: UnicodeError) -> tuple[str, int]:
    """Escapes lone surrogates (of file names), which UTF-8 lacks, as the text \\udce9 in JSON."""
    assert isinstance(error, UnicodeEncodeError)
    lacking = error.object[error.start : error.end]
    return "".join(f"\\\\u{ord(each):04x}" for each in lacking), error.end


codecs.register_error("rt.json", _escape)
_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False, ensure_ascii=False).encode
_decode = json.JSONDecoder().decode


def dump(value: Any) -> bytes:
    """One line of JSON with its newline, from a tree that `clean` made; always valid UTF-8.

    Raises ValueError that names the place of a number that JSON does not have.
    """
    try:
        return _encode(value).encode(errors="rt.json") + b"\n"
    except ValueError:
        found = _not_finite(value)
        if found is None:
            raise
        place = found[0].removeprefix("/spec").lstrip("/")
        raise ValueError(f"{place}: must be a finite number, not {found[1]}") from None


def _not_finite(value: Any, place: str = "") -> Optional[tuple[str, float]]:
    """The place and the value of the first NaN or infinity in a tree."""
    if isinstance(value, float) and not math.isfinite(value):
        return place, value
    items: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, (list, tuple)):
        items = enumerate(value)
    for key, item in items:
        found = _not_finite(item, f"{place}/{key}")
        if found is not None:
            return found
    return None


def parse(line: bytes) -> Any:
    """The value of a line of JSON in UTF-8. Raises ValueError for invalid JSON."""
    return _decode(line.decode())


def flatten(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"a": {"b": 1}} -> {"a/b": 1}. Lists and empty maps are leaves."""
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict) and value:
            flat.update(flatten(value, name + "/"))
        else:
            flat[name] = value
    return flat


def number_at(tree: dict[str, Any], key: str) -> Any:
    """The number under `key` ("a/b" reaches into maps), or None if absent or not a number."""
    value: Any = tree.get(key)
    if value is None and "/" in key:
        value = flatten(tree).get(key)
    if isinstance(value, bool):
        return float(value)
    return value if isinstance(value, (int, float)) else None
