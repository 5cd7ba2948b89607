"""Values of a configuration that JSON cannot hold, which JSON shows as text.

The values of the search space travel in the pickle with the trainable. A table maps a path in the
configuration to the possible pairs (text shown, value). A value that is computed later, by
sample_from or a searcher, is contained in the text itself: "py:(64, 32)" is a literal of Python,
and "pickle:<class 'ReLU'> gASV..." is any other value, in base64.
"""

from __future__ import annotations

import ast
import base64
from typing import Any, Optional, Union

from rt._json import SPECIAL_TEXTS, shown
from rt._main import load_value

Path = tuple[Union[str, int], ...]
ValueTable = dict[Path, list[tuple[str, Any]]]

_LITERAL, _PICKLE = "py:", "pickle:"
_LITERAL_MAX = 1000  # Characters.
_PICKLED_BYTES_MAX = 16 << 10  # The head keeps the value with each trial.


def is_plain_text(value: str) -> bool:
    """Whether the text arrives unchanged: it is valid UTF-8, and does not look like a value."""
    if value in SPECIAL_TEXTS or value.startswith((_LITERAL, _PICKLE)):
        return False
    return value.isascii() or not any("\ud800" <= each <= "\udfff" for each in value)


def value_as_text(value: Any) -> str:
    """A text from which restore_values makes the value. Raises ValueError with the reason."""
    literal = _literal(value)
    if literal is not None:
        return _LITERAL + literal
    from rt._pack import dumps  # The module imports more than a trial needs.

    pickled = dumps(value)
    if len(pickled) > _PICKLED_BYTES_MAX:
        raise ValueError(
            f"{shown(value)} cannot be sent to a trial: what is computed for one trial may have "
            f"{_PICKLED_BYTES_MAX} bytes when pickled, not {len(pickled)}; compute it in the "
            "trainable, or give it to all with tune.with_parameters"
        )
    name = ascii(shown(value))[1:-1]
    return f"{_PICKLE}{name} {base64.b64encode(pickled).decode()}"


def _literal(value: Any) -> Optional[str]:
    """ascii(value) if that is a literal which represents the value completely."""
    if type(value) not in (tuple, list, dict, str, bytes, int, complex):
        return None
    try:
        text = ascii(value)
        same = len(text) <= _LITERAL_MAX and ascii(ast.literal_eval(text)) == text
    except Exception:
        return None  # A value inside is not a literal: the value is pickled.
    return text if same else None


def restore_values(
    config: Any, table: ValueTable, strict: bool = False, unpickle: bool = True
) -> Any:
    """`config` with the values instead of their texts; changed in place.

    A value that cannot be unpickled here stays a text. With `strict`, the error is raised. Without
    `unpickle`, pickled values stay texts: loading them runs code of whoever wrote them.
    """
    config = _decoded(config, strict, (_LITERAL, _PICKLE) if unpickle else (_LITERAL,))
    for path, pairs in table.items():
        holder = config
        try:
            for step in path[:-1]:
                holder = holder[step]
            found = holder[path[-1]]
        except (KeyError, IndexError, TypeError):
            continue
        if isinstance(found, str):
            holder[path[-1]] = next((value for text, value in pairs if text == found), found)
    return config


def _decoded(value: Any, strict: bool, prefixes: tuple[str, ...]) -> Any:
    if isinstance(value, dict):
        for key, item in value.items():
            value[key] = _decoded(item, strict, prefixes)
    elif isinstance(value, list):
        value[:] = [_decoded(item, strict, prefixes) for item in value]
    elif isinstance(value, str) and value.startswith(prefixes):
        try:
            return _value_of(value)
        except Exception:
            if strict:
                raise
    return value


def _value_of(text: str) -> Any:
    if text.startswith(_LITERAL):
        return ast.literal_eval(text[len(_LITERAL) :])
    return load_value(base64.b64decode(text.rpartition(" ")[2], validate=True))
