"""Fixtures and helpers under the names that Ray's own tests use, on embedded clusters of rt.

A plugin of pytest that core_tests.py loads. Tests that ask for the same cluster share it, unless
one of them failed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Iterator
from typing import Any, Callable, Optional

import pytest
import rt as ray

_TEST_S = float(os.environ.get("RT_RAY_TEST_S", "40"))
_open: Optional[int] = None  # The processors of the cluster that is up.
_passed: set[str] = set()
_failed: set[str] = set()


class RayTestTimeoutException(Exception):
    """Of Ray's helpers."""


def client_test_enabled() -> bool:
    """rt has no second client."""
    return False


def wait_for_condition(
    holds: Callable[..., Any], timeout: float = 10, retry_interval_ms: float = 100, **kwargs: Any
) -> None:
    """Returns once it holds."""
    end = time.monotonic() + timeout
    while not holds(**kwargs):
        if time.monotonic() > end:
            raise RuntimeError("the condition was not met in time")
        time.sleep(retry_interval_ms / 1000)


def wait_for_pid_to_exit(pid: int, timeout: float = 20) -> None:
    """Returns once the process has ended."""

    def is_gone() -> bool:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().split()[2] == "Z"
        return True

    wait_for_condition(is_gone, timeout)


def dicts_equal(first: Any, second: Any) -> bool:
    """Of Ray's helpers."""
    return bool(first == second)


@ray.remote(num_cpus=0)
class SignalActor:
    """Waits until it is told to go on."""

    def __init__(self) -> None:
        self.ready = asyncio.Event()
        self.waiting = 0

    def send(self, clear: bool = False) -> None:
        """All go on."""
        self.ready.set()
        if clear:
            self.ready.clear()

    async def wait(self, should_wait: bool = True) -> None:
        """Returns after send()."""
        if should_wait:
            self.waiting += 1
            await self.ready.wait()
            self.waiting -= 1

    async def cur_num_waiters(self) -> int:
        """How many wait."""
        return self.waiting


def create_remote_signal_actor(_ray: Any) -> Any:
    """The class of the actor."""
    return SignalActor


@ray.remote(num_cpus=0)
class Semaphore:
    """As asyncio's."""

    def __init__(self, value: int = 1) -> None:
        self._semaphore = asyncio.Semaphore(value)

    async def acquire(self) -> None:
        """Takes one."""
        await self._semaphore.acquire()

    async def release(self) -> None:
        """Gives one back."""
        self._semaphore.release()

    async def locked(self) -> bool:
        """Whether there is none."""
        return self._semaphore.locked()


def _close() -> None:
    global _open
    _open = None
    ray.shutdown()


def _cluster(request: Any, cpus: int) -> Iterator[dict[str, Any]]:
    global _open
    wanted = dict(getattr(request, "param", None) or {})
    cpus = int(wanted.get("num_cpus", cpus))
    if wanted or _open != cpus or _failed:
        _close()
        _failed.clear()
        ray.init(**{"num_cpus": cpus, **{k: v for k, v in wanted.items() if k != "num_cpus"}})
        _open = None if wanted else cpus
    yield {}
    if wanted:
        _close()


@pytest.fixture
def ray_start_regular(request: Any) -> Iterator[Any]:
    """One processor."""
    yield from _cluster(request, 1)


@pytest.fixture
def ray_start_regular_shared(request: Any) -> Iterator[Any]:
    """One processor."""
    yield from _cluster(request, 1)


@pytest.fixture
def ray_start_shared_local_modes(request: Any) -> Iterator[Any]:
    """One processor."""
    yield from _cluster(request, 1)


@pytest.fixture
def ray_start_2_cpus(request: Any) -> Iterator[Any]:
    """Two processors."""
    yield from _cluster(request, 2)


@pytest.fixture
def ray_start_10_cpus(request: Any) -> Iterator[Any]:
    """Ten processors."""
    yield from _cluster(request, 10)


@pytest.fixture
def shutdown_only() -> Iterator[None]:
    """The test calls init() itself."""
    _close()
    yield
    _close()


@pytest.fixture
def shutdown_only_with_initialization_check() -> Iterator[None]:
    """The same; nothing is open before or after it."""
    _close()
    yield
    _close()
    assert not ray.is_initialized()


@pytest.fixture
def save_gpu_ids_shutdown_only(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The same, and the gpus that the process may see are restored."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", os.environ.get("CUDA_VISIBLE_DEVICES", ""))
    _close()
    yield
    _close()


def _late(*_: Any) -> None:
    raise TimeoutError(f"the test took longer than {_TEST_S:g} s")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: Any) -> Iterator[None]:
    """Bounds each test."""
    signal.signal(signal.SIGALRM, _late)
    signal.setitimer(signal.ITIMER_REAL, _TEST_S)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: Any) -> Optional[bool]:
    """Runs async tests."""
    if not asyncio.iscoroutinefunction(pyfuncitem.function):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    asyncio.run(pyfuncitem.function(**{each: pyfuncitem.funcargs[each] for each in names}))
    return True


def pytest_runtest_logreport(report: Any) -> None:
    """Counts functions: one with several parameters passes when all do."""
    name = report.nodeid.split("[")[0]
    if report.failed:
        _failed.add(name)
        _passed.discard(name)
        _ever_failed.add(name)
    elif report.when == "call" and report.passed and name not in _ever_failed:
        _passed.add(name)


_ever_failed: set[str] = set()


def pytest_sessionfinish(session: Any) -> None:
    """Ends the last cluster."""
    _close()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """For core_tests.py."""
    terminalreporter.write_line(f"RT_FUNCTIONS_PASSED {len(_passed)}")
