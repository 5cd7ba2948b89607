"""The script's own classes and functions in its trials.

They travel by value, and name `__main__` as their module. A trial puts them there, so that code
that pickles them by reference (torch.save of a model, multiprocessing) finds them as in the script.
"""

from __future__ import annotations

import io
import pickle
import sys
from types import ModuleType
from typing import Any

_MAKERS = {"_make_function", "_make_skeleton_class", "_make_skeleton_enum"}
_replaced: list[ModuleType] = []  # Replaced modules, whose functions still need their names.


class _Unpickler(pickle.Unpickler):
    """Records the classes and functions that arrive by value, except those in `known`."""

    def __init__(self, data: bytes, known: dict[str, Any]) -> None:
        super().__init__(io.BytesIO(data))
        self.made: list[Any] = []
        self._known = known
        self._kept: list[Any] = []

    def find_class(self, module: str, name: str) -> Any:
        """The function that creates them also records them."""
        found = super().find_class(module, name)
        if module.partition(".")[0] != "cloudpickle":
            return found

        def make(*arguments: Any) -> Any:
            kept = self._known_class(name, arguments)
            if kept is not None:
                self._kept.append(kept)
                return kept
            self.made.append(found(*arguments))
            return self.made[-1]

        def set_state(each: Any, state: Any) -> Any:
            return each if any(each is kept for kept in self._kept) else found(each, state)

        return make if name in _MAKERS else set_state if name == "_class_setstate" else found

    def _known_class(self, maker: str, arguments: tuple[Any, ...]) -> Any:
        if maker == "_make_function":
            return None
        name = arguments[1]
        module = arguments[3].get("__module__") if maker == "_make_skeleton_class" else arguments[4]
        found = self._known.get(name)
        if module != "__main__" or not isinstance(found, type) or found.__module__ != module:
            return None
        return found if found.__qualname__ == name else None


def loads(data: bytes) -> tuple[Any, dict[str, Any]]:
    """(the unpickled value, the script's own classes and functions in it, by name)."""
    unpickler = _Unpickler(data, {})
    value = unpickler.load()
    own: dict[str, Any] = {}
    for each in unpickler.made:
        name = getattr(each, "__qualname__", "")
        if getattr(each, "__module__", None) == "__main__" and name.isidentifier():
            own.setdefault(name, each)
    return value, own


def load_value(data: bytes) -> Any:
    """The unpickled value; the script's classes in it are those of `__main__`, if it has them."""
    return _Unpickler(data, vars(sys.modules["__main__"])).load()


def stand_in(own: dict[str, Any]) -> None:
    """Gives `__main__` these names, and removes the names of the program that runs here."""
    if not own:
        return
    before = sys.modules["__main__"]
    main = ModuleType("__main__")
    kept = ("__spec__", "__file__", "__package__", "__loader__", "__builtins__")  # As with -m.
    main.__dict__.update({key: vars(before)[key] for key in kept if key in vars(before)})
    main.__dict__.update(own)
    _replaced.append(before)
    sys.modules["__main__"] = main
