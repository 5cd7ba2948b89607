"""rt._training: what an optimizer imports is there before trials are forked."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from rt import _imports, _training

OPENS = "import os\nkept = open({path!r})\nos.write(1, b'noise')\n"


def of_an_attribute(config: dict[str, Any]) -> Any:
    import torch

    return torch.optim.SGD([], lr=config["lr"])


def of_an_import(config: dict[str, Any]) -> Any:
    from torch.optim.adam import Adam

    return Adam([], lr=config["lr"])


def of_a_method(config: dict[str, Any]) -> None:
    def epoch() -> None:
        config["optimizer"].zero_grad()

    epoch()


def of_a_global(config: dict[str, Any]) -> Any:
    return Chosen([], lr=config["lr"])


def of_a_module(config: dict[str, Any]) -> Any:
    return made.SGD([], lr=config["lr"])


def of_nothing(config: dict[str, Any]) -> Any:
    import torch

    return torch.zeros(1), config


Chosen: Any = type("Chosen", (), {"__module__": "torch.optim.sgd"})
made: Any = ModuleType("torch.optim")
TRAINS = (of_an_attribute, of_an_import, of_a_method, of_a_global, of_a_module)


@pytest.fixture
def torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of that name; the folder with its files."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "torch"]:
        monkeypatch.delitem(sys.modules, name)
    package = tmp_path / "torch"
    for path in ("__init__.py", "optim/__init__.py", "optim/adam.py", "_dynamo.py"):
        (package / path).parent.mkdir(exist_ok=True, parents=True)
        (package / path).touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(_training, "GPU_DEVICES", (str(tmp_path / "gpu"),))
    monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))
    vars(sys.modules["torch"])["__path__"] = [str(package)]
    return package


def is_there(torch: Path, monkeypatch: pytest.MonkeyPatch, *functions: Any) -> bool:
    """Whether the module is imported for these functions."""
    monkeypatch.delitem(sys.modules, "torch._dynamo", raising=False)
    _training.import_ahead(list(functions))
    return "torch._dynamo" in sys.modules


def test_code_that_trains_gets_the_module_and_other_code_does_not(
    torch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for each in TRAINS:
        assert is_there(torch, monkeypatch, of_nothing, each), each.__name__
    assert not is_there(torch, monkeypatch, of_nothing)
    monkeypatch.delitem(sys.modules, "torch")
    assert not is_there(torch, monkeypatch, of_a_method)


def test_the_walk_returns_the_functions_that_it_found() -> None:
    found = _imports.import_all([of_a_method, None])
    assert found == [of_a_method]


def test_a_module_that_opens_the_gpus_is_tried_in_a_child_only(
    torch: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    device = torch.parent / "gpu0"
    (torch / "_dynamo.py").write_text(OPENS.format(path=str(device)))
    device.touch()
    assert not is_there(torch, monkeypatch, of_a_method)
    assert capfd.readouterr().out == ""
    assert _training.opens_gpus() == ""
    with device.open():
        assert _training.opens_gpus() == str(device)
    (torch / "_dynamo.py").write_text("import sys\nsys.exit('cannot be')")
    assert not is_there(torch, monkeypatch, of_a_method)
    (torch / "_dynamo.py").write_text("left_alone = True\n")
    assert is_there(torch, monkeypatch, of_a_method)


def test_a_process_that_has_the_gpus_open_does_without_the_module(
    torch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = torch.parent / "gpu0"
    device.touch()
    with device.open():
        assert not is_there(torch, monkeypatch, of_a_method)
    assert is_there(torch, monkeypatch, of_a_method)
