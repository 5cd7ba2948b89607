"""Ray's module paths: modules that only name what lives elsewhere, made from one table each; and
what is said of those that rt does not have yet.

`from rt.tune.tuner import Tuner` finds the entry that `alias` put into sys.modules: importing
`rt.tune` comes first, and makes them.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any, NoReturn, Optional


def alias(sources: Iterable[ModuleType], table: Mapping[str, Iterable[str]]) -> None:
    """Makes every module of the table, whose names are taken from the first source that has them.

    Parents must be there, or stand before their children in the table.
    """
    found = list(sources)
    for path, names in table.items():
        module = ModuleType(path, "A module path of Ray; what it names lives elsewhere.")
        for name in names:
            setattr(module, name, next(getattr(s, name) for s in found if hasattr(s, name)))
        sys.modules[path] = module
        parent, _, last = path.rpartition(".")
        setattr(sys.modules[parent], last, module)


def no_attribute(module: str, name: str) -> NoReturn:
    """Raises AttributeError, as a module does; of a name of Ray it says what works instead."""
    from rt._missing import explain

    text, near = explain(f"{module}.{name}"), None
    if text is None:
        text, near = f"module {module!r} has no attribute {name!r}", _nearest(module, name)
        text += f"; did you mean {near!r}?" if near else ""
    error = AttributeError(text)
    if near is None and hasattr(error, "name"):  # For the interpreter's own suggestions.
        error.name, error.obj = name, sys.modules[module]
    raise error


def _nearest(module: str, name: str) -> Optional[str]:
    """The public name of the module that `name` is a slip for, or None."""
    if name.startswith("_"):  # Also asked for while the package itself is being imported.
        return None
    known = [each for each in vars(sys.modules[module]) if not each.startswith("_")]
    return next(iter(difflib.get_close_matches(name, known, 1, 0.8)), None)


class _MissingFinder:
    """Asked last of all finders: raises for a name of Ray that rt does not have yet."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        """None, or ModuleNotFoundError.

        The error carries no name: `from rt import data` would else lose it (importlib takes an
        error of that very name for the answer to a question).
        """
        if not name.startswith("rt.") or _only_asked():
            return
        from rt._missing import explain

        text = explain(name)
        if text is not None:
            raise ModuleNotFoundError(text)


def _only_asked() -> bool:
    """Whether it is importlib.util.find_spec that looks for a module."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__") != "importlib.util":
        if frame.f_code.co_name == "_find_and_load_unlocked":
            return False
        frame = frame.f_back
    return frame.f_back is not None


def announce_missing(*modules: ModuleType) -> None:
    """Lets these modules say of a missing name of Ray what works instead."""
    if not any(isinstance(each, _MissingFinder) for each in sys.meta_path):
        sys.meta_path.append(_MissingFinder())
    for module in modules:
        if not hasattr(module, "__path__"):  # Finders are asked for what is in a package only.
            vars(module)["__path__"] = []
        if "__getattr__" not in vars(module):
            vars(module)["__getattr__"] = _getattr_of(module.__name__)


def _getattr_of(module: str) -> Any:
    def missing(name: str) -> NoReturn:
        no_attribute(module, name)

    return missing
