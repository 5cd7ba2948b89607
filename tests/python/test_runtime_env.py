"""What runtime_env may be, and what raises by name."""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any

import pytest
import rt
from rt import _driver, _runtime, _runtime_env
from rt._runtime_env import Code
from rt.core._code import StoredCode
from rt.core._options import env_vars_of


@pytest.fixture(autouse=True)
def _as_before() -> Any:
    before, variables = _runtime.code, dict(_runtime.env_vars)
    yield
    rt.shutdown()
    _runtime.code = before
    _runtime.env_vars.clear()
    _runtime.env_vars.update(variables)


@pytest.mark.parametrize("key", ["pip", "conda", "uv", "container", "image_uri", "excludes"])
def test_what_rt_does_not_have_raises_by_name(key: str) -> None:
    with pytest.raises(NotImplementedError, match=f"runtime_env={{'{key}'"):
        rt.init(runtime_env={key: ["x"]})

    @rt.remote
    def task() -> None:
        """Does nothing."""

    with pytest.raises(NotImplementedError, match=f"'{key}'"):
        task.options(runtime_env={key: ["x"]}).remote()


@pytest.mark.parametrize(
    ("given", "error", "what"),
    [
        ({"working_dirs": "."}, TypeError, "working_dir"),
        ({"working_dir": "/no/such/place"}, ValueError, "no such directory"),
        ({"working_dir": "https://x/y.zip"}, NotImplementedError, "directories of this machine"),
        ({"working_dir": 3}, TypeError, "a path is a text"),
        ({"py_modules": "mine"}, TypeError, "must be a list"),
        ({"py_modules": ["/no/such.py"]}, ValueError, "no such"),
        ({"py_modules": ["x.whl"]}, NotImplementedError, "directories of this machine"),
        ({"env_vars": ["A"]}, TypeError, "must be a dict"),
        (["env_vars"], TypeError, "must be a dict"),
    ],
)
def test_what_cannot_be_is_an_error_at_its_line(
    given: Any, error: type[Exception], what: str
) -> None:
    with pytest.raises(error, match=what):
        _runtime_env.read(given)


def test_code_tells_executors_apart(tmp_path: pathlib.Path) -> None:
    module = tmp_path / "mine.py"
    module.write_text("")
    env = {"env_vars": {"A": 1}, "working_dir": str(tmp_path), "py_modules": [str(module)]}
    pairs = env_vars_of({"runtime_env": env})
    assert pairs != env_vars_of({"runtime_env": {"env_vars": {"A": 1}}})
    assert _runtime_env.split(pairs) == ({"A": "1"}, Code(str(tmp_path), (str(module),)))
    assert _runtime_env.split(()) == ({}, Code())


def test_a_module_object_is_its_directory_or_file() -> None:
    _, code = _runtime_env.read({"py_modules": [json, _runtime_env]})
    assert code.py_modules == (os.path.dirname(json.__file__), str(_runtime_env.__file__))


def test_a_task_cannot_name_directories(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RT_EXECUTOR_ID", "3")
    with pytest.raises(NotImplementedError, match="are of the script"):
        _runtime_env.read({"working_dir": str(tmp_path)})


def test_what_init_said_ends_with_shutdown(tmp_path: pathlib.Path) -> None:
    rt.init("lab", runtime_env={"working_dir": str(tmp_path), "env_vars": {"A": "1"}})
    assert _runtime.code.working_dir == str(tmp_path)
    assert _runtime.env_vars["A"] == "1"
    assert _driver.settings.cluster == "lab"
    rt.shutdown()
    rt.init()
    assert _runtime.code == Code()
    assert _runtime.env_vars == {}
    assert _driver.settings.cluster is None


class _Stores:
    """A driver that notes what it stores."""

    def __init__(self) -> None:
        self.stored: list[Any] = []

    def call(self, op: str, **fields: Any) -> Any:
        self.stored.append((op, fields))
        return {"manifest": f"m{len(self.stored)}"}

    def push_dir(self, path: str) -> str:
        self.stored.append(sorted(os.listdir(path)))
        return f"m{len(self.stored)}"


def test_directories_are_stored_once(tmp_path: pathlib.Path) -> None:
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack/__init__.py").write_text("")
    (tmp_path / "mine.py").write_text("")
    code = Code(str(tmp_path), (str(tmp_path / "pack"), str(tmp_path / "mine.py")))
    driver = _Stores()
    stored = StoredCode(driver)  # type: ignore[arg-type]
    for _ in range(2):
        spec: dict[str, Any] = {"cwd": "/elsewhere"}
        stored.add_to(spec, code)
        assert spec == {"bundle": "m1", "inputs": [{"manifest": "m2", "env": "RT_PY_MODULES"}]}
    assert driver.stored == [
        ("blob_push_dir", {"path": str(tmp_path), "honour_ignore_files": True}),
        ["mine.py", "pack"],
    ]
    (tmp_path / "other").mkdir()
    (tmp_path / "other/pack").mkdir()
    twice = Code("", (str(tmp_path / "pack"), str(tmp_path / "other/pack")))
    with pytest.raises(ValueError, match="two py_modules are called 'pack'"):
        stored.add_to({}, twice)
