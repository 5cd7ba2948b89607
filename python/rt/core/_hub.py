"""The driver's session: it owns all values, runs all tasks, and is asked by all its processes
(adr/0041)."""

from __future__ import annotations

import threading
import time
from typing import Any, Callable, Optional

from rt.core._actors import Actors
from rt.core._client import Client, _nothing
from rt.core._current import forgetful
from rt.core._keepers import Keepers
from rt.core._output import print_out
from rt.core._pages import Pages
from rt.core._places import Conn
from rt.core._records import STREAM, Entry, Function, Options, Task
from rt.core._refs import ObjectRef
from rt.core._schedule import Schedule
from rt.core._serve import SERVED
from rt.core._store import Store, memory_bytes
from rt.core._stuck import Stuck
from rt.core._values import Packed, PackedCall, Shared, pack, reuse
from rt.exceptions import GetTimeoutError, RayError, TaskCancelledError

_CREATOR_BITS = 40  # Of a number: above them is the process that made it, 0 the driver.


class Hub(Client):
    """The session of a driver."""

    def __init__(self, session: str, places: Any) -> None:
        """places: rt.core._session.Places, which has executors."""
        super().__init__(session)
        self._next = 0
        self._next_conn = 0
        self.functions: dict[bytes, Function] = {}
        self.tasks: dict[int, Task] = {}  # That have not ended.
        self.store_of = Store()
        self._pages = reuse.pages = Pages(memory_bytes(), self.drain_now)
        self._spilling = threading.Lock()  # Taken before the lock of the pump.
        self._spiller_runs = False
        self._spill_failed = self._spill_told = False
        self._is_putting = False  # The driver's own value: `store` spills itself.
        self.schedule = Schedule(self, places)
        self.actors = Actors(self)
        self.keepers = Keepers(self, places)
        self.stuck = Stuck(self)
        self.print_out: Callable[[str, str], None] = print_out
        self.pump.on_tick.append(self._tick)
        self.pump.start()
        forgetful.add(self)

    def _tick(self, now: float) -> None:
        self.drain()
        self.schedule.tick(now)
        self.stuck.look(now)
        self._pages.look(now)

    def close(self) -> None:
        """Ends the session: its processes end."""
        with self.lock:
            for slots in [list(pool.slots.values()) for pool in self.schedule.pools.values()]:
                for slot in slots:
                    for conn in list(slot.conns):
                        self.schedule.close_conn(conn)
            self.keepers.close()
            for task in list(self.tasks.values()):
                self.fail_with(task, RayError("its session has ended (rt.shutdown)"))
        self.pump.wake()
        self.schedule.places.close()
        self.pump.close()
        self._pages.close()

    # Numbers and values. All with the lock.

    def number(self) -> int:
        """A new number."""
        self._next += 1
        return self._next

    def _own(self, count: int) -> list[int]:
        self._next += count
        return list(range(self._next - count + 1, self._next + 1))

    def conn_number(self) -> int:
        """The first number of what a process creates."""
        self._next_conn += 1
        return self._next_conn << _CREATOR_BITS

    def entry(self, number: int) -> Entry:
        """The value of the number. Raises ValueError."""
        entry = self.entries.get(number)
        if entry is None:
            raise ValueError(f"the value {number:x} is not known in this session")
        return entry

    def keep(self, number: int) -> None:
        """Something more keeps the value."""
        self.entry(number).count += 1

    def release(self, number: int, count: int = 1) -> None:
        """Something keeps it no more."""
        entry = self.entries.get(number)
        if entry is None:
            return
        entry.count -= count
        if entry.count > 0:
            return
        if number in self.actors.by_id:
            self.actors.out_of_scope(number)
            return
        if not entry.is_ready and entry.task is not None:
            if entry.items is not None:
                self.allow_items(entry.task, all_of_them=True)
            return  # The task runs all the same; its value is dropped when it comes.
        self._drop(number, entry)

    def _drop(self, number: int, entry: Entry) -> None:
        self.entries.pop(number, None)
        if isinstance(entry.packed, Shared):
            self.store_of.remove(number)
            self.keepers.drop(number)
        entry.packed = b""
        for each in entry.refs:
            self.release(each)
        for each in entry.items or ():
            if each:
                self.release(each)

    def _let_go(self, number: int, handles: int) -> None:
        self.release(number, handles)

    def set_value(self, number: int, packed: Packed, refs: tuple[int, ...]) -> None:
        """The value has come; references in it are kept already."""
        self._set(number, packed, refs, False)

    def set_error(self, number: int, packed: Packed, refs: tuple[int, ...] = ()) -> None:
        """An error has come instead of the value."""
        self._set(number, packed, refs, True)

    def _set(self, number: int, packed: Packed, refs: tuple[int, ...], is_error: bool) -> None:
        entry = self.entries.get(number)
        if entry is None or entry.is_ready:
            for each in refs:
                self.release(each)
            return
        if isinstance(packed, Shared):
            try:
                self.store_of.add(number, packed)
            except RayError as error:
                packed, is_error = pack(error)[0], True
            if self.store_of.is_over and not self._is_putting:
                self._spill_later()
        entry.packed, entry.refs = packed, refs
        entry.is_error, entry.is_ready = is_error, True
        entry.task = None
        if entry.waiters is not None or self._watches or self._last_rest() is not None:
            self.note_ready(number, entry)
        if entry.count <= 0:
            self._drop(number, entry)

    def _spill_later(self) -> None:
        if not self._spiller_runs:
            self._spiller_runs = True
            threading.Thread(target=self._spill_all, name="rt-spills", daemon=True).start()

    def _spill_all(self) -> None:
        while True:
            self._spill_over()
            with self.lock:
                if not self.store_of.is_over or self._spill_failed:
                    self._spiller_runs = False
                    return

    def _spill_over(self) -> None:
        """Writes the oldest values to the disk until the others fit. Without the lock."""
        store = self.store_of
        with self._spilling:
            self._spill_failed = False
            while True:
                with self.lock:
                    number = store.oldest()
                    entry = self.entries.get(number) if number is not None else None
                    if number is None or entry is None:
                        return
                    packed = entry.packed
                assert isinstance(packed, Shared)
                try:
                    spilled = store.spill(packed)
                except OSError as error:  # The value stays where it is.
                    if not self._spill_told:
                        self.print_out("err", f"rt: large values stay in memory: {error}\n")
                    self._spill_failed = self._spill_told = True
                    return
                with self.lock:
                    if entry.packed is packed:
                        entry.packed = spilled
                        packed.give_back()
                        store.remove(number)

    # What the driver's own code asks for.

    def store(self, packed: Packed, refs: tuple[int, ...]) -> int:
        """Keeps a value."""
        with self.lock:
            self._is_putting = True
            try:
                number = self.put_value(self.number(), packed, refs)
            finally:
                self._is_putting = False
        if self.store_of.is_over:
            self._spill_over()
        return number

    def put_value(self, number: int, packed: Packed, refs: tuple[int, ...]) -> int:
        """Keeps a value under this number. With the lock."""
        for each in refs:
            self.keep(each)
        self.entries[number] = Entry()
        self.set_value(number, packed, refs)
        entry = self.entries[number]
        if entry.is_error:
            error = entry.packed
            self._drop(number, entry)
            self._unpacked(error, True)
        return number

    def submit(self, function: Function, call: PackedCall, options: Options) -> list[int]:
        """Submits a task of the driver."""
        with self.lock:
            if self.dropped:
                self.drain()
            number, returns = self.number_call(options)
            self.add_task(Task(number, function, options, *call, returns))
            return returns

    def add_task(self, task: Task) -> None:
        """A new task: with its values, and what it needs. With the lock."""
        entries = self.entries
        for each in task.refs:
            self.keep(each)
        for each in task.returns:
            entries[each] = Entry(1, task)
        if task.options.num_returns == STREAM:
            entries[task.returns[0]].items = []
        self.tasks[task.id] = task
        for _, each in task.places:
            entry = self.entry(each)
            entry.count += 1
            if not entry.is_ready:
                task.missing += 1
                entry.wait(lambda _number, _entry: self._argument_came(task))
        if task.actor is not None:
            self.actors.add_call(task)
        elif not task.missing:
            self.schedule.add(task)

    def _argument_came(self, task: Task) -> None:
        task.missing -= 1
        if task.missing:
            return
        if task.actor is not None:
            self.actors.arguments_came(task)
        elif not task.cancelled:
            self.schedule.add(task)

    def arguments_of(self, task: Task) -> Any:
        """[(place, value)] of the references among its arguments; the value that is an error."""
        found = []
        for place, number in task.places:
            entry = self.entries[number]
            if entry.is_error:
                return entry
            found.append((place, entry.packed))
        return found

    def end_task(self, task: Task) -> None:
        """It needs nothing any more."""
        if self.tasks.pop(task.id, None) is None:
            return
        for each in task.refs:
            self.release(each)
        for _, each in task.places:
            self.release(each)

    def fail_task(self, task: Task, packed: Packed, refs: tuple[int, ...] = ()) -> None:
        """All that it returns is this error."""
        if task.id not in self.tasks:
            return
        returns = task.returns
        if task.options.num_returns == STREAM:
            self.close_stream(task, packed, refs)
            returns = []
        for index, each in enumerate(returns):
            if index:
                for ref in refs:
                    self.keep(ref)
            self.set_error(each, packed, refs)
        if not returns and task.options.num_returns != STREAM:
            for ref in refs:
                self.release(ref)
        self.end_task(task)

    def fail_with(self, task: Task, error: BaseException) -> None:
        """The same, with an error of rt."""
        self.fail_task(task, pack(error)[0])

    # Streams.

    def add_item(self, task: Task, packed: Packed, refs: tuple[int, ...], is_error: bool) -> None:
        """The generator has yielded."""
        stream = self.entries.get(task.returns[0])
        if stream is None or stream.items is None:
            for each in refs:
                self.release(each)
            return
        number = self.number()
        self.entries[number] = Entry()
        (self.set_error if is_error else self.set_value)(number, packed, refs)
        stream.items.append(number)
        task.yielded += 1
        self.note_yield(stream)

    def note_yield(self, stream: Entry) -> None:
        """Whoever waits for the next item looks again."""
        takers, stream.takers = stream.takers, []
        for taker in takers:
            taker()

    def allow_items(self, task: Optional[Task], all_of_them: bool = False) -> None:
        """The generator may yield as many more items as were taken; or all, when its end is awaited
        or nobody can take them."""
        if task is None or task.options.ahead_max < 0:
            return
        task.taken = -1 if all_of_them or task.taken < 0 else task.taken + 1
        if task.conn is None:
            return
        step = max(1, task.options.ahead_max // 8)  # Not a message for each.
        if task.taken < 0 or task.taken % step == 0:
            task.conn.post(("k", task.id, task.taken))

    def close_stream(self, task: Task, packed: Optional[Packed], refs: tuple[int, ...]) -> None:
        """The generator has ended; with an error, that is its last item."""
        number = task.returns[0]
        if packed is not None:
            self.add_item(task, packed, refs, True)
        stream = self.entries.get(number)
        if stream is not None:
            self.set_value(number, pack(None)[0], ())
            self.note_yield(stream)

    def is_next_ready(self, stream: ObjectRef, index: int, asked: int) -> bool:
        """Whether the item at `index` was yielded, or the generator has ended."""
        entry = self.entries[stream._id]
        return entry.is_ready or len(entry.items or ()) > index

    def next_of(
        self, stream: ObjectRef, index: int, timeout_s: Optional[float], asked: int = 0
    ) -> Optional[ObjectRef]:
        """The item at `index`, once it was yielded."""
        entry = self.entries[stream._id]
        items = entry.items
        assert items is not None
        end = None if timeout_s is None else time.monotonic() + timeout_s
        if not self.pump.run_until(lambda: len(items) > index or entry.is_ready, end):
            raise GetTimeoutError(f"nothing was yielded within {timeout_s:g} s")
        with self.lock:
            if len(items) <= index:
                return None
            return ObjectRef(self.take_item(entry, index), self)

    def await_end(self, stream: int) -> None:
        """The end of the generator is awaited: it yields without a bound from here on."""
        with self.lock:
            entry = self.entries.get(stream)
            if entry is not None:
                self.allow_items(entry.task, all_of_them=True)

    def take_item(self, stream: Entry, index: int) -> int:
        """The item with the stream's own handle of it: the stream keeps it no more."""
        assert stream.items is not None
        number, stream.items[index] = stream.items[index], 0
        if not number:
            raise ValueError("what a generator has yielded is taken once")
        self.allow_items(stream.task)
        return number

    # The rest of what the driver asks for.

    def create_actor(self, function: Function, call: PackedCall, options: dict[str, Any]) -> int:
        """Starts an actor."""
        self.drain_now()
        with self.lock:
            number = self.number()
            self.actors.create(number, function, call, options)
            return number

    def call_actor(self, actor: int, method: str, call: PackedCall, options: Options) -> list[int]:
        """Calls a method of an actor."""
        with self.lock:
            if self.dropped:
                self.drain()
            number, returns = self.number_call(options)
            self.add_task(self.actors.call(number, actor, method, call, options, returns))
            return returns

    def kill_actor(self, actor: int, no_restart: bool) -> None:
        """Ends its process."""
        with self.lock:
            self.actors.kill(actor, no_restart)
            self.pump.flush()

    def cancel(self, number: int, force: bool, recursive: bool) -> None:
        """Cancels the task that returns the value."""
        with self.lock:
            entry = self.entries.get(number)
            if entry is not None and entry.task is not None:
                if force and entry.task.actor is not None:
                    raise ValueError(
                        "cancel(): force=True is not supported for calls of actors: kill() ends one"
                    )
                self.cancel_task(entry.task, force, recursive)
                self.pump.flush()

    def cancel_task(self, task: Task, force: bool, recursive: bool) -> None:
        """Takes it from its queue, or has it interrupted, also once more. With the lock."""
        if task.id not in self.tasks:
            return
        task.cancelled = True
        if task.conn is None:
            self.fail_with(task, TaskCancelledError(f"{task.name} was cancelled"))
            if task.actor is not None:
                self.actors.arguments_came(task)  # Others waited behind it.
        elif force and task.actor is None:
            self.schedule.kill_conn(task.conn)
        else:
            task.conn.post(("x", task.id))
        if recursive:  # Afterwards: the task is interrupted before it gets their errors.
            for each in [one for one in self.tasks.values() if one.parent == task.id]:
                self.cancel_task(each, force, recursive)

    def find_actor(self, name: str, namespace: Optional[str]) -> dict[str, Any]:
        """A named actor of this session, or a detached one of the user."""
        with self.lock:
            try:
                found = self.actors.find(name, namespace)
                self.keep(found["id"])
                return found
            except ValueError:
                pass
        self.schedule.places.check_detached(name)
        with self.lock:
            actor = self.actors.adopt_detached(name)
            self.keep(actor.id)
        self.pump.run_until(lambda: "methods" in actor.options or actor.died is not None)
        if actor.died is not None and "methods" not in actor.options:
            raise ValueError(f"the actor {name!r} cannot be reached: {actor.died}")
        return self.actors.describe(actor)

    def ask(self, what: str) -> Any:
        """Asks the cluster for its nodes or its resources."""
        return self.schedule.places.ask(what)

    # What processes say.

    def take_message(self, conn: Conn, message: tuple[Any, ...]) -> None:
        """One message of a process."""
        SERVED[message[0]](self, conn, *message[1:])

    def lost(self, conn: Conn, why: str) -> None:
        """Its process has ended, or the connection to it."""
        self.schedule.lost(conn, why)

    def learn(self, function: Function) -> Function:
        """The one record of a function."""
        known = self.functions.get(function.digest)
        if known is not None:
            return known
        for each in function.refs:
            self.keep(each)
        self.functions[function.digest] = function
        return function

    def forget_in_child(self) -> None:
        """This is a copy of it, in a process that was forked: it closes its descriptors."""
        self.pump.forget_in_child()
        self._pages.close()

    def _want(self, numbers: list[int]) -> Callable[[], None]:
        return _nothing
