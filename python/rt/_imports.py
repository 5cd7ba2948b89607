"""Finds and performs, ahead of time, the imports that a trainable's code would perform.

Functions that travel by value import modules inside their bodies, or call functions that do. This
module walks their code, and the functions and classes that it names, without calling any of them.
An import that fails here is ignored: it may fail or succeed where the user wrote it.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import importlib.util
import inspect
import os
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from types import CodeType, FunctionType, ModuleType
from typing import Any

from rt._sources import SourceImporter

_FUNCTIONS_MAX = 1000  # Enough for a user's code; the code of libraries is not walked.
_VALUES_MAX = 20_000  # The number of values searched for functions.
_ITEMS_MAX = 1000  # Of a list or table: a table of functions is short, and data is not searched.
_CONTAINERS = (dict, list, tuple, set, frozenset)
_STANDARD_LIBRARY = os.path.dirname(os.__file__) + os.sep


def import_all(roots: list[Any]) -> list[FunctionType]:
    """Performs the imports in the code of `roots` (functions, classes, partials, or None). The
    user's functions that it has found."""
    found = _functions(roots)
    for function in found:
        package = function.__globals__.get("__package__") or ""
        for name, level, wanted in _imports_of(function.__code__):
            _import(name, level, wanted, package)
    return found


def _import(name: str, level: int, wanted: tuple[str, ...], package: str) -> None:
    with contextlib.suppress(Exception, SystemExit):
        if level:
            name = importlib.util.resolve_name("." * level + name, package)
        module = importlib.import_module(name)
        for each in wanted:
            if each != "*" and not hasattr(module, each) and hasattr(module, "__path__"):
                with contextlib.suppress(ImportError):
                    importlib.import_module(f"{name}.{each}")


def _imports_of(code: CodeType) -> Iterator[tuple[str, int, tuple[str, ...]]]:
    """(module, level, names after `from`) of every import statement, including nested functions."""
    constants: list[Any] = []
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_CONST", "LOAD_SMALL_INT"):
            constants.append(step.argval)
        elif step.opname == "IMPORT_NAME":
            level, wanted = constants[-2:] if len(constants) >= 2 else (0, None)
            yield str(step.argval), level or 0, wanted if isinstance(wanted, tuple) else ()
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _imports_of(constant)


def _functions(roots: list[Any]) -> list[FunctionType]:
    """The functions reachable from the roots that did not come from an installed module."""
    found: dict[int, FunctionType] = {}
    seen: dict[int, Any] = {}  # Keeps them alive, so that their ids stay unique.
    pending = [root for root in roots if root is not None]
    while pending and len(found) < _FUNCTIONS_MAX and len(seen) < _VALUES_MAX:
        each = pending.pop()
        if id(each) in seen:
            continue
        seen[id(each)] = each
        if isinstance(each, FunctionType) and _is_users(each.__module__):
            found[id(each)] = each
            pending += _globals_of(each)
        pending += _held_by(each)
    return list(found.values())


def _held_by(value: Any) -> list[Any]:
    """What a callable, a container, or an instance of a user's class refers to.

    A wrapper is searched whatever module it comes from: with_resources, or a decorator of a
    library, is installed, but the function that it wraps is not.
    """
    if isinstance(value, functools.partial):
        return [value.func, *value.args, *value.keywords.values()]
    if inspect.ismethod(value):
        return [value.__func__, value.__self__]
    if isinstance(value, (staticmethod, classmethod)):
        return [value.__func__]
    if isinstance(value, property):
        return [part for part in (value.fget, value.fset) if part is not None]
    if isinstance(value, type):
        return [*vars(value).values(), *value.__bases__] if _is_users(value.__module__) else []
    if isinstance(value, FunctionType):
        return _wrapped_by(value)
    if type(value) in _CONTAINERS:
        return _items_of(value)
    wrapped = _own_attributes(value).get("__wrapped__")  # Of functools.lru_cache and the like.
    held = [] if wrapped is None else [wrapped]
    if _is_users(type(value).__module__):
        held += [type(value), *filter(_leads_on, _own_attributes(value).values())]
    return held


def _wrapped_by(function: FunctionType) -> list[Any]:
    """The values in a closure, the defaults of parameters, and `__wrapped__`."""
    held = [vars(function).get("__wrapped__"), function.__defaults__, function.__kwdefaults__]
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):  # Not assigned yet.
            held.append(cell.cell_contents)
    return list(filter(_leads_on, held))


def _items_of(container: Any) -> list[Any]:
    items: Iterable[Any] = container.values() if type(container) is dict else container
    return list(filter(_leads_on, islice(items, _ITEMS_MAX)))


def _leads_on(value: Any) -> bool:
    return callable(value) or type(value) in _CONTAINERS or _is_users(type(value).__module__)


def _own_attributes(value: Any) -> dict[str, Any]:
    attributes = getattr(value, "__dict__", None)
    return attributes if type(attributes) is dict else {}


def _globals_of(function: FunctionType) -> list[Any]:
    """The global values that the function's code names, also those of the user's modules."""
    names = set(_names(function.__code__))
    values = [function.__globals__[name] for name in names if name in function.__globals__]
    for module in [each for each in values if isinstance(each, ModuleType)]:
        if _is_users(module.__name__):
            values += [vars(module)[name] for name in names if name in vars(module)]
    return list(filter(_leads_on, values))


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _is_users(module_name: Any) -> bool:
    """Whether a module is the user's: it came with the trainable, is not installed, or is one of
    the examples, which read their data as a user's code would."""
    if str(module_name).partition(".")[0] == "rt":
        return str(module_name).startswith("rt.tune.examples.")
    module = sys.modules.get(str(module_name))
    path = getattr(module, "__file__", None)
    if module is None or not path or module_name == "__main__":
        return module_name not in sys.builtin_module_names
    if isinstance(getattr(module.__spec__, "loader", None), SourceImporter):
        return True
    return "-packages" + os.sep not in path and not path.startswith(_STANDARD_LIBRARY)
