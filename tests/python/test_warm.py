"""Parts of the warm-start server; tests/integration/test_warm.py has the whole."""

from __future__ import annotations

import functools
import os
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from rt import _imports, _session, _warm


def test_imports_are_found_where_the_code_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted: list[str] = []
    monkeypatch.setattr(_imports.importlib, "import_module", lambda name: wanted.append(name) or os)

    def helper() -> Any:
        from first.part import thing

        return thing

    class Model:
        def step(self) -> Any:
            import second

            return [second, helper()]

    def train(config: dict[str, Any], scale: int) -> Any:
        def inner() -> Any:
            import third

            return third

        return Model, inner

    _imports.import_all([functools.partial(train, scale=2), None])
    assert sorted(wanted) == ["first.part", "second", "third"]


def test_an_import_that_fails_is_left_to_the_user() -> None:
    def train() -> Any:
        import no_such_module_anywhere

        return no_such_module_anywhere

    _imports.import_all([train])


def test_a_rehearsal_leaves_nothing_behind() -> None:
    def descriptors() -> list[str]:
        return sorted(os.listdir("/proc/self/fd"))

    before = descriptors()
    _warm._rehearse()
    assert _session.current is None
    assert descriptors() == before


def test_torch_draws_other_numbers_in_each_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    seeded: list[int] = []
    torch = ModuleType("torch")
    vars(torch)["default_generator"] = SimpleNamespace(seed=lambda: seeded.append(1))
    monkeypatch.setitem(sys.modules, "torch", torch)
    _warm._reseed()
    assert seeded == [1]


def test_a_process_without_obstacles_and_one_with_a_thread() -> None:
    import subprocess

    clean = "from rt import _warm; print(_warm.obstacle())"
    thread = (
        "import threading; threading.Thread(target=threading.Event().wait, daemon=True,"
        " name='mine').start(); " + clean
    )
    child = "import os, time; os.fork() or time.sleep(60); " + clean
    for code, said in ((clean, "None"), (thread, "the thread 'mine'"), (child, "a child process")):
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        process = subprocess.Popen(
            [sys.executable, "-c", code],
            env=env,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert process.stdout is not None
        assert said in process.stdout.readline()
        os.killpg(process.pid, 9)
        process.wait()
        process.stdout.close()
