"""Parts of the warm-start server; tests/integration/test_warm.py has the whole."""

from __future__ import annotations

import functools
import gc
import importlib
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from rt import _collector, _executor, _imports, _session, _warm, tune


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


class Steps:
    """Whose method is a trainable that calls another one."""

    def run(self, config: dict[str, Any]) -> Any:
        return self.helper()

    def helper(self) -> Any:
        import wanted_here

        return wanted_here


class Stepper(tune.Trainable):
    def step(self) -> dict[str, Any]:
        import wanted_here

        return {"x": wanted_here}


def train(config: dict[str, Any], data: Any = None) -> Any:
    import wanted_here

    return wanted_here


def through(config: dict[str, Any], steps: Steps) -> Any:
    return steps.run(config)


TABLE = {"one": [train]}


def from_table(config: dict[str, Any]) -> Any:
    return TABLE["one"][0](config)


def by_default(config: dict[str, Any], steps: Any = (train,)) -> Any:
    return steps[0](config)


def by_module(config: dict[str, Any]) -> Any:
    return users_module.fit(config)


users_module = ModuleType("users_module")
vars(users_module)["fit"] = train

TRAINABLES = {
    "bare": train,
    "a table has it": from_table,
    "a default has it": by_default,
    "a module has it": by_module,
    "with_resources": tune.with_resources(train, {"cpu": 1}),
    "with_parameters": tune.with_parameters(train, data=[1]),
    "nested": tune.with_resources(tune.with_parameters(train, data=[1]), {"cpu": 1}),
    "nested the other way": tune.with_parameters(tune.with_resources(train, {"cpu": 1}), data=1),
    "a parameter has it": tune.with_parameters(through, steps=Steps()),
    "functools.partial": functools.partial(train, data=1),
    "wrapped partial": tune.with_resources(functools.partial(train, data=1), {"cpu": 1}),
    "bound method": Steps().run,
    "wrapped method": tune.with_resources(Steps().run, {"cpu": 1}),
    "cached": functools.lru_cache(train),
    "class": Stepper,
    "class with resources": tune.with_resources(Stepper, {"cpu": 1}),
}


@pytest.mark.parametrize("name", TRAINABLES)
def test_what_is_wrapped_is_searched(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted: list[str] = []
    monkeypatch.setattr(_imports.importlib, "import_module", lambda name: wanted.append(name) or os)
    _imports.import_all([TRAINABLES[name]])
    assert wanted == ["wanted_here"]


def test_the_examples_of_the_package_are_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    loaders = importlib.import_module("rt.tune.examples.mnist_pytorch").get_data_loaders

    def train(config: dict[str, Any]) -> None:
        loaders()

    wanted: list[str] = []
    monkeypatch.setattr(_imports.importlib, "import_module", lambda name: wanted.append(name) or os)
    _imports.import_all([train])
    assert "sklearn.datasets" in wanted


def test_what_an_installed_decorator_wraps_is_searched_and_its_own_code_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "lib/python3.9/site-packages"
    place.mkdir(parents=True)
    (place / "installed_decorators.py").write_text("""
def plain(function):
    def call(*arguments):
        import of_the_library
        return function(*arguments)
    return call
""")
    monkeypatch.syspath_prepend(str(place))
    decorated = importlib.import_module("installed_decorators").plain(train)
    wanted: list[str] = []
    monkeypatch.setattr(_imports.importlib, "import_module", lambda name: wanted.append(name) or os)
    _imports.import_all([decorated])
    assert wanted == ["wanted_here"]


def test_packages_are_imported_with_a_collector_that_rarely_looks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "heavy.py").write_text("import gc\nseen = gc.get_threshold()\n")
    (tmp_path / "setting.py").write_text("import gc\ngc.set_threshold(900, 8, 7)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    before = gc.get_threshold()
    try:
        monkeypatch.setenv("RT_PRELOAD", "heavy")
        _executor.preload()
        assert sys.modules.pop("heavy").seen == (_collector.RARELY, *before[1:])
        assert gc.get_threshold() == before
        monkeypatch.setenv("RT_PRELOAD", "setting")
        _executor.preload()
        assert gc.get_threshold() == (900, 8, 7)  # What the user's code sets stays.
    finally:
        gc.set_threshold(*before)
        sys.modules.pop("setting", None)


def test_an_import_that_fails_is_left_to_the_user() -> None:
    def train() -> Any:
        import no_such_module_anywhere

        return no_such_module_anywhere

    _imports.import_all([train])


def test_a_rehearsal_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    def descriptors() -> list[str]:
        return sorted(os.listdir("/proc/self/fd"))

    def connects(self: Any) -> None:
        raise AssertionError("the simulated worker's answers were not what the session waits for")

    monkeypatch.setattr(_session.Session, "_reconnect", connects)
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


def test_pyarrow_is_no_obstacle() -> None:
    code = (
        "from rt import _warm\n_warm.keep_libraries_without_threads()\n"
        "import os, pickle, sys\nfrom rt import data\n"
        "pickle.loads(pickle.dumps(data.from_items([{'a': 1}] * 1000)))\nprint(_warm.obstacle())"
    )
    env = {**os.environ, "PYTHONPATH": str(Path(_warm.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=env, check=True, capture_output=True,
                          text=True, timeout=120)  # fmt: skip
    assert done.stdout.strip() == "None"
