"""Where large values are kept: in memory up to a bound, then on the disk (local_executors.py)."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import rt as ray
from rt import exceptions
from rt.core import _values
from task_session import hub

pytestmark = pytest.mark.usefixtures("executors")


def test_a_value_that_fits_nowhere_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    store = hub().store_of
    monkeypatch.setattr(store, "_bound", 0)
    monkeypatch.setenv("RT_SPILL_DIR", "/nonexistent")
    monkeypatch.setattr(store, "_directory", "")
    with pytest.raises(exceptions.ObjectStoreFullError):
        ray.put(b"x" * 200_000)

    @ray.remote
    def large() -> bytes:
        return b"x" * 200_000

    with pytest.raises(exceptions.ObjectStoreFullError):
        ray.get(large.remote())


@pytest.mark.parametrize("free_gib, is_full", [(3, False), (1, True)])
def test_spilling_leaves_2_gib_of_a_large_disk(
    monkeypatch: pytest.MonkeyPatch, free_gib: int, is_full: bool
) -> None:
    blocks = {"f_frsize": 1 << 20, "f_blocks": 1 << 20, "f_bavail": free_gib << 10}  # Of 1 TiB.
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(**blocks))
    store = hub().store_of
    monkeypatch.setattr(store, "_bound", 0)
    if is_full:
        with pytest.raises(exceptions.ObjectStoreFullError, match="too little room is left"):
            ray.put(b"x" * 200_000)
    else:
        assert ray.get(ray.put(b"x" * 200_000)) == b"x" * 200_000


def test_values_beyond_the_bound_are_spilled_and_read_again() -> None:
    numpy = pytest.importorskip("numpy")
    store = hub().store_of
    before = store._bound
    store.set_bound(3_000_000)
    try:
        refs = [ray.put(numpy.full(200_000, i)) for i in range(5)]  # 1.6 MB each.
        spilled = [hub().entries[each._id].packed.is_spilled for each in refs]
        assert spilled == [True, True, True, True, False]
        assert [int(ray.get(each)[7]) for each in refs] == [0, 1, 2, 3, 4]

        @ray.remote
        def total(values: Any) -> int:
            return int(values.sum())

        assert ray.get([total.remote(each) for each in refs]) == [200_000 * i for i in range(5)]
    finally:
        store.set_bound(before)


def test_bytes_are_written_beside_their_pickle() -> None:
    value = os.urandom(300_000)
    packed, refs = _values.pack(value)
    assert isinstance(packed, _values.Shared) and refs == ()
    (length, ((_, size),)) = packed.layout
    assert (size, length < 200) == (len(value), True)
    found = _values.unpack(packed)
    assert type(found) is bytes and found == value
