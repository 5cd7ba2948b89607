"""Ray's module paths: modules that only contain aliases, each made from one table, and the errors
for modules that rt does not have yet.

`from rt.tune.tuner import Tuner` finds the entry that `alias` put into sys.modules, because
importing `rt.tune` comes first and creates the aliases.
"""

from __future__ import annotations

import difflib
import importlib
import sys
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any, NoReturn, Optional


def alias(sources: Iterable[ModuleType], table: Mapping[str, Iterable[str]]) -> None:
    """Makes every module of the table; a name is taken from the first source that has it.

    Parents must exist, or come before their children in the table.
    """
    found = list(sources)
    for path, names in table.items():
        module = ModuleType(path, "A module path of Ray; what it names lives elsewhere.")
        for name in names:
            setattr(module, name, next(getattr(s, name) for s in found if hasattr(s, name)))
        sys.modules[path] = module
        parent, _, last = path.rpartition(".")
        setattr(sys.modules[parent], last, module)


def alias_lazily(source: str, table: Mapping[str, Iterable[str]]) -> None:
    """The same, with names of a module that is imported when one of them is used.

    A module that `alias` made keeps its names.
    """
    for path, names in table.items():
        if path not in sys.modules:
            alias([], {path: []})
        module, more = sys.modules[path], list(names)
        known = [name for name in vars(module) if not name.startswith("_")]
        vars(module)["__all__"] = [*known, *more]
        vars(module)["__getattr__"] = _getattr_from(source, module, more)


def _getattr_from(source: str, module: ModuleType, names: list[str]) -> Any:
    def load(name: str) -> Any:
        if name not in names:
            no_attribute(module.__name__, name)
        value = getattr(importlib.import_module(source), name)
        setattr(module, name, value)
        return value

    return load


def no_attribute(module: str, name: str) -> NoReturn:
    """Raises AttributeError, as a module does; for a name of Ray it says what works instead."""
    from rt._missing import explain

    text, near = explain(f"{module}.{name}"), None
    if text is None:
        text, near = f"module {module!r} has no attribute {name!r}", _nearest(module, name)
        text += f"; did you mean {near!r}?" if near else ""
    error = AttributeError(text)
    if near is None and hasattr(error, "name"):  # For the interpreter's own suggestions.
        error.name, error.obj = name, sys.modules[module]
    raise error


class Explained:
    """The base of classes whose missing attributes of Ray say what works instead."""

    _ray_name = ""  # Ray's name of the class, such as "rt.train.TrainContext".

    def __getattr__(self, name: str) -> NoReturn:
        from rt._missing import explain_method

        kind = type(self).__name__
        text = explain_method(type(self)._ray_name, name)
        raise AttributeError(text or f"{kind!r} object has no attribute {name!r}")


def _nearest(module: str, name: str) -> Optional[str]:
    """The public name of the module that `name` is a slip for, or None."""
    if name.startswith("_"):  # Also asked for while the package itself is being imported.
        return None
    found = vars(sys.modules[module])
    known = [each for each in [*found, *found.get("__all__", ())] if not each.startswith("_")]
    return next(iter(difflib.get_close_matches(name, known, 1, 0.8)), None)


class _MissingFinder:
    """The last finder: raises for a name of Ray that rt does not have yet."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        """None, or ModuleNotFoundError.

        The error carries no name. Otherwise `from rt import data` would lose it, because importlib
        treats an error with that name as the answer to its own question.
        """
        if not name.startswith("rt.") or _only_asked():
            return
        from rt._missing import explain

        text = explain(name)
        if text is not None:
            raise ModuleNotFoundError(text)


def _only_asked() -> bool:
    """Whether importlib.util.find_spec is looking for a module."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__") != "importlib.util":
        if frame.f_code.co_name == "_find_and_load_unlocked":
            return False
        frame = frame.f_back
    return frame.f_back is not None


def announce_missing(*modules: ModuleType) -> None:
    """Makes these modules say what works instead of a missing name of Ray."""
    if not any(isinstance(each, _MissingFinder) for each in sys.meta_path):
        sys.meta_path.append(_MissingFinder())
    for module in modules:
        if not hasattr(module, "__path__"):  # Finders are asked only for contents of packages.
            vars(module)["__path__"] = []
        if "__getattr__" not in vars(module):
            vars(module)["__getattr__"] = _getattr_of(module.__name__)


def _getattr_of(module: str) -> Any:
    def missing(name: str) -> NoReturn:
        no_attribute(module, name)

    return missing
