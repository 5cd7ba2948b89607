"""Finds and performs, ahead of time, the imports that a trainable's code would perform.

Functions that travel by value import inside their bodies, or have imports in functions that they
call. The code itself says what: this walks it and the functions and classes that it names, without
calling anything. An import that fails here is left to fail, or not, where the user wrote it.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import importlib.util
import inspect
import sys
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any

_FUNCTIONS_MAX = 1000  # Enough for what a person wrote; libraries are not walked at all.


def import_all(roots: list[Any]) -> None:
    """Imports what the code of `roots` (functions, classes, partials, or None) imports."""
    for function in _functions(roots):
        package = function.__globals__.get("__package__") or ""
        for name, level, wanted in _imports_of(function.__code__):
            _import(name, level, wanted, package)


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
    """(module, level, names after `from`) of every import statement, also in nested functions."""
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
    """The functions reachable from the roots that did not come from a module on disk."""
    found: dict[int, FunctionType] = {}
    pending = [root for root in roots if root is not None]
    seen: set[int] = set()
    while pending and len(found) < _FUNCTIONS_MAX:
        each = pending.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, functools.partial):
            pending += [each.func, *each.args, *each.keywords.values()]
        elif inspect.ismethod(each):
            pending += [each.__func__, each.__self__]
        elif isinstance(each, (staticmethod, classmethod)):
            pending.append(each.__func__)
        elif isinstance(each, property):
            pending += [part for part in (each.fget, each.fset) if part is not None]
        elif isinstance(each, type):
            if each.__module__ == "builtins" or each.__module__.split(".")[0] == "rt":
                continue
            if _is_users(each.__module__):
                pending += [*vars(each).values(), *each.__bases__]
        elif isinstance(each, FunctionType) and _is_users(each.__module__):
            found[id(each)] = each
            pending += _named_by(each)
        elif callable(each) and _is_users(type(each).__module__):
            pending.append(type(each))
    return list(found.values())


def _named_by(function: FunctionType) -> list[Any]:
    """The global and enclosed values that a function's code names, and what it wraps."""
    names = set(_names(function.__code__))
    values = [function.__globals__[name] for name in names if name in function.__globals__]
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):
            values.append(cell.cell_contents)
    wrapped = getattr(function, "__wrapped__", None)
    if wrapped is not None:
        values.append(wrapped)
    return [value for value in values if callable(value)]


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _is_users(module_name: Any) -> bool:
    """Whether a module is the user's: it travelled by value, or lies beside the script."""
    module = sys.modules.get(str(module_name))
    path = getattr(module, "__file__", None)
    if module is None or not path or module_name == "__main__":
        return True
    return "-packages" not in path and not path.startswith(sys.base_prefix)
