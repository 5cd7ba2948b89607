"""What the processes of a session say to the driver, and what it does. All with the hub's lock."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Sequence
from typing import Any, Callable, Optional

from rt.core._places import Conn
from rt.core._records import STREAM, Entry, Function, Options, Task
from rt.core._values import Packed, PackedCall, Result, pack
from rt.exceptions import ObjectLostError, RayError, TaskCancelledError

Hub = Any  # rt.core._hub.Hub, which imports this module.


def _hello(hub: Hub, conn: Conn, pid: int) -> None:
    conn.pid = pid


def _task_of(hub: Hub, conn: Conn, number: int) -> Optional[Task]:
    task = conn.inflight.get(number)
    if task is None:
        return None
    hub.schedule.ended(conn, task)
    return task


def _borrowed_back(hub: Hub, results: list[Result]) -> None:
    for _, refs in results:
        for each in refs:
            hub.keep(each)


def _done(hub: Hub, conn: Conn, number: int, results: list[Result], seconds: float) -> None:
    task = _task_of(hub, conn, number)
    if task is None:
        return
    if task.actor is None:
        task.function.took(seconds)
    _borrowed_back(hub, results)
    if task.cancelled and task.actor is not None:  # Its thread could not be interrupted.
        hub.fail_with(task, TaskCancelledError(f"{task.name} was cancelled"))
        for _, refs in results:
            for ref in refs:
                hub.release(ref)
    elif task.options.num_returns == STREAM:
        hub.close_stream(task, None, ())
    else:
        for each, (packed, refs) in zip(task.returns, results):
            hub.set_value(each, packed, refs)
    hub.end_task(task)
    _next(hub, conn, task)


def _next(hub: Hub, conn: Conn, task: Task) -> None:
    if task.actor is not None:
        hub.actors.call_ended(task.actor)
    else:
        hub.schedule.next(conn, task)


def _raised(
    hub: Hub, conn: Conn, number: int, packed: Packed, refs: tuple[int, ...], seconds: float,
    may_retry: bool, results: Sequence[Result] = (),
) -> None:  # fmt: skip
    task = _task_of(hub, conn, number)
    if task is None:
        return
    if task.cancelled:
        packed, refs = pack(TaskCancelledError(f"{task.name} was cancelled"))[0], ()
    elif task.actor is None:
        task.function.took(seconds)
    if may_retry and not task.cancelled and task.may_retry():
        task.try_again()
        if task.actor is not None:
            hub.actors.call_again(task)
        else:
            hub.schedule.add_again(task)
    else:
        _borrowed_back(hub, [*results, (packed, refs)])
        for each, result in zip(task.returns, results):  # Yielded before it raised.
            hub.set_value(each, *result)
        hub.fail_task(task, packed, refs)
    _next(hub, conn, task)


def _yielded(hub: Hub, conn: Conn, number: int, packed: Packed, refs: tuple[int, ...]) -> None:
    task = conn.inflight.get(number)
    if task is not None:
        _borrowed_back(hub, [(packed, refs)])
        task.seen += 1
        if task.seen <= task.yielded:
            for each in refs:
                hub.release(each)
            return
        hub.add_item(task, packed, refs, False)
        stream = hub.entries.get(task.returns[0])
        if stream is None or stream.count <= 0:
            hub.allow_items(task, all_of_them=True)


def _back(hub: Hub, conn: Conn, numbers: list[int]) -> None:
    hub.schedule.take_back(conn, numbers)


def _function(hub: Hub, conn: Conn, name: str, blob: bytes, refs: tuple[int, ...]) -> None:
    function = hub.learn(Function(name, blob, refs))
    conn.known.add(function.digest)


def _parent(conn: Conn) -> Optional[Task]:
    return next(iter(conn.inflight.values()), None)


def _created(hub: Hub, conn: Conn, numbers: list[int]) -> None:
    """The process holds a handle of each; the entry's first count is its."""
    for each in numbers:
        conn.borrowed[each] = conn.borrowed.get(each, 0) + 1


def _fits(hub: Hub, call: PackedCall) -> bool:
    return all(each in hub.entries for each in (*call[1], *(each for _, each in call[2])))


def _submit(
    hub: Hub, conn: Conn, number: int, digest: bytes, call: PackedCall, options: Options,
    returns: list[int],
) -> None:  # fmt: skip
    task = Task(number, hub.functions[digest], options, *call, returns)
    parent = _parent(conn)
    task.depth = 1 if parent is None else parent.depth + 1
    task.parent = None if parent is None else parent.id
    _add(hub, conn, task, call)


