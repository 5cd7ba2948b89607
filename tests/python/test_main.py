"""The script's own classes, where a trial and a script that goes on find them."""

from __future__ import annotations

import enum
import pickle
import sys
from types import ModuleType
from typing import Any

import cloudpickle
import pytest
from rt import _main

SCRIPT = """
import enum
class Kernel:
    bias = 1
class Kind(enum.Enum):
    WIDE = 2
def width(kernel):
    return Kernel.bias + kernel.n
def made(n):
    kernel = Kernel()
    kernel.n = n
    return [kernel, Kind.WIDE, width]
"""


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The __main__ of a script."""
    return enter(monkeypatch)


def enter(monkeypatch: pytest.MonkeyPatch, text: str = SCRIPT) -> ModuleType:
    main = ModuleType("__main__")
    exec(text, main.__dict__)
    monkeypatch.setitem(sys.modules, "__main__", main)
    return main


def test_a_trial_can_pickle_by_reference_what_came_by_value(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = cloudpickle.dumps(script.made)
    enter(monkeypatch, "Session = __spec__ = 'of the program that runs the trial'")
    made, own = _main.loads(packed)
    assert set(own) == {"made", "width", "Kernel", "Kind"}
    with pytest.raises(pickle.PicklingError):
        pickle.dumps(made(3))
    _main.stand_in(own)
    kernel, kind, width = pickle.loads(pickle.dumps(made(3)))
    assert type(kernel) is own["Kernel"] and kind is own["Kind"].WIDE and width(kernel) == 4
    assert not hasattr(sys.modules["__main__"], "Session")
    assert sys.modules["__main__"].__spec__ == "of the program that runs the trial"


def test_values_of_another_process_are_of_the_classes_that_are_here(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = cloudpickle.dumps(script.made(3))
    cloudpickle.cloudpickle._DYNAMIC_CLASS_TRACKER_BY_ID.clear()  # As in another process.
    here: Any = enter(monkeypatch)
    here.Kernel.bias = 5
    kernel, kind, _ = _main.load_value(packed)
    assert type(kernel) is here.Kernel and kernel.n == 3 and isinstance(here.Kind, enum.EnumMeta)
    assert kind is here.Kind.WIDE and here.Kernel.bias == 5, "what is here stays as it is"
    enter(monkeypatch, "Kernel = 3")  # No class: theirs comes along.
    kernel, kind, width = _main.load_value(packed)
    assert type(kernel).__name__ == "Kernel" and width(kernel) == 4
