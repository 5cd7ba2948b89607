"""Values of tasks on another machine: they get there once (far_executors.py, adr/0041)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import rt as ray
from far_executors import FarExecutors
from rt import _driver
from rt.core import _session
from rt.core._current import get_client

MB = 1_000_000


@pytest.fixture(scope="module")
def far() -> Iterator[FarExecutors]:
    """Four cpus of another machine, for the tests of this file."""
    found = FarExecutors(4)
    _driver._current = found
    get_client()  # conftest.py closes the driver of each test, but not this session's.
    _driver._current = None
    yield found
    _session.close_session()
    found.close()


@pytest.mark.usefixtures("far")
def test_a_large_value_comes_back_from_another_machine() -> None:
    @ray.remote(max_retries=0)
    def make(size: int) -> bytes:
        return b"y" * size

    assert ray.get(make.remote(MB)) == b"y" * MB
