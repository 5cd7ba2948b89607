"""Pickling by value, with the names of the source files of functions.

cloudpickle 3.1.3 and later replaces the file name of every function that it pickles by value with
"<dynamic-code>", so a traceback from a trial would name neither the user's file nor the line.
"""

from __future__ import annotations

import io
import types
from typing import Any

import cloudpickle

_DROPPED = "<dynamic-code>"


def _reduce_code(code: types.CodeType) -> tuple[Any, ...]:
    """Reduces a code object as cloudpickle does, but keeps its file name."""
    make, args, *rest = cloudpickle.Pickler.dispatch_table[types.CodeType](code)
    # A new string: pickle writes a string that it has seen as a reference, and whether two
    # functions share theirs must not show in the bytes.
    name = "".join(code.co_filename)
    dropped = [isinstance(each, str) and each == _DROPPED for each in args]
    args = tuple(name if drop else each for each, drop in zip(args, dropped))
    return (make, args, *rest)


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """cloudpickle's pickler, except that a code object keeps its co_filename."""

    # The pickler reads this from the class, once, before an instance could change it.
    dispatch_table = cloudpickle.Pickler.dispatch_table.new_child({types.CodeType: _reduce_code})


def dumps(value: Any) -> bytes:
    """Pickles `value` as cloudpickle.dumps does, and raises the same errors."""
    file = io.BytesIO()
    _Pickler(file).dump(value)
    return file.getvalue()
