"""What a process that uses tasks can do, in the driver (rt/core/_hub.py) and in a task
(_borrower.py)."""

from __future__ import annotations

import functools
import threading
import time
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any, Callable, Optional

from rt.core._pump import Pump
from rt.core._records import STREAM, Entry, Function, Options
from rt.core._refs import ObjectRef
from rt.core._values import Packed, PackedCall, unpack
from rt.exceptions import GetTimeoutError, ObjectLostError, TaskError


def _dropped(number: int) -> ObjectLostError:
    return ObjectLostError(
        f"the value {number:x} has been dropped: its session has ended, or a __del__ uses a "
        "reference that the garbage collector took together with its object"
    )


if TYPE_CHECKING:  # Only futures need it, and its import takes long.
    import concurrent.futures
    import queue


class _Countdown:
    """Counts values that are not ready; an error ends the wait at once."""

    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        self.left = left

    def __call__(self, _number: int, entry: Entry) -> None:
        self.left -= 1
        if entry.is_error:
            self.left = 0

    def is_over(self) -> bool:
        """Whether all are ready, or one is an error."""
        return self.left <= 0


class Client:
    """Values by number, and how to wait for them. The lock of `pump` guards all of it."""

    def __init__(self, session: str) -> None:
        self.session = session
        self.pump = Pump()
        self.lock = self.pump.lock
        self.entries: dict[int, Entry] = {}
        self.dropped: deque[int] = deque()  # Handles that this process let go of.
        self._later: Optional[queue.SimpleQueue[Callable[[], None]]] = None  # Futures to end.
        self.on_wake: Callable[[], None] = _nothing  # A thread has waited in `take`.
        self._watches: list[_Watch] = []  # Of the calls of `wait` in progress.
        # What the newest one returned: loops call it again with that list.
        self._last_rest: Callable[[], Optional[_Rest]] = _no_rest

    # What the two kinds do differently.

    def submit(self, function: Function, call: PackedCall, options: Options) -> list[int]:
        """Submits a task. The numbers of what it returns, each with one handle counted."""
        raise NotImplementedError

    def store(self, packed: Packed, refs: tuple[int, ...]) -> int:
        """Keeps a value. Its number, with one handle counted."""
        raise NotImplementedError

    def create_actor(self, function: Function, call: PackedCall, options: dict[str, Any]) -> int:
        """Starts an actor. Its number, with one handle counted."""
        raise NotImplementedError

    def call_actor(self, actor: int, method: str, call: PackedCall, options: Options) -> list[int]:
        """Calls a method. The numbers of what it returns, each with one handle counted."""
        raise NotImplementedError

    def kill_actor(self, actor: int, no_restart: bool) -> None:
        """Ends the process of an actor."""
        raise NotImplementedError

    def cancel(self, number: int, force: bool, recursive: bool) -> None:
        """Cancels the task that returns the value, if it has not ended."""
        raise NotImplementedError

    def find_actor(self, name: str, namespace: Optional[str]) -> dict[str, Any]:
        """{"id", "methods", "class"} of a named actor, with one handle counted. ValueError:
        none."""
        raise NotImplementedError

    def ask(self, what: str) -> Any:
        """ "nodes", "cluster_resources" or "available_resources"."""
        raise NotImplementedError

    def task_of(self, number: int) -> int:
        """The task that returns the value; its own number if that is not known."""
        entry = self.entries.get(number)
        return entry.task.id if entry is not None and entry.task is not None else number

    def next_of(
        self, stream: ObjectRef, index: int, timeout_s: Optional[float], asked: int = 0
    ) -> Optional[ObjectRef]:
        """What a generator yielded at `index`, once it has; None after its end. asked: what
        ask_next returned, if it was called for this item."""
        raise NotImplementedError

    def ask_next(self, stream: ObjectRef, index: int) -> int:
        """Asks for the item at `index`. With the lock."""
        return 0

    def is_next_ready(self, stream: ObjectRef, index: int, asked: int) -> bool:
        """Whether the generator has yielded the item at `index`, or has ended. With the lock."""
        raise NotImplementedError

    def await_end(self, stream: int) -> None:
        """The end of a generator is awaited: it must not wait until its items are taken."""
        raise NotImplementedError

    def _let_go(self, number: int, handles: int) -> None:
        """Handles of this process are gone. With the lock."""
        raise NotImplementedError

    def _want(self, numbers: list[int]) -> Callable[[], None]:
        """Something waits for these values, none of which is ready. What is returned is called when
        it waits no more. With the lock."""
        return _nothing

    def number(self) -> int:
        """A new number. With the lock."""
        raise NotImplementedError

    def _own(self, count: int) -> list[int]:
        """New numbers of values, each with one handle counted once they exist. With the lock."""
        raise NotImplementedError

    # What they have in common.

    def number_call(self, options: Options) -> tuple[int, list[int]]:
        """(the number of a call, the numbers of what it returns: the first of them is the call's
        own). With the lock."""
        returns = self._own(1 if options.num_returns == STREAM else options.num_returns)
        return (returns[0] if returns else self.number()), returns

    def drain(self) -> None:
        """Counts the handles that are gone. With the lock."""
        dropped = self.dropped
        while dropped:
            try:
                number = dropped.popleft()
            except IndexError:
                return
            self._let_go(number, 1)

    def drain_now(self) -> None:
        """The same, without the lock."""
        if self.dropped:
            with self.lock:
                self.drain()

    def adopt(self, number: int) -> ObjectRef:
        """Another handle of a value that this process knows."""
        with self.lock:
            entry = self.entries.get(number)
            if entry is None:
                raise ValueError(
                    f"the value {number:x} is not known here: its reference is of another session"
                )
            entry.count += 1
        return ObjectRef(number, self)

    def keep_for_ever(self, number: int) -> None:
        """The reference was pickled where it cannot be counted."""
        with self.lock:
            entry = self.entries.get(number)
            if entry is not None:
                entry.count += 1

    def put(self, packed: Packed, refs: tuple[int, ...]) -> ObjectRef:
        """Stores a value."""
        return ObjectRef(self.store(packed, refs), self)

    def take(self, numbers: list[int], timeout_s: Optional[float]) -> list[Any]:
        """The values, in this order. Raises the first error, or GetTimeoutError."""
        with self.lock:
            if self.dropped:
                self.drain()
            found = self._ready(numbers)
            if found is None:
                missing = [each for each in numbers if not self.entries[each].is_ready]
                over = _Countdown(len(missing))
                for each in missing:
                    self.entries[each].wait(over)
                done = self._want(missing)
        if found is None:
            end = None if timeout_s is None else time.monotonic() + timeout_s
            try:
                is_over = self.pump.run_until(over.is_over, end)
                self.on_wake()
            finally:
                with self.lock:
                    done()
                    if not over.is_over():
                        self._forget_waiter(missing, over)
            if not is_over:
                left = sum(not self.entries[each].is_ready for each in numbers)
                raise GetTimeoutError(
                    f"{left} of {len(numbers)} values are not ready after {timeout_s:g} s"
                )
            with self.lock:
                found = self._ready(numbers)
        assert found is not None
        return [self._unpacked(*each) for each in found]

    def _forget_waiter(self, numbers: list[int], waiter: Callable[[int, Entry], None]) -> None:
        """Nobody waits with it any more."""
        for each in numbers:
            entry = self.entries.get(each)
            if entry is not None and entry.waiters and waiter in entry.waiters:
                entry.waiters.remove(waiter)

    def _ready(self, numbers: list[int]) -> Optional[list[tuple[Packed, bool]]]:
        """The packed values if all are ready; or the first error alone. With the lock."""
        entries, found = self.entries, []
        is_whole = True
        for each in numbers:
            entry = entries.get(each)
            if entry is None:
                raise _dropped(each)
            if not entry.is_ready:
                is_whole = False
            elif entry.is_error:
                return [(entry.packed, True)]
            else:
                found.append((entry.packed, False))
        return found if is_whole else None

    def _unpacked(self, packed: Packed, is_error: bool) -> Any:
        value = unpack(packed)
        if not is_error:
            return value
        if isinstance(value, TaskError):
            value = value.as_user_error()
        raise value

    def wait(
        self, refs: list[ObjectRef], num_returns: int, timeout_s: Optional[float]
    ) -> tuple[list[ObjectRef], list[ObjectRef]]:
        """(at most num_returns that are ready, the others), both in the order of `refs`."""
        if not isinstance(refs, _Rest) and any(type(each) is not ObjectRef for each in refs):
            return self._wait_mixed(refs, num_returns, timeout_s)
        with self.lock:
            if self.dropped:
                self.drain()
            watch = self._watch_of(refs)
            is_enough = len(watch.ready) >= num_returns
            done: Optional[Callable[[], None]] = None
            if not is_enough and timeout_s != 0:
                self._watches.append(watch)
                done = self._want_ready([each for each in watch.numbers if each not in watch.ready])
        if done is not None:
            end = None if timeout_s is None else time.monotonic() + timeout_s
            try:
                self.pump.run_until(lambda: len(watch.ready) >= num_returns, end)
            finally:
                with self.lock:
                    done()
                    self._watches.remove(watch)
        elif not is_enough:
            self.pump.turn(0.0)
        with self.lock:
            return self._split(watch, refs, num_returns)

    def _wait_mixed(
        self, given: list[Any], count: int, timeout_s: Optional[float]
    ) -> tuple[list[Any], list[Any]]:
        """The same where some are generators, which are ready when their next item is."""

        def ready() -> list[Any]:
            return [each for each in given if self._has_come(each)]

        end = None if timeout_s is None else time.monotonic() + timeout_s
        with self.lock:
            numbers = [each._id for each in given if type(each) is ObjectRef]
            done = self._want_ready([each for each in numbers if not self.is_known_ready(each)])
        try:
            self.pump.run_until(lambda: len(ready()) >= count, end)
        finally:
            with self.lock:
                done()
        with self.lock:
            found = ready()[:count]
        return found, [each for each in given if not any(each is one for one in found)]

    def _has_come(self, each: Any) -> bool:
        if type(each) is ObjectRef:
            return self.is_known_ready(each._id)
        found: bool = each._is_next_ready()
        return found

    def _watch_of(self, refs: list[ObjectRef]) -> _Watch:
        """What is ready of these; quick for the list that `wait` returned last."""
        if isinstance(refs, _Rest) and refs.watch is not None:
            return refs.watch
        numbers = {each._id for each in refs}
        if len(numbers) != len(refs):
            raise ValueError("wait() needs references that differ from each other")
        return _Watch(numbers, {each for each in numbers if self.is_known_ready(each)})

    def is_known_ready(self, number: int) -> bool:
        """Whether the value is ready, as far as is known here. With the lock."""
        entry = self.entries.get(number)
        if entry is None:
            raise _dropped(number)
        return entry.is_ready

    def _split(
        self, watch: _Watch, refs: list[ObjectRef], count: int
    ) -> tuple[list[ObjectRef], list[ObjectRef]]:
        found: list[int] = []
        if watch.ready:
            for index, each in enumerate(refs):
                if each._id in watch.ready:
                    found.append(index)
                    if len(found) == count:
                        break
        ready = [refs[index] for index in found]
        if len(found) == 1:  # As in a loop that takes one at a time: the list is copied once.
            kept = _Rest(refs)
            del kept[found[0]]
        else:
            taken = set(found)
            kept = _Rest(each for index, each in enumerate(refs) if index not in taken)
        for each in ready:
            watch.numbers.discard(each._id)
            watch.ready.discard(each._id)
        for old in (self._last_rest(), refs):
            if isinstance(old, _Rest):
                old.watch = None  # It changes with the newer list.
        kept.watch = watch
        self._last_rest = weakref.ref(kept)
        return ready, kept

    def note_ready(self, number: int, entry: Entry) -> None:
        """The entry has become ready: tells those who wait for it. With the lock."""
        waiters, entry.waiters = entry.waiters, None
        if waiters is not None:
            for waiter in waiters:
                waiter(number, entry)
        self.note_watches(number)

    def note_watches(self, number: int) -> None:
        """Tells calls of `wait` that it is ready. With the lock."""
        for watch in self._watches:
            if number in watch.numbers:
                watch.ready.add(number)
        last = self._last_rest()
        if last is not None and last.watch is not None and number in last.watch.numbers:
            last.watch.ready.add(number)

    def _want_ready(self, numbers: list[int]) -> Callable[[], None]:
        """As _want, without the values."""
        return self._want(numbers)

    def when_ready(self, ref: ObjectRef, future: concurrent.futures.Future[Any]) -> None:
        """Ends the future with the value or the error of the reference, which is kept until
        then."""
        state: list[Any] = [ref]

        def ready(_number: int, entry: Entry) -> None:
            state.clear()
            packed, is_error = entry.packed, entry.is_error
            # Unpickling and callbacks are the user's code: not under the lock.
            later.put(lambda: _finish(self, future, packed, is_error))

        with self.lock:
            later = self._resolver()
            entry = self.entries[ref._id]
            if entry.is_ready:
                ready(ref._id, entry)
                return
            entry.wait(ready)
            self._want([ref._id])
            self.pump.flush()

    def _resolver(self) -> queue.SimpleQueue[Callable[[], None]]:
        """What its thread does next. With the lock."""
        if self._later is None:
            import queue

            self._later = queue.SimpleQueue()
            threading.Thread(
                target=_resolve, args=(self._later,), name="rt-futures", daemon=True
            ).start()
        return self._later


