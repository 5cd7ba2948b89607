"""Values of a configuration that JSON cannot hold: shown as text there.

What the search space names is carried in the pickle beside the trainable: the table maps a path in
the configuration to the pairs (text shown, value) that may stand there. What is computed later, by
sample_from or a searcher, is in the text itself: "py:(64, 32)" is a literal of Python, and
"pickle:<class 'ReLU'> gASV..." the rest, in base64.
"""

from __future__ import annotations

import ast
import base64
import pickle
from typing import Any, Optional, Union

from rt._json import SPECIAL_TEXTS, shown

Path = tuple[Union[str, int], ...]
# A pair without a text is a function: it gives what stands there, a list or dict, its true type.
ValueTable = dict[Path, list[tuple[Optional[str], Any]]]

_LITERAL, _PICKLE = "py:", "pickle:"
_PICKLED_BYTES_MAX = 16 << 10  # The head keeps it with each trial.


def is_plain_text(value: str) -> bool:
    """Whether the text arrives as it is: UTF-8 can hold it, and nothing takes it for a value."""
    if value in SPECIAL_TEXTS or value.startswith((_LITERAL, _PICKLE)):
        return False
    return value.isascii() or not any("\ud800" <= each <= "\udfff" for each in value)


def value_as_text(value: Any) -> str:
    """A text that restore_values turns into the value. ValueError says why there is none."""
    literal = _literal(value)
    if literal is not None:
        return _LITERAL + literal
    import cloudpickle

    try:
        pickled = bytes(cloudpickle.dumps(value))
    except Exception as error:
        raise ValueError(f"{shown(value)} cannot be sent to a trial: {error}") from error
    if len(pickled) > _PICKLED_BYTES_MAX:
        raise ValueError(
            f"{shown(value)} cannot be sent to a trial: a value that is computed for one may have "
            f"{_PICKLED_BYTES_MAX} bytes when pickled, not {len(pickled)}; compute it in the "
            "trainable, or give it to all with tune.with_parameters"
        )
    name = shown(value).encode("ascii", "backslashreplace").decode()
    return f"{_PICKLE}{name} {base64.b64encode(pickled).decode()}"


def _literal(value: Any) -> Optional[str]:
    """repr(value) when that is plain ASCII that says all, at most 1000 characters."""
    if type(value) not in (tuple, list, dict, str, bytes, int, complex):
        return None
    try:
        text = ascii(value)
        same = len(text) <= 1000 and ascii(ast.literal_eval(text)) == text
    except Exception:
        return None
    return text if same else None


def restore_values(config: Any, table: ValueTable, shaped: bool = True) -> Any:
    """`config` with the values in place of what stands for them; changed in place.

    shaped=False: what is to become a tuple, or has other keys than texts, stays a list or dict, so
    that the table's paths lead into it. A pickle that cannot be read here stays a text.
    """
    config = _decoded(config)
    for path, pairs in table.items():
        holder, step = _holder(config, path)
        for text, value in pairs if holder is not None else ():
            if text is not None and holder[step] == text:
                holder[step] = value
                break
    return reshape(config, table) if shaped else config


def reshape(config: Any, table: ValueTable) -> Any:
    """The rest of it, for what was restored with shaped=False; in place."""
    for path in sorted(table, key=len, reverse=True):  # What is inside comes first.
        holder, step = _holder(config, path)
        for text, shape in table[path] if holder is not None else ():
            if text is None:
                holder[step] = shape(holder[step])
    return config


def _holder(config: Any, path: Path) -> tuple[Any, Any]:
    """What holds the value at `path`, and its key there; (None, None) when it is not there."""
    try:
        for step in path[:-1]:
            config = config[step]
        config[path[-1]]
    except (KeyError, IndexError, TypeError):
        return None, None
    return config, path[-1]


def _decoded(value: Any) -> Any:
    if isinstance(value, dict):
        for key, item in value.items():
            value[key] = _decoded(item)
    elif isinstance(value, list):
        value[:] = map(_decoded, value)
    elif isinstance(value, str) and value.startswith((_LITERAL, _PICKLE)):
        return _value_of(value)
    return value


def _value_of(text: str) -> Any:
    try:
        if text.startswith(_LITERAL):
            return ast.literal_eval(text[len(_LITERAL) :])
        return pickle.loads(base64.b64decode(text.rpartition(" ")[2], validate=True))
    except Exception:
        return text


class AsTuple:
    """Makes a list the tuple that it was, a named one if need be."""

    def __init__(self, kind: type) -> None:
        self.kind = kind

    def __call__(self, items: Any) -> Any:
        make = getattr(self.kind, "_make", self.kind)
        return make(items) if isinstance(items, list) else items


class WithKeys:
    """Gives a dict its keys back: from the texts that stood for them."""

    def __init__(self, keys: dict[str, Any]) -> None:
        self.keys = keys

    def __call__(self, items: Any) -> Any:
        if not isinstance(items, dict):
            return items
        return {self.keys.get(key, key): value for key, value in items.items()}
