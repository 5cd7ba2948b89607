"""Detects likely mistakes in a search: a misspelt grid_search, a function that was not called, a
class where an object belongs.

A search is checked when a script starts it, and never when it is resumed: an older release accepted
some of these values as constants (common/spec/slips.h checks an experiment's YAML the same way).
"""

from __future__ import annotations

import ast
import contextlib
import difflib
import functools
import inspect
import linecache
import os
import sys
from collections.abc import Iterable, Iterator
from types import FrameType
from typing import Any, Callable, Optional, TypeVar

from rt import _space
from rt._json import dump, is_finite, is_number, shown, unboxed
from rt._missing import explain_argument
from rt._space import Domain, SampleFrom
from rt._values import Path

_OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep
_EXAMPLES = os.path.join(_OWN, "tune", "examples") + os.sep
_DISTRIBUTIONS = (
    "choice", "grid_search", "lograndint", "loguniform", "qlograndint", "qloguniform", "qrandint",
    "qrandn", "quniform", "randint", "randn", "sample_from", "uniform",
)  # fmt: skip
_UNCALLED = {getattr(_space, name): name for name in _DISTRIBUTIONS}
_YAML_ONLY = ("grid", "constant")  # grid_search and a constant in an experiment's YAML.
_RESOURCES = ("cpu", "gpu", "memory", "ranks", "bundles", "strategy", "gpu_sharing", "gpu_type")
_DEPTH_MAX = 32
_LOOKED_INTO = 100  # Items of a list of numbers and texts; a longer list is data.
_SPEC_BYTES_MAX = 1 << 20  # The same bound as in the head.

_NAMES = (*_DISTRIBUTIONS, *_YAML_ONLY)

Place = tuple[str, int]  # A file and a line of it.


def place_of_call() -> Optional[Place]:
    """The place where the script called into this package."""
    frame: Optional[FrameType] = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith(_OWN) or name.startswith(_EXAMPLES):
            return name, frame.f_lineno
        frame = frame.f_back
    return None


def refuse_class(name: str, value: Any) -> None:
    """Raises ValueError when `value` is a class, because `name` takes an object."""
    if inspect.isclass(value):
        called = value.__name__
        raise ValueError(f"{name} is the class {called}; it needs an object: {called}(...)")


def nearest(word: str, known: Iterable[str]) -> Optional[str]:
    """The known word that `word` probably means, ignoring case and underscores; or None."""
    plain = {_plain(each): each for each in known}
    found = difflib.get_close_matches(_plain(word), plain, 1, 0.8)
    return plain[found[0]] if found else None


def _plain(word: str) -> str:
    word = word.rpartition(".")[2]
    return "".join(letter for letter in word.lower() if letter.isalnum())


_Class = TypeVar("_Class", bound=type)


def suggests_arguments(cls: _Class) -> _Class:
    """A class whose TypeError for an unknown argument names the one that was meant.

    An argument that Ray has and rt does not have yet is a ValueError that says what works instead,
    unless its value is None or False.
    """
    made: Any = cls
    init = made.__init__
    known = [name for name in inspect.signature(init).parameters if name != "self"]

    @functools.wraps(init)
    def checked(self: Any, *args: Any, **kwargs: Any) -> None:
        for name in [name for name in kwargs if name not in known]:
            text = explain_argument(cls.__name__, name)
            if text is None:
                raise unknown_argument(cls.__name__, name, known)
            if kwargs.pop(name) not in (None, False):
                raise ValueError(text)
        init(self, *args, **kwargs)

    made.__init__ = checked
    return cls


def unknown_argument(
    callee: str,
    name: str,
    known: Iterable[str],
    parts: Optional[dict[str, type]] = None,
    renamed: Optional[dict[str, str]] = None,
) -> TypeError:
    """The error for a keyword argument that `callee` does not take.

    parts: arguments that are dataclasses, one of which may have a field of that name. renamed: what
    to write for names that users of other interfaces know.
    """
    holders = {argument: cls for argument, cls in (parts or {}).items() if name in _fields(cls)}
    near = nearest(name, known)
    hint = f"; did you mean {near!r}?" if near else ""
    for argument, cls in holders.items():
        hint = f"; write {argument}={cls.__name__}({name}=...)"
    if renamed and name in renamed:
        hint = f"; write {renamed[name]}"
    return TypeError(f"{callee}() got an unexpected keyword argument {name!r}{hint}")


def _fields(cls: type) -> Iterable[str]:
    return getattr(cls, "__dataclass_fields__", {})


