"""Keeps the environment of one test out of the next."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from fake_world import World, trial
from rt import _driver, _runtime, _session
from task_session import executors  # noqa: F401


@pytest.fixture(autouse=True)
def clean_process(monkeypatch: pytest.MonkeyPatch) -> object:
    """No RT_ variables, no session, no connection."""
    for name in [name for name in os.environ if name.startswith("RT_")]:
        monkeypatch.delenv(name)
    yield
    _session.current = None
    _driver.close()
    _driver.settings.cluster = _driver.settings.cpus = _driver.settings.gpus = None
    _driver.settings.resources = None
    _runtime._initialized = False


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """In which a search's only trial has ended."""
    made = World(tmp_path)
    for name, value in made.env.items():
        monkeypatch.setenv(name, value)
    made.set(trial(0, metrics={"acc": 0.5, "training_iteration": 1}))
    return made
