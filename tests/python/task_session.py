"""What the tests of tasks and of actors share: a session of a driver without a head."""

from __future__ import annotations

import contextlib
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


@contextlib.contextmanager
def session_of(driver: Any) -> Iterator[Any]:
    """A session with this driver, which is closed with it."""
    _driver._current = driver
    get_client()  # conftest.py closes the driver of each test, but not this session's.
    _driver._current = None
    yield driver
    _session.close_session()
    driver.close()


@pytest.fixture(scope="module")
def executors() -> Iterator[LocalExecutors]:
    """Two cpus, for the tests of a file."""
    with session_of(LocalExecutors(2)) as found:
        yield found


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