def _add(hub: Hub, conn: Conn, task: Task, call: PackedCall) -> None:
    _created(hub, conn, task.returns)
    if _fits(hub, call):
        hub.add_task(task)
        return
    task.refs, task.places = (), ()
    for each in task.returns:
        hub.entries[each] = Entry(1, task)
    hub.tasks[task.id] = task
    hub.fail_with(task, ObjectLostError(f"an argument of {task.name} is not known any more"))


def _put(hub: Hub, conn: Conn, number: int, packed: Packed, refs: tuple[int, ...]) -> None:
    _created(hub, conn, [number])
    try:
        hub.put_value(number, packed, refs)
    except RayError as error:
        hub.entries[number] = Entry()
        hub.set_error(number, pack(error)[0])


def _send(hub: Hub, conn: Conn, number: int, entry: Entry) -> None:
    for each in entry.refs:
        hub.schedule.borrow(conn, each)
    packed = hub.keepers.near(conn, number, entry.packed)
    conn.post(("v", number, packed, entry.is_error, entry.refs))


def _get(hub: Hub, conn: Conn, numbers: list[int]) -> None:
    """The process waits for values: each is sent as soon as it is ready."""
    missing = []
    for each in numbers:
        entry = hub.entries.get(each)
        if entry is None:
            lost = pack(ObjectLostError(f"the value {each:x} is not known any more"))[0]
            conn.post(("v", each, lost, True, ()))
        elif entry.is_ready:
            _send(hub, conn, each, entry)
        else:
            missing.append(each)
    if not missing:
        return
    if not hub.schedule.block(conn):
        hub.stuck.add(conn)
    for each in missing:
        conn.wanted[each] = conn.wanted.get(each, 0) + 1
        hub.entries[each].wait(_answer(hub, conn))
    hub.schedule.dispatch(conn.slot.pool)


def _answer(hub: Hub, conn: Conn) -> Callable[[int, Entry], None]:
    def ready(number: int, entry: Entry) -> None:
        if conn.is_closed or number not in conn.wanted:
            return
        del conn.wanted[number]
        _send(hub, conn, number, entry)
        if not conn.wanted:
            hub.schedule.unblock(conn)

    return ready


def _unwanted(hub: Hub, conn: Conn, numbers: list[int]) -> None:
    """It waits for these no more: its time was over, or another was an error."""
    for each in numbers:
        conn.wanted.pop(each, None)
    if not conn.wanted:
        hub.schedule.unblock(conn)


def _watch(hub: Hub, conn: Conn, request: int, numbers: list[int]) -> None:
    """The process wants to know when these are ready, without their values."""

    def ready(number: int, _entry: Entry) -> None:
        conn.watched.discard(number)
        if not conn.is_closed:
            conn.post(("r", 0, [number]))

    found = []
    for each in numbers:
        entry = hub.entries.get(each)
        if entry is None or entry.is_ready:
            found.append(each)
        elif each not in conn.watched:
            conn.watched.add(each)
            entry.wait(ready)
    conn.post(("r", request, found))


def _idle(hub: Hub, conn: Conn, is_idle: bool) -> None:
    """The process waits in rt.wait, or does so no more."""
    if is_idle and hub.schedule.block(conn):
        conn.wanted[0] = 1
        hub.schedule.dispatch(conn.slot.pool)
    elif not is_idle:
        conn.wanted.pop(0, None)
        if not conn.wanted:
            hub.schedule.unblock(conn)


def _dropped(hub: Hub, conn: Conn, counts: list[tuple[int, int]]) -> None:
    for number, count in counts:
        hub.schedule.give_back(conn, number, count)


def _out(hub: Hub, conn: Conn, stream: str, text: str) -> None:
    parent = _parent(conn)
    name = conn.actor.function.name if conn.actor is not None else parent.name if parent else "task"
    prefix = f"({name} pid={conn.pid}) "
    lines = text.splitlines(keepends=True)
    hub.print_out(stream, "".join(prefix + each for each in lines))


def _create_actor(
    hub: Hub, conn: Conn, number: int, digest: bytes, call: PackedCall, options: dict[str, Any]
) -> None:
    _created(hub, conn, [number])
    try:
        hub.actors.create(number, hub.functions[digest], call, options)
    except (ValueError, RayError) as error:
        hub.actors.create_dead(number, hub.functions[digest], str(error))


