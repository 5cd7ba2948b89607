"""The search algorithms and schedulers of the head, asked from `rt bridge --algorithms`.

Each algorithm is a table: its name, version, meaning, aliases, and options with their defaults and
ranges. The tables come from the program, so an algorithm that it has can be used by its name.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import json
import subprocess
from collections.abc import Iterable
from typing import Any, Optional, cast

from rt._driver import cannot_start, find_binary
from rt._errors import RtError
from rt._json import is_finite, is_number

Table = dict[str, Any]
ASK_TIMEOUT_S = 30.0


@functools.lru_cache(maxsize=1)
def tables() -> list[Table]:
    """All algorithms. Raises RtError when the program `rt` does not answer."""
    argv = [find_binary(), "bridge", "--algorithms"]
    try:
        reply = subprocess.run(argv, capture_output=True, timeout=ASK_TIMEOUT_S, check=True)
        return cast("list[Table]", json.loads(reply.stdout)["algorithms"])
    except OSError as error:
        raise cannot_start(argv[0], error) from None
    except (subprocess.SubprocessError, ValueError, KeyError) as error:
        raise RtError(f"{argv[0]} does not list its algorithms: {error}", "UNAVAILABLE") from None


def arguments_for(kind: type, kinds: Iterable[type], arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments without those that `kind` does not have and another one of `kinds` has."""
    own = inspect.signature(kind).parameters
    others = {name for each in kinds for name in inspect.signature(each).parameters}
    return {key: value for key, value in arguments.items() if key in own or key not in others}


def names(kind: str) -> list[str]:
    """The names of the algorithms of a kind, "search" or "scheduler"."""
    return sorted({str(table["name"]) for table in tables() if table["kind"] == kind})


def find(kind: str, name: str) -> Optional[Table]:
    """The newest version of the algorithm with that name or alias."""
    known = [
        table
        for table in tables()
        if table["kind"] == kind and name in (table["name"], *table["aliases"])
    ]
    return max(known, key=lambda table: int(table["version"]), default=None)


def meant(word: str, known: Iterable[str]) -> str:
    """A question that names the known word which `word` probably means, or ""."""
    near = difflib.get_close_matches(word.lower(), list(known), 1, 0.6)
    return f" (did you mean {near[0]!r}?)" if near else ""


def check(table: Table, options: dict[str, Any]) -> None:
    """Raises ValueError for an option that the table does not have, or out of its range."""
    known = {option["name"]: option for option in table["options"]}
    for name, value in options.items():
        option = known.get(name)
        if option is None:
            listed = ", ".join(sorted(known)) or "none"
            raise ValueError(
                f"{table['name']} has no option {name!r}{meant(name, known)}; its options: {listed}"
            )
        if option["type"] not in ("number", "integer"):
            continue
        if not is_number(value) or not is_finite(value):
            raise ValueError(f"{name} must be a number, not {value!r}")
        lower, upper = option["lower"], option["upper"]
        is_low = lower is not None and (value <= lower if option["open"] else value < lower)
        if is_low or (upper is not None and value > upper):
            raise ValueError(f"{name} must be {_range_text(option)}, not {value!r}")


def _range_text(option: dict[str, Any]) -> str:
    lower, upper = option["lower"], option["upper"]
    if upper is None:
        return f"{'above' if option['open'] else 'at least'} {lower:g}"
    if option["open"]:
        return f"above {lower:g} and at most {upper:g}"
    return f"between {lower:g} and {upper:g}"
