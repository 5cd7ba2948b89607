"""Keeps the environment of one test out of the next."""

from __future__ import annotations

import os

import pytest
from rt import _driver, _runtime, _session


@pytest.fixture(autouse=True)
def clean_process(monkeypatch: pytest.MonkeyPatch) -> object:
    """No RT_ variables, no session, no connection."""
    for name in [name for name in os.environ if name.startswith("RT_")]:
        monkeypatch.delenv(name)
    yield
    _session.current = None
    _driver.close()
    _driver.settings.cluster = _driver.settings.cpus = _driver.settings.gpus = None
    _runtime._initialized = False