def _call(
    hub: Hub, conn: Conn, number: int, actor: int, method: str, call: PackedCall, options: Options,
    returns: list[int],
) -> None:  # fmt: skip
    try:
        task = hub.actors.call(number, actor, method, call, options, returns, conn)
    except (ValueError, RayError) as error:
        for each in returns:
            hub.entries[each] = Entry()
            _created(hub, conn, [each])
            hub.set_error(each, pack(error)[0])
        return
    parent = _parent(conn)
    task.parent = None if parent is None else parent.id
    _add(hub, conn, task, call)


def _kill(hub: Hub, conn: Conn, actor: int, no_restart: bool) -> None:
    hub.actors.kill(actor, no_restart)


def _cancel(hub: Hub, conn: Conn, number: int, force: bool, recursive: bool) -> None:
    entry = hub.entries.get(number)
    if entry is not None and entry.task is not None:
        hub.cancel_task(entry.task, force, recursive)


def _ask(hub: Hub, conn: Conn, request: int, what: str, args: tuple[Any, ...]) -> None:
    try:
        if what == "actor":
            _find_actor(hub, conn, request, *args)
            return
        elif what == "self":
            found = hub.actors.describe(conn.actor)
            hub.schedule.borrow(conn, found["id"])
            conn.post(("n", request, True, found))
            return
        elif what == "made":
            hub.actors.check_made(*args)
            conn.post(("n", request, True, None))
            return
        elif what == "value":  # It has its references already.
            conn.post(("n", request, True, hub.entry(*args).packed))
            return
        elif what == "next":
            _next_item(hub, conn, request, *args)
            return
        else:
            hub.schedule.places.ask_later(what, _answering(hub, conn, request))
            return
    except (ValueError, RayError) as error:
        conn.post(("n", request, False, pickle.dumps(error)))
        return


def _find_actor(hub: Hub, conn: Conn, request: int, name: str, namespace: Optional[str]) -> None:
    """Answers with the actor of a name; the head is asked for a detached one."""
    try:
        found = hub.actors.find(name, namespace)
    except ValueError:
        answer = _answering(hub, conn, request)

        def find() -> None:
            try:
                later = hub.find_actor(name, namespace)
            except (ValueError, RayError) as error:
                answer(False, error)
                return
            with hub.lock:
                hub.schedule.borrow(conn, later["id"])
                hub.release(later["id"])
            answer(True, later)

        threading.Thread(target=find, daemon=True).start()
        return
    hub.schedule.borrow(conn, found["id"])
    conn.post(("n", request, True, found))


def _answering(hub: Hub, conn: Conn, request: int) -> Callable[[bool, Any], None]:
    def answer(is_good: bool, value: Any) -> None:
        with hub.lock:
            if not conn.is_closed:
                conn.post(("n", request, is_good, value if is_good else pickle.dumps(value)))
                hub.pump.flush()

    return answer


def _next_item(hub: Hub, conn: Conn, request: int, stream: int, index: int) -> None:
    """Answers with the number of the item, once it was yielded; with None after the end."""
    entry = hub.entry(stream)
    items = entry.items or []
    if len(items) > index:
        number = hub.take_item(entry, index)
        hub.schedule.borrow(conn, number)
        hub.release(number)
        conn.post(("n", request, True, number))
    elif entry.is_ready:
        conn.post(("n", request, True, None))
    else:
        entry.takers.append(lambda: None if conn.is_closed else _next_item(
            hub, conn, request, stream, index))  # fmt: skip


def _await_end(hub: Hub, conn: Conn, stream: int) -> None:
    hub.await_end(stream)


def _made(hub: Hub, conn: Conn, error: Optional[Packed]) -> None:
    hub.actors.made(conn, error)


def _introduced(hub: Hub, conn: Conn, name: str, methods: dict[str, Any]) -> None:
    hub.actors.introduced(conn, name, methods)


def _left(hub: Hub, conn: Conn) -> None:
    hub.actors.left(conn)


SERVED: dict[str, Callable[..., None]] = {
    "h": _hello, "d": _done, "e": _raised, "y": _yielded, "b": _back, "F": _function,
    "s": _submit, "p": _put, "G": _get, "u": _unwanted, "w": _watch, "i": _idle, "D": _dropped,
    "o": _out, "a": _create_actor, "C": _call, "K": _kill, "X": _cancel, "N": _ask, "m": _made,
    "q": _left, "M": _introduced, "k": _await_end,
}  # fmt: skip
