"""What the tests of tasks and of actors share: a session of a driver without a head."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Callable

import pytest
import rt as ray
from local_executors import LocalExecutors
from rt import _driver
from rt.core import _session
from rt.core._current import get_client

DEADLINE_S = 60.0


def until(holds: Callable[[], bool]) -> None:
    """Returns once it holds."""
    end = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < end, f"it does not come: {hub().schedule.describe()}"
        time.sleep(0.002)


@pytest.fixture(scope="module")
def executors() -> Iterator[LocalExecutors]:
    """Two cpus, for the tests of a file."""
    found = LocalExecutors(2)
    _driver._current = found
    get_client()  # conftest.py closes the driver of each test, but not this session's.
    _driver._current = None
    yield found
    _session.close_session()
    found.close()


def hub() -> Any:
    """The session of the driver."""
    return get_client()


def conns() -> list[Any]:
    """The processes of its executors."""
    return [
        conn
        for pool in hub().schedule.pools.values()
        for slot in pool.slots.values()
        for conn in slot.conns
    ]


@ray.remote
def add(x: int, y: int) -> int:
    """A small task."""
    return x + y