def whole(name: str, value: Any, least: Optional[int] = None) -> int:
    """An integer that is at least `least`, also one of numpy. Raises ValueError otherwise."""
    found = unboxed(value)
    if isinstance(found, bool) or not isinstance(found, int):
        raise ValueError(f"{name} must be a whole number, not {shown(value)}")
    if least is not None and found < least:
        raise ValueError(f"{name} must be at least {least}, not {shown(value)}")
    return found


def check_min_or_max(mode: Any) -> None:
    """Raises ValueError unless it is "min", "max", a list of these, or None."""
    for each in mode if isinstance(mode, list) else [mode]:
        if each not in (None, "min", "max"):
            raise ValueError(f"mode must be 'min' or 'max', not {each!r}")


def number(name: str, value: Any, kind: str = "a number") -> Any:
    """A finite number, also one of numpy. Raises ValueError, which asks for `kind`, otherwise."""
    found = unboxed(value)
    if not is_number(found) or not is_finite(found):
        raise ValueError(f"{name} must be {kind}, not {shown(value)}")
    return found


@contextlib.contextmanager
def errors_at(place: Optional[Place]) -> Iterator[None]:
    """Puts `file:line: ` of the call with the mistake before the text of a ValueError."""
    try:
        yield
    except ValueError as error:
        if place is None:
            raise
        raise ValueError(f"{_shown(*place)}: {error}") from error.__cause__


def check_space(space: Any, place: Optional[Place] = None) -> None:
    """Raises ValueError for a constant that is probably a mistake: file, line, key and correction.

    `place`: of the call that got the space.
    """
    if not isinstance(space, dict):
        return  # encode_space reports it.
    for path, value in _constants(space):
        wrong = _name_slip(value) or _uncalled(value) or _text_slip(value) or _foreign(value)
        if wrong is not None:
            raise ValueError(f"{_where(path, place)}{'/'.join(map(str, path))}: {wrong}")


def check_size(spec: dict[str, Any]) -> None:
    """Raises ValueError, which names the key, for a specification that the head would refuse."""
    size = len(dump(spec))
    if size <= _SPEC_BYTES_MAX:
        return
    sizes = {key: len(dump(value)) for key, value in spec["space"].items()}
    key = max(sizes, key=lambda each: sizes[each], default="")
    text = f"the search takes {size / 1e6:.1f} MB as JSON; at most {_SPEC_BYTES_MAX / 1e6:.1f} MB"
    if 2 * sizes.get(key, 0) > size:
        text += f" are possible, and {key!r} alone takes {sizes[key] / 1e6:.1f} MB. Give large "
        text += f"values to the trials with tune.with_parameters(trainable, {key}=...)"
    else:
        text += " are possible"
    raise ValueError(text)


def refusal(error: ValueError, spec: dict[str, Any]) -> ValueError:
    """The head's refusal of a specification, with the names that scripts use."""
    text = str(error)
    if text.startswith("experiment: "):
        text = "name" + text[len("experiment") :]
    asked = spec["resources"]
    names = [name for bundle in asked.get("bundles", [asked]) for name in bundle]
    for name in names:
        near = nearest(name, _RESOURCES) if name not in _RESOURCES else None
        if near and name in text and "did you mean" not in text:
            text += f"; did you mean {near!r} by {name!r}?"
    return ValueError(text)


def notes_of(space: Any) -> list[str]:
    """Sentences about constants that might have been meant as a choice."""
    notes = []
    for path, value in _constants(space or {}):
        name = "/".join(map(str, path))
        if path[-1] in _NAMES:
            continue  # Its dict was reported.
        if _is_plain_list(value):
            text = shown(value)
            notes.append(
                f"{name} is the same list in every trial; to draw one of its values write "
                f"tune.choice({text}), to try each tune.grid_search({text})"
            )
        elif isinstance(value, dict) and list(value) != ["grid_search"] and len(value) == 1:
            key = next(iter(value))
            if key in _NAMES:
                called = {"grid": "grid_search", "constant": "choice"}.get(key, key)
                notes.append(
                    f"{name} is the dict {shown(value)} in every trial; a distribution is written "
                    f"tune.{called}(...)"
                )
    return notes


def notes_of_points(space: Any, points: list[dict[str, Any]]) -> list[str]:
    """Sentences about keys of points_to_evaluate that the space does not have."""
    known = list(space) if isinstance(space, dict) else []
    keys = {key for point in points for key in point if key not in known}
    unknown = {key for key in keys if str(key).partition("/")[0] not in known}
    notes = []
    for key in sorted(unknown, key=str):
        near = nearest(str(key), map(str, known))
        hint = f"; did you mean {near!r}?" if near else ""
        notes.append(f"points_to_evaluate: {key!r} is not in the search space{hint}")
    return notes


