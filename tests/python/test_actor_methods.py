"""Methods of actors: generators, and which attributes are methods (local_executors.py)."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import rt as ray
from task_session import until

pytestmark = pytest.mark.usefixtures("executors")


def test_an_async_generator_waits_until_its_items_are_taken() -> None:
    @ray.remote
    class Source:
        def __init__(self) -> None:
            self.made = 0

        @ray.method(_generator_backpressure_num_objects=3)
        async def count(self, count: int) -> Any:
            for n in range(count):
                self.made += 1
                yield n

        async def get_made(self) -> int:
            return self.made

    source = Source.remote()
    items = source.count.remote(10)
    until(lambda: ray.get(source.get_made.remote()) == 3)
    assert [ray.get(ref) for ref in items] == list(range(10))


def test_an_attribute_may_have_the_name_of_a_method(tmp_path: Path) -> None:
    @ray.remote
    class Named:
        def __init__(self) -> None:
            self.value = 3

        def value(self) -> int:  # type: ignore[no-redef]
            return self.value  # type: ignore[return-value]

        @staticmethod
        def plain(n: int) -> int:
            return n

        @classmethod
        def name(cls) -> str:
            return cls.__name__

        def waits(self, gate: Path) -> None:
            while not gate.exists():
                time.sleep(0.001)

    named = Named.remote()
    assert ray.get([named.value.remote(), named.plain.remote(2)]) == [3, 2]
    assert ray.get(named.name.remote()) == "Named"
    with pytest.raises(ValueError, match="force"):
        ray.cancel(named.waits.remote(tmp_path / "gate"), force=True)
    (tmp_path / "gate").touch()
