"""The script's own classes and functions in its trials.

They travel by value, and say that they are of `__main__`. There a trial puts them, so that what
pickles them by reference (torch.save of a model, multiprocessing) finds them, as in the script.
"""

from __future__ import annotations

import io
import pickle
import sys
from types import ModuleType
from typing import Any

_MAKERS = {"_make_function", "_make_skeleton_class", "_make_skeleton_enum"}
_replaced: list[ModuleType] = []  # Whose names its own functions still need.


class _Unpickler(pickle.Unpickler):
    """Notes the classes and functions that arrive by value."""

    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data))
        self.made: list[Any] = []

    def find_class(self, module: str, name: str) -> Any:
        """What makes them also notes them."""
        found = super().find_class(module, name)
        if name not in _MAKERS or module.partition(".")[0] != "cloudpickle":
            return found

        def make(*arguments: Any) -> Any:
            self.made.append(found(*arguments))
            return self.made[-1]

        return make


def loads(data: bytes) -> tuple[Any, dict[str, Any]]:
    """(what is pickled, the script's own classes and functions in it, by name)."""
    unpickler = _Unpickler(data)
    value = unpickler.load()
    own: dict[str, Any] = {}
    for each in unpickler.made:
        name = getattr(each, "__qualname__", "")
        if getattr(each, "__module__", None) == "__main__" and name.isidentifier():
            own.setdefault(name, each)
    return value, own


def stand_in(own: dict[str, Any]) -> None:
    """`__main__` has those names from here on, and none of the program's that runs here."""
    if not own:
        return
    before = sys.modules["__main__"]
    main = ModuleType("__main__")
    kept = ("__spec__", "__file__", "__package__", "__loader__", "__builtins__")  # As of -m.
    main.__dict__.update({key: vars(before)[key] for key in kept if key in vars(before)})
    main.__dict__.update(own)
    _replaced.append(before)
    sys.modules["__main__"] = main
