"""The user's modules travel as source: what a trial imports is what was packed."""

from __future__ import annotations

import importlib
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rt import _pack

CHILD = """
import pickle, sys
from rt import _attempt, _traceback
payload = _attempt.load_payload()
made = payload["trainable"]({})
import nets, deep.inner.layers
assert type(made) is nets.Net and isinstance(made.layer, deep.inner.layers.Layer)
assert pickle.loads(pickle.dumps(made)).width == 3
try:
    made.fail()
except ZeroDivisionError as error:
    print(_traceback.user_traceback(error))
"""


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "deep/inner").mkdir(parents=True)  # The first has no __init__.py.
    (tmp_path / "deep/inner/__init__.py").write_text("from .layers import Layer\n")
    (tmp_path / "deep/inner/layers.py").write_text("class Layer:\n    pass\n")
    (tmp_path / "nets.py").write_text("""from deep.inner import Layer

class Net:
    width = 3
    def __init__(self):
        self.layer = Layer()
    def fail(self):
        return 1 / 0  # Here.

def train(config):
    return Net()
""")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("nets")
    for name in ("nets", "deep.inner.layers", "deep.inner", "deep"):
        sys.modules.pop(name, None)


def test_a_trial_imports_what_was_packed(modules: Any, tmp_path: Path) -> None:
    payload = _pack.write_payload({"trainable": modules.train, "values": {}})
    (tmp_path / "nets.py").unlink()
    for each in (tmp_path / "deep/inner").glob("*.py"):
        each.write_text("raise RuntimeError('what came later')")
    path = os.pathsep.join([_pack.PACKAGE_PARENT, str(tmp_path)])
    env = {**os.environ, "RT_TRAINABLE": payload, "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", CHILD], env=env, text=True, capture_output=True,
                          cwd="/", check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "return 1 / 0  # Here." in done.stdout


def test_what_pip_put_somewhere_is_installed(modules: Any, tmp_path: Path) -> None:
    assert {"nets", "deep", "deep.inner", "deep.inner.layers"} <= set(_pack.read_sources())
    (tmp_path / "deep-1.0.dist-info").mkdir()
    assert not {"nets", "deep", "deep.inner"} & set(_pack.read_sources())


def test_the_tuner_is_kept_by_value(modules: Any, tmp_path: Path) -> None:
    kept = _pack.dumps_by_value(modules.train)
    for name in ("nets", "deep.inner.layers", "deep.inner", "deep"):
        sys.modules.pop(name)
    (tmp_path / "nets.py").unlink()
    assert pickle.loads(kept)({}).width == 3


def test_a_module_is_where_its_links_lead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the modules `in_*` a machine has its own; those `out_*` travel."""
    packages, own = tmp_path / "site-packages", tmp_path / "own"
    for folder in (packages / "deep/in_folder", own / "deep/out_folder"):
        folder.mkdir(parents=True)
        (folder / "__init__.py").touch()
    for path in (packages / "in_plain.py", packages / "deep/in_link.py",
                 own / "out_plain.py", own / "deep/out_link.py"):  # fmt: skip
        path.touch()
    for name in ("in_link.py", "in_folder"):
        (own / name).symlink_to(packages / "deep" / name)
    for name in ("out_link.py", "out_folder"):
        (packages / name).symlink_to(own / "deep" / name)
    for path in (packages, own):
        monkeypatch.syspath_prepend(str(path))
    names = [f"{side}_{kind}" for side in ("in", "out") for kind in ("plain", "link", "folder")]
    try:
        for name in names:
            importlib.import_module(name)
        found = _pack.read_sources()
        assert [name for name in names if name in found] == names[3:]
    finally:
        for name in names:
            sys.modules.pop(name, None)