class _Watch:
    """The references that `wait` was called with, and which of them are ready."""

    __slots__ = ("numbers", "ready")

    def __init__(self, numbers: set[int], ready: set[int]) -> None:
        self.numbers = numbers
        self.ready = ready


class _Rest(list):  # type: ignore[type-arg]
    """A list that `wait` returned. As long as it is not changed, `wait` knows what is in it."""

    watch: Optional[_Watch] = None

    def __reduce__(self) -> Any:
        """As a plain list: what is known here is not known elsewhere."""
        return (list, (list(self),))


def _forgetting(name: str) -> Any:
    method = getattr(list, name)

    def changed(self: _Rest, *args: Any, **kwargs: Any) -> Any:
        self.watch = None
        return method(self, *args, **kwargs)

    return functools.wraps(method)(changed)


for _name in (
    "__setitem__", "__delitem__", "__iadd__", "__imul__", "append", "clear", "extend", "insert",
    "pop", "remove", "reverse", "sort",
):  # fmt: skip
    setattr(_Rest, _name, _forgetting(_name))


def _no_rest() -> Optional[_Rest]:
    return None


def _nothing() -> None:
    pass


def _finish(
    client: Client, future: concurrent.futures.Future[Any], packed: Packed, is_error: bool
) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(client._unpacked(packed, is_error))
    except BaseException as error:
        future.set_exception(error)


def _resolve(queued: queue.SimpleQueue[Callable[[], None]]) -> None:
    """The thread that ends futures. It is no thread of concurrent.futures, whose pools refuse work
    at the end of a script, when the session ends the futures that are left."""
    while True:
        queued.get()()
