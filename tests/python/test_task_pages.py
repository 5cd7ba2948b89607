"""Memory of values that are gone is used for the next ones, and only then (local_executors.py)."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import rt as ray
from rt.core import _pages
from rt.core._values import reuse
from task_session import hub, until

pytestmark = [
    pytest.mark.usefixtures("executors"),
    pytest.mark.skipif(not _pages.can_reuse(), reason="leases of this kernel do not tell enough"),
]
SIZE = 8 << 20


def inode(ref: Any) -> int:
    """Of the memory file of a value."""
    return os.fstat(hub().entries[ref._id].packed.fd).st_ino


def filled(number: int) -> Any:
    return numpy.full(SIZE, number, dtype=numpy.uint8)


@pytest.fixture(autouse=True)
def empty() -> Iterator[None]:
    """No file waits."""
    assert reuse.pages is not None
    hub().drain_now()
    reuse.pages.look(time.monotonic() + 2 * _pages._WAITS_S)
    assert reuse.pages.waiting_bytes == 0
    yield


def test_the_memory_of_a_value_that_is_gone_has_the_next_one() -> None:
    @ray.remote
    class Sums:
        def sum(self, array: Any) -> int:
            return int(array.sum())

    sums, found = Sums.remote(), []
    for number in range(3):
        ref = ray.put(filled(number))
        assert (ray.get(ref) == number).all()
        assert ray.get(sums.sum.remote(ref)) == number * SIZE
        ray.get(sums.sum.remote(numpy.ones(1)))  # The process has let go of the array.
        found.append(inode(ref))
        with pytest.raises(ValueError, match="read-only"):
            ray.get(ref)[0] = 1
        del ref
    assert found[0] == found[1] == found[2]


def test_an_array_that_is_still_used_keeps_its_memory() -> None:
    ref = ray.put(filled(1))
    array, before = ray.get(ref), inode(ref)
    del ref
    other = ray.put(filled(2))
    assert inode(other) != before
    assert (array == 1).all() and (ray.get(other) == 2).all()


def test_an_array_that_another_process_still_uses_keeps_its_memory() -> None:
    @ray.remote
    class Keeps:
        def keep(self, array: Any) -> None:
            self.array = array

        def sum(self) -> int:
            return int(self.array.sum())

    keeps = Keeps.remote()
    ref = ray.put(filled(1))
    ray.get(keeps.keep.remote(ref))
    before = inode(ref)
    del ref
    refs = [ray.put(filled(2)) for _ in range(3)]
    assert before not in [inode(each) for each in refs]
    assert ray.get(keeps.sum.remote()) == SIZE


def test_a_descriptor_that_a_child_of_the_driver_has_keeps_its_memory() -> None:
    ref = ray.put(filled(1))
    before = inode(ref)
    fd = os.dup(hub().entries[ref._id].packed.fd)
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=[fd]) as child:
        os.close(fd)
        del ref
        assert inode(ray.put(filled(2))) != before
        assert child.stdin is not None
        child.stdin.close()


def test_what_nobody_needs_is_given_back_and_no_more_than_the_bound_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pages = reuse.pages
    assert pages is not None
    refs = [ray.put(filled(1)) for _ in range(3)]
    monkeypatch.setattr(pages, "_bound", 2 * SIZE + (1 << 20))
    del refs
    hub().drain_now()
    assert 2 * SIZE <= pages.waiting_bytes <= pages._bound
    monkeypatch.setattr(_pages, "_WAITS_S", 0.0)
    until(lambda: pages.waiting_bytes == 0)  # At a tick of the session.


def test_a_file_of_another_size_is_not_used() -> None:
    large = ray.put(filled(1))
    before = inode(large)
    del large
    small = ray.put(filled(1)[: SIZE // 2])
    assert inode(small) != before
    again = ray.put(filled(3)[: SIZE - 100])
    assert inode(again) == before and (ray.get(again) == 3).all()


def test_values_that_are_spilled_leave_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub().store_of, "_bound", SIZE // 2)
    ref = ray.put(filled(1))
    assert hub().entries[ref._id].packed.is_spilled
    assert reuse.pages is not None and reuse.pages.waiting_bytes == 0
    assert (ray.get(ref) == 1).all()