def _constants(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every value below `value` that is not a distribution, with its path."""
    if len(path) > _DEPTH_MAX or isinstance(value, (Domain, SampleFrom)):
        return
    if path:
        yield path, value
    if isinstance(value, dict) and list(value) != ["grid_search"]:
        for key, item in value.items():
            if not (path and key == "if" and isinstance(item, dict)):  # A condition.
                yield from _constants(item, (*path, key))
    elif isinstance(value, list) and not (len(value) > _LOOKED_INTO and _is_plain_list(value)):
        for i, item in enumerate(value):
            yield from _constants(item, (*path, i))


def _is_plain_list(value: Any) -> bool:
    scalar = (bool, int, float, str)
    return isinstance(value, list) and len(value) > 1 and all(isinstance(v, scalar) for v in value)


def _name_slip(value: Any) -> Optional[str]:
    if not isinstance(value, dict):
        return None
    if "grid_search" in value and len(value) > 1:
        others = ", ".join(repr(key) for key in value if key != "grid_search")
        return f"grid_search must be the only key of its dict; beside it: {others}"
    if len(value) != 1:
        return None
    ((name, inside),) = value.items()
    if not isinstance(name, str) or not isinstance(inside, (list, tuple, range)):
        return None  # No distribution accepts other values.
    if name in _NAMES:
        return None
    near = nearest(name, _DISTRIBUTIONS)
    if near is None:
        return None
    return (
        f"unknown distribution {name!r}; did you mean tune.{near}(...)? Write "
        f"tune.choice([{{{name!r}: [...]}}]) for a dict that is a constant"
    )


def _uncalled(value: Any) -> Optional[str]:
    try:
        name = _UNCALLED.get(value) if callable(value) else None
    except TypeError:  # It has no hash.
        return None
    if name is None:
        return None
    return f"tune.{name} is the function, not a distribution; call it: {_call(value)}"


def _call(function: Callable[..., Any]) -> str:
    required = [
        name
        for name, each in inspect.signature(function).parameters.items()
        if each.default is inspect.Parameter.empty
    ]
    return f"tune.{function.__name__}({', '.join(required)})"


def _text_slip(value: Any) -> Optional[str]:
    if not isinstance(value, str) or not value.endswith(")") or "(" not in value:
        return None
    before = value.partition("(")[0].strip()
    name = before.rpartition(".")[2]
    if name not in _DISTRIBUTIONS or before not in (name, f"tune.{name}", f"ray.tune.{name}"):
        return None
    return f"{shown(value)} is a text, not a distribution; write it without quotes"


def _foreign(value: Any) -> Optional[str]:
    if not str(getattr(type(value), "__module__", "")).startswith("ray.tune."):
        return None
    return f"{shown(value)} is a distribution of Ray; import tune from rt: from rt import tune"


def _where(path: Path, place: Optional[Place]) -> str:
    """`file:line: ` of the key if it is found in the source, else of the call."""
    if place is None:
        return ""
    file, line = place
    return f"{_shown(file, _line_of(path, file) or line)}: "


def _shown(file: str, line: int) -> str:
    """`file:line`; the cell of a notebook has no file that a user could open."""
    if file.startswith("<") or os.path.exists(file):
        return f"{file}:{line}"
    return f"line {line} of the cell"


def _line_of(path: Path, file: str) -> Optional[int]:
    """The line of the only dict display in that file whose keys are nested as in the path."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return None
    found = [line for node in ast.walk(tree) for line in _lines(node, path)]
    return found[0] if len(found) == 1 else None


def _lines(node: ast.AST, path: Path) -> Iterator[int]:
    step, rest = path[0], path[1:]
    pairs: list[tuple[ast.expr, ast.expr]] = []
    if isinstance(node, ast.Dict) and isinstance(step, str):
        named = ((key, value) for key, value in zip(node.keys, node.values) if key is not None)
        pairs = [pair for pair in named if getattr(pair[0], "value", None) == step]
    elif isinstance(node, ast.Call) and getattr(node.func, "id", None) == "dict":
        pairs = [(each.value, each.value) for each in node.keywords if each.arg == step]
    elif isinstance(node, ast.List) and isinstance(step, int) and step < len(node.elts):
        pairs = [(node.elts[step], node.elts[step])]
    for key, value in pairs:
        if rest:
            yield from _lines(value, rest)
        else:
            yield key.lineno
