"""Tasks and values with real processes, without a head (local_executors.py)."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import rt as ray
from rt import exceptions
from task_session import DEADLINE_S, add, conns, hub, until

pytestmark = pytest.mark.usefixtures("executors")


@ray.remote
def nothing() -> None:
    pass


@ray.remote
def pid() -> int:
    return os.getpid()


def test_tasks_return_values_in_the_order_of_their_references() -> None:
    assert ray.get(add.remote(1, 2)) == 3
    assert ray.get([add.remote(i, y=1) for i in range(300)]) == list(range(1, 301))
    assert ray.get([]) == []
    assert ray.get(nothing.remote()) is None
    assert ray.get(pid.remote()) != os.getpid()


def test_references_are_arguments_and_a_tree_of_adds_is_one() -> None:
    values = [ray.put(i) for i in range(16)]
    while len(values) > 1:
        values = [add.remote(values[i], values[i + 1]) for i in range(0, len(values), 2)]
    assert ray.get(values[0]) == 120

    @ray.remote
    def first(inside: Any, named: int = 0) -> Any:
        return ray.get(inside[0]) + named

    assert ray.get(first.remote([add.remote(3, 4)], named=add.remote(1, 1))) == 9


def test_nested_gets_do_not_deadlock_on_two_slots() -> None:
    @ray.remote
    def fib(n: int) -> int:
        if n < 2:
            return n
        return sum(ray.get([fib.remote(n - 1), fib.remote(n - 2)]))

    assert ray.get(fib.remote(9)) == 34

    @ray.remote
    def outer(i: int) -> int:
        return int(ray.get(add.remote(i, 1)))

    assert ray.get([outer.remote(i) for i in range(100)]) == list(range(1, 101))


def test_an_error_is_of_the_users_class_with_the_traceback_of_the_task() -> None:
    class Odd(ValueError):
        def __init__(self, a: int, b: int) -> None:
            super().__init__(f"{a} {b}")
            self.a = a

    @ray.remote
    def fails() -> None:
        raise Odd(1, 2)

    with pytest.raises(Odd) as found:
        ray.get(fails.remote())
    assert isinstance(found.value, exceptions.RayTaskError) and found.value.a == 1
    assert "in fails" in str(found.value) and "raise Odd(1, 2)" in str(found.value)
    assert isinstance(found.value.cause, Odd) and str(found.value.cause) == "1 2"
    with pytest.raises(Odd):  # It passes through what depends on it.
        ray.get(add.remote(fails.remote(), 1))

    @ray.remote
    def passes_on() -> Any:
        return ray.get(fails.remote())

    with pytest.raises(Odd):
        ray.get(passes_on.remote())

    @ray.remote
    def odd_error() -> None:
        class Local(Exception):
            def __reduce__(self) -> Any:
                raise TypeError("no")

        raise Local("text")

    with pytest.raises(exceptions.TaskError, match="text"):
        ray.get(odd_error.remote())


def test_get_raises_the_first_error_while_others_still_run() -> None:
    @ray.remote
    def waits(path: str) -> None:
        while not os.path.exists(path):
            time.sleep(0.005)

    @ray.remote
    def fails() -> None:
        raise KeyError("x")

    path = f"{hub().session}-never"
    slow = waits.remote(path)
    with pytest.raises(KeyError):
        ray.get([slow, fails.remote()], timeout=DEADLINE_S)
    with pytest.raises(exceptions.GetTimeoutError):
        ray.get(slow, timeout=0.05)
    with pytest.raises(TimeoutError):
        ray.get(slow, timeout=0)
    ray.cancel(slow, force=True)
    with pytest.raises(exceptions.TaskCancelledError):
        ray.get(slow)


def test_wait_splits_by_readiness_and_keeps_the_order(tmp_path: Path) -> None:
    @ray.remote
    def waits(path: str) -> str:
        while not os.path.exists(path):
            time.sleep(0.002)
        return path

    gates = [str(tmp_path / name) for name in "ab"]
    refs = [waits.remote(each) for each in gates]
    assert ray.wait(refs, timeout=0) == ([], refs)
    (tmp_path / "b").touch()
    ready, rest = ray.wait(refs)
    assert (ready, rest) == ([refs[1]], [refs[0]])
    (tmp_path / "a").touch()
    assert ray.wait(rest, timeout=DEADLINE_S) == ([refs[0]], [])
    assert ray.wait(refs, num_returns=2) == (refs, [])
    for wrong in (lambda: ray.wait(refs[0]), lambda: ray.wait([1])):  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            wrong()
    with pytest.raises(ValueError, match="differ"):
        ray.wait([refs[0], refs[0]])
    with pytest.raises(ValueError, match="3"):
        ray.wait(refs, num_returns=3)


def test_wait_in_a_task_sees_what_was_ready_and_what_becomes_so() -> None:
    @ray.remote
    def one_by_one(rest: Any, fresh: bool) -> int:
        refs, taken = [*rest, *(add.remote(n, 0) for n in range(10) if fresh)], 0
        while refs:
            ready, refs = ray.wait(refs)
            taken += len(ready)
        return taken

    refs = [add.remote(n, 0) for n in range(20)]
    _, rest = ray.wait(refs)
    assert ray.get([one_by_one.remote(rest, fresh) for fresh in (True, False)]) == [29, 19]


def test_wait_one_by_one_sees_changes_of_the_list() -> None:
    refs = [add.remote(i, 0) for i in range(50)]
    seen = []
    while refs:
        ready, refs = ray.wait(refs)
        seen += ray.get(ready)
        if len(seen) == 10:
            refs.append(add.remote(100, 0))
        if len(seen) == 20:
            refs[-1] = add.remote(200, 0)
    assert len(seen) == 51 and 200 in seen


def test_large_values_are_shared_and_read_only() -> None:
    numpy = pytest.importorskip("numpy")
    array = numpy.arange(1_000_000, dtype="float64")
    ref = ray.put(array)
    found = ray.get(ref)
    assert (found == array).all() and not found.flags.writeable

    @ray.remote
    def double(values: Any) -> Any:
        assert not values.flags.writeable
        return values * 2

    doubled = ray.get(double.remote(ref))
    assert (doubled == array * 2).all()
    small = ray.get(ray.put(numpy.ones(3)))
    assert not small.flags.writeable and small.sum() == 3
    assert ray.get(ray.put(b"x" * 300_000)) == b"x" * 300_000
    with pytest.raises(TypeError):
        ray.put(ref)


def test_a_task_may_have_hundreds_of_large_arguments() -> None:
    blob = b"x" * 150_000
    refs = [ray.put(blob) for _ in range(3)]

    @ray.remote
    def total(*values: bytes) -> int:
        return sum(map(len, values))

    many = [ray.put(blob + bytes([n % 256])) for n in range(520)]
    assert ray.get(total.remote(*many)) == 520 * 150_001
    assert ray.get(total.remote(*refs)) == 450_000


def test_values_are_dropped_with_their_last_reference() -> None:
    gc.collect()
    client = hub()
    until(lambda: not client.tasks)
    with client.lock:
        client.drain()
    before = set(client.entries)

    @ray.remote
    def holder(refs: Any) -> Any:
        return [ray.put(1), refs[0], add.remote(1, 1)]

    inner = ray.put("x")
    outer = ray.get(holder.remote([inner]))
    assert ray.get(outer) == [1, "x", 2]
    many = [add.remote(i, 1) for i in range(500)]
    ray.get(many)
    del inner, outer, many

    def all_are_gone() -> bool:
        gc.collect()
        with client.lock:
            client.drain()
            return set(client.entries) <= before

    until(all_are_gone)
    until(lambda: all(not conn.borrowed for conn in conns()))


def test_generators_stream_their_items(tmp_path: Path) -> None:
    gate = tmp_path / "gate"

    @ray.remote
    def count(n: int, path: str) -> Any:
        for i in range(n):
            if i == 2:
                while not os.path.exists(path):
                    time.sleep(0.002)
            yield i

    found = count.remote(4, str(gate))
    assert [ray.get(next(found)), ray.get(next(found))] == [0, 1]
    gate.touch()
    assert [ray.get(each) for each in found] == [2, 3]

    long = count.remote(300, str(gate))
    assert sum(ray.get(each) for each in long) == 300 * 299 // 2
    kept = hub().entries[long._stream._id].items
    assert len(kept) == 300 and not any(kept)  # The stream keeps nothing that was taken.

    @ray.remote(num_returns="streaming")
    def breaks() -> Any:
        yield 1
        raise ValueError("stop")

    items = list(breaks.remote())
    assert ray.get(items[0]) == 1
    with pytest.raises(ValueError, match="stop"):
        ray.get(items[1])

    @ray.remote
    def inside(path: str) -> int:
        return sum(ray.get(each) for each in count.remote(3, path))

    assert ray.get(inside.remote(str(gate))) == 3


def test_several_returns() -> None:
    @ray.remote(num_returns=2)
    def pair(n: int) -> Any:
        return tuple(range(n))

    a, b = pair.remote(2)
    assert ray.get([a, b]) == [0, 1]
    for each in pair.remote(3):
        with pytest.raises(ValueError, match="3 values"):
            ray.get(each)
    assert nothing.options(num_returns=0).remote() is None


def test_references_are_futures_and_can_be_awaited() -> None:
    async def main() -> list[int]:
        one = await add.remote(1, 2)
        return [one, *(await asyncio.gather(add.remote(3, 4), add.remote(5, 6)))]

    assert asyncio.run(main()) == [3, 7, 11]
    assert add.remote(2, 2).future().result(DEADLINE_S) == 4


def test_threads_of_a_driver_share_the_session() -> None:
    found: dict[int, list[int]] = {}

    def work(index: int) -> None:
        found[index] = ray.get([add.remote(index, i) for i in range(100)])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(DEADLINE_S)
    assert found == {i: [i + j for j in range(100)] for i in range(4)}


def test_prints_of_tasks_reach_the_driver(capfd: pytest.CaptureFixture[str]) -> None:
    @ray.remote
    def shout() -> int:
        print("hello\nthere")
        print("beware", file=sys.stderr)
        return os.getpid()

    number = ray.get(shout.remote())
    out, err = capfd.readouterr()
    name = "test_prints_of_tasks_reach_the_driver.<locals>.shout"
    assert f"({name} pid={number}) hello\n({name} pid={number}) there\n" in out
    assert "beware" in err


def test_a_driver_imports_what_futures_need_when_it_needs_it() -> None:
    text = (
        "import sys, rt, rt.core._session; rt.remote\n"
        "print([each for each in ('asyncio', 'concurrent.futures') if each in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"


def test_what_cannot_be_is_refused_where_it_stands() -> None:
    for wrong, error in (
        (lambda: add(1, 2), TypeError),
        (lambda: ray.get(1), ValueError),
        (lambda: ray.remote(num_cpu=1)(lambda: 1), TypeError),
        (lambda: ray.remote(num_cpus=-1)(lambda: 1), ValueError),
        (lambda: ray.remote(max_retries=-2)(lambda: 1), ValueError),
        (lambda: ray.remote(num_returns="x")(lambda: 1), ValueError),
        (lambda: ray.remote(3), TypeError),
        (lambda: add.options(resources={"CPU": 1}), ValueError),
    ):
        with pytest.raises(error):
            wrong()  # type: ignore[no-untyped-call]
    for options in ({"label_selector": {"a": "b"}}, {"scheduling_strategy": object()}):
        with pytest.raises(NotImplementedError, match="a resource that only those nodes have"):
            ray.remote(**options)(lambda: 1)
    assert ray.get(add.options(scheduling_strategy="SPREAD").remote(1, 2)) == 3
    with pytest.raises(exceptions.TaskUnschedulableError, match="cpus"):
        ray.get(add.options(num_cpus=99).remote(1, 2))
    assert ray.remote(accelerator_type="H100")(lambda: 1).options()  # A resource of its nodes.
    assert ray.get(add.options(num_cpus=2).remote(1, 2)) == 3
    assert ray.get(add.options(num_cpus=0).remote(1, 2)) == 3


def test_a_generator_waits_until_its_items_are_taken(tmp_path: Path) -> None:
    @ray.remote(_generator_backpressure_num_objects=5)
    def counted(path: str, count: int) -> Iterator[int]:
        for n in range(count):
            with open(path, "a") as file:
                file.write("x")
            yield n

    path = tmp_path / "a"
    items = counted.remote(str(path), 30)
    until(lambda: path.exists() and path.stat().st_size == 5)
    # Its slot is free for others, and it is not ahead by more than 5.
    assert ray.get([add.remote(n, n) for n in range(4)]) == [0, 2, 4, 6]
    found = []
    for ref in items:
        found.append(ray.get(ref))
        assert path.stat().st_size <= len(found) + 6
    assert found == list(range(30))

    whole = counted.remote(str(tmp_path / "b"), 30)
    until(lambda: (tmp_path / "b").exists() and (tmp_path / "b").stat().st_size == 5)
    assert ray.get(whole.completed(), timeout=DEADLINE_S) is None  # Its end is awaited.
    assert len(list(whole)) == 30
    counted.remote(str(tmp_path / "c"), 30)  # Nobody can take them.
    until(lambda: (tmp_path / "c").exists() and (tmp_path / "c").stat().st_size == 30)
    unbounded = counted.options(_generator_backpressure_num_objects=-1)
    rest = unbounded.remote(str(tmp_path / "d"), 30)
    until(lambda: (tmp_path / "d").exists() and (tmp_path / "d").stat().st_size == 30)

    @ray.remote
    def takes(generator: Any) -> int:
        return sum(ray.get(ref) for ref in generator)

    assert ray.get(takes.remote(counted.remote(str(tmp_path / "e"), 30))) == sum(range(30))
    assert len(list(rest)) == 30
    with pytest.raises(ValueError, match="backpressure"):
        counted.options(_generator_backpressure_num_objects=0)


def test_a_process_ends_after_max_calls() -> None:
    @ray.remote(max_calls=2)
    def pid() -> Any:
        return os.getpid(), ray.put("x")

    found = [ray.get(pid.remote()) for _ in range(6)]
    pids = [number for number, _ in found]
    assert len(set(pids)) >= 3 and max(pids.count(each) for each in pids) <= 2
    assert ray.get([ref for _, ref in found]) == ["x"] * 6
    many = ray.get([pid.remote() for _ in range(20)])
    assert max([number for number, _ in many].count(number) for number, _ in many) <= 2
    with pytest.raises(ValueError, match="max_calls"):
        pid.options(max_calls=-1)


def test_the_context_says_what_runs() -> None:
    @ray.remote(name="shown")
    def names() -> Any:
        context = ray.get_runtime_context()
        return context.get_task_name(), context.get_task_function_name(), context.get()

    @ray.remote(max_restarts=1)
    class Itself:
        def value(self) -> int:
            return 7

        def names(self) -> Any:
            context = ray.get_runtime_context()
            return context.get_task_name(), context.was_current_actor_reconstructed

        def me(self) -> Any:
            return ray.get_runtime_context().current_actor

        def die(self) -> None:
            os._exit(1)

    name, function, found = ray.get(names.remote())
    assert name == "shown" and function.endswith("names")
    assert set(found) == {"job_id", "node_id", "namespace", "task_id"}
    actor = Itself.remote()
    assert ray.get(actor.names.remote()) == ("Itself.names", False)
    me = ray.get(actor.me.remote())
    assert me == actor and ray.get(me.value.remote()) == 7
    with pytest.raises(exceptions.RayActorError):
        ray.get(actor.die.remote())
    assert ray.get(actor.names.remote()) == ("Itself.names", True)
    context = ray.get_runtime_context()
    assert context.get_task_name() is None and context.get_placement_group_id() is None
    with pytest.raises(RuntimeError, match="in an actor"):
        _ = context.current_actor
