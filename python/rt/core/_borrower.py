"""The session as a process of it sees it: everything is asked of the driver, on one connection
(adr/0041)."""

from __future__ import annotations

import os
import pickle
import time
from collections import deque
from typing import Any, Callable, Optional

from rt.core._channel import Channel, Message
from rt.core._client import Client, _nothing
from rt.core._records import Entry, Function, Options
from rt.core._refs import ObjectRef
from rt.core._values import Packed, PackedCall
from rt.exceptions import GetTimeoutError, ObjectLostError

_FLUSH_S = 0.001  # What was posted is sent at the latest after this, if something is posted then.
_BATCH_MAX = 64


class Borrower(Client):
    """The client of a process that runs tasks or an actor. It is the port of its connection.

    References: `count` of an entry counts the handles of this process, and `_receipts` how often
    the driver has lent it. When no handle is left, the driver is told that number.
    """

    def __init__(self, channel: Channel, number: int, secret: str) -> None:
        super().__init__("")
        self.channel = channel
        self.secret = secret  # Of the session.
        self._next = number  # Its own numbers begin here.
        self._receipts: dict[int, int] = {}
        self._drops: list[tuple[int, int]] = []
        self._asked: set[int] = set()  # Values that the driver was asked for.
        self._known_ready: set[int] = set()
        self._known_functions: set[bytes] = set()
        self._answers: dict[int, tuple[bool, Any]] = {}
        self._flushed_at = 0.0
        self.taken: dict[int, int] = {}  # Items of generators that run here; -1: any number.
        self.on_taken: Callable[[], None] = _nothing
        self.work: deque[Message] = deque()  # Tasks and calls, in order.
        self.greeting: Optional[Message] = None
        self.functions: dict[bytes, tuple[str, bytes]] = {}
        self.early_cancels: list[int] = []  # That came before there was anyone to take them.
        self.on_cancel: Callable[[int], None] = self.early_cancels.append
        self.on_work: Callable[[], None] = _nothing  # There is more of it.
        with self.lock:
            self.pump.add(self)

    # The port.

    def fileno(self) -> int:
        """The socket's descriptor."""
        return self.channel.fileno()

    def on_readable(self) -> None:
        """Takes what the driver sent; ends the process when the driver is gone."""
        try:
            messages = self.channel.read()
        except (ConnectionError, OSError, EOFError):
            os._exit(0)
        for message in messages:
            kind = message[0]
            if kind in ("t", "c", "A"):
                self.work.append(message)
                self.on_work()
            else:
                _TAKEN[kind](self, *message[1:])

    def flush(self) -> bool:
        """Sends what was posted."""
        try:
            if self._drops:
                drops, self._drops = self._drops, []
                self.channel.post(("D", drops))
            return self.channel.flush()
        except (ConnectionError, OSError):
            os._exit(0)

    def post(self, message: Message, at_once: bool = False) -> None:
        """Sends a message soon, or at once."""
        with self.lock:
            count = self.channel.post(message)
            now = time.monotonic()
            if at_once or count >= _BATCH_MAX or now - self._flushed_at > _FLUSH_S:
                self._flushed_at = now
                self.pump.flush_port(self)
            else:
                self.pump.mark(self)

    def flush_now(self) -> None:
        """Sends everything that was posted."""
        with self.lock:
            if self.dropped:
                self.drain()
            self._flushed_at = time.monotonic()
            self.pump.flush_port(self)

    # References.

    def receive(self, number: int) -> None:
        """The driver has lent the reference; whoever calls this holds a handle of it."""
        entry = self.entries.get(number)
        if entry is None:
            entry = self.entries[number] = Entry(0)
        entry.count += 1
        self._receipts[number] = self._receipts.get(number, 0) + 1

    def let_go(self, numbers: tuple[int, ...]) -> None:
        """A handle of each is gone."""
        with self.lock:
            for each in numbers:
                self._let_go(each, 1)

    def _let_go(self, number: int, handles: int) -> None:
        entry = self.entries.get(number)
        if entry is None:
            return
        entry.count -= handles
        if entry.count > 0:
            return
        del self.entries[number]
        self._known_ready.discard(number)
        self._asked.discard(number)
        self._drops.append((number, self._receipts.pop(number, 1)))
        self.pump.mark(self)
        for each in entry.refs:
            self._let_go(each, 1)

    def _own(self, count: int = 1) -> list[int]:
        """New numbers, each with a handle."""
        found = []
        for _ in range(count):
            self._next += 1
            found.append(self._next)
            self.entries[self._next] = Entry()
            self._receipts[self._next] = 1
        return found

    # What the driver says.

    def _value(self, number: int, packed: Packed, is_error: bool, refs: tuple[int, ...]) -> None:
        for each in refs:
            self.receive(each)
        self._asked.discard(number)
        entry = self.entries.get(number)
        if entry is None or entry.is_ready:
            for each in refs:
                self._let_go(each, 1)
            return
        entry.packed, entry.refs = packed, refs
        entry.is_error, entry.is_ready = is_error, True
        self._known_ready.add(number)
        self.note_ready(number, entry)

    def _readied(self, request: int, numbers: list[int]) -> None:
        for each in numbers:
            if each in self.entries:
                self._known_ready.add(each)
                self.note_watches(each)
        if request:
            self._answers[request] = (True, None)

    def _function(self, digest: bytes, name: str, blob: bytes, refs: tuple[int, ...]) -> None:
        self.functions[digest] = (name, blob)
        self._known_functions.add(digest)
        for each in refs:
            self.receive(each)

    def _allow(self, number: int, taken: int) -> None:
        self.taken[number] = taken
        self.on_taken()

    def may_yield(self, number: int, yielded: int, ahead_max: int) -> bool:
        """Whether the generator may yield one more."""
        taken = self.taken.get(number, 0)
        return ahead_max < 0 or taken < 0 or yielded - taken < ahead_max

    def _give_back(self) -> None:
        numbers = []
        while True:
            try:
                message = self.work.popleft()
            except IndexError:
                break
            numbers.append(message[1])
        if numbers:
            self.post(("b", numbers), at_once=True)

    def _cancel(self, number: int) -> None:
        self.on_cancel(number)

    def _answer(self, request: int, is_good: bool, value: Any) -> None:
        self._answers[request] = (is_good, value)

    def _greeted(self, *message: Any) -> None:
        self.greeting = message
        self.channel.is_local = message[-1]  # Daemons between two nodes carry no descriptors.

    # What user code asks for.

    def is_known_ready(self, number: int) -> bool:
        """Whether the value is ready, as far as is known here."""
        return number in self._known_ready

    def _want(self, numbers: list[int]) -> Callable[[], None]:
        fresh = [each for each in numbers if each not in self._asked]
        if fresh:
            self._asked.update(fresh)
            self.post(("G", fresh), at_once=True)

        def done() -> None:
            left = [each for each in fresh if each in self._asked]
            if left:
                self._asked.difference_update(left)
                self.post(("u", left), at_once=True)

        return done

    def wait(
        self, refs: list[ObjectRef], num_returns: int, timeout_s: Optional[float]
    ) -> tuple[list[ObjectRef], list[ObjectRef]]:
        """As in the driver; the driver is asked which are ready."""
        with self.lock:
            numbers = [each._id for each in refs if type(each) is ObjectRef]
            unknown = [each for each in numbers if each not in self._known_ready]
            request = self.number()
            if unknown:
                self.post(("w", request, unknown), at_once=True)
        if unknown:
            self.pump.run_until(lambda: request in self._answers)
            with self.lock:
                del self._answers[request]
        return super().wait(refs, num_returns, timeout_s)

    def _want_ready(self, numbers: list[int]) -> Callable[[], None]:
        self.post(("i", True), at_once=True)
        return lambda: self.post(("i", False), at_once=True)

    def send_function(self, function: Function) -> None:
        """Sends the function, if the driver does not have it from here."""
        if function.digest not in self._known_functions:
            self._known_functions.add(function.digest)
            self.functions[function.digest] = (function.name, function.blob)  # It may run here.
            self.channel.post(("F", function.name, function.blob, function.refs))

    def submit(self, function: Function, call: PackedCall, options: Options) -> list[int]:
        """Submits a task, through the driver."""
        with self.lock:
            number, returns = self.number_call(options)
            self.send_function(function)
            self.post(("s", number, function.digest, call, options, returns))
            return returns

    def number(self) -> int:
        """A new number. With the lock."""
        self._next += 1
        return self._next

    def store(self, packed: Packed, refs: tuple[int, ...]) -> int:
        """Keeps a value, in the driver and here."""
        with self.lock:
            (number,) = self._own()
            entry = self.entries[number]
            entry.packed, entry.is_ready = packed, True
            self._known_ready.add(number)
            for each in refs:
                self.entries[each].count += 1
            entry.refs = refs
            self.post(("p", number, packed, refs))
            return number

    def create_actor(self, function: Function, call: PackedCall, options: dict[str, Any]) -> int:
        """Starts an actor, through the driver. Raises ValueError when its name is taken."""
        with self.lock:
            (number,) = self._own()
            self.send_function(function)
            self.post(("a", number, function.digest, call, options))
        if options.get("name"):
            try:
                self._request("made", (number,))
            except ValueError:
                self.let_go((number,))
                raise
        return number

    def call_actor(self, actor: int, method: str, call: PackedCall, options: Options) -> list[int]:
        """Calls a method, through the driver."""
        with self.lock:
            number, returns = self.number_call(options)
            self.post(("C", number, actor, method, call, options, returns))
            return returns

    def kill_actor(self, actor: int, no_restart: bool) -> None:
        """Ends the process of an actor."""
        self.post(("K", actor, no_restart), at_once=True)

    def cancel(self, number: int, force: bool, recursive: bool) -> None:
        """Cancels the task that returns the value."""
        self.post(("X", number, force, recursive), at_once=True)

    def _request(self, what: str, args: tuple[Any, ...], end: Optional[float] = None) -> Any:
        return self._answer_to(self._ask(what, args), end)

    def _ask(self, what: str, args: tuple[Any, ...]) -> int:
        with self.lock:
            request = self.number()
            self.post(("N", request, what, args), at_once=True)
            return request

    def _answer_to(self, request: int, end: Optional[float]) -> Any:
        if not self.pump.run_until(lambda: request in self._answers, end):
            raise GetTimeoutError("the driver did not answer in time")
        with self.lock:
            is_good, value = self._answers.pop(request)
        if not is_good:
            raise pickle.loads(value)
        return value

    def find_actor(self, name: str, namespace: Optional[str]) -> dict[str, Any]:
        """A named actor of the session."""
        found: dict[str, Any] = self._request("actor", (name, namespace))
        with self.lock:
            self.receive(found["id"])
        return found

    def ask(self, what: str) -> Any:
        """Asks the cluster, through the driver, for its nodes or its resources."""
        return self._request(what, ())

    def ask_value(self, number: int) -> Packed:
        """The bytes of a value that the keeper of the node has no more."""
        try:
            found: Packed = self._request("value", (number,))
        except ValueError as error:
            raise ObjectLostError(str(error)) from error
        return found

    def find_self(self) -> dict[str, Any]:
        """What a handle of the actor that runs here is made of."""
        found: dict[str, Any] = self._request("self", ())
        with self.lock:
            self.receive(found["id"])
        return found

    def await_end(self, stream: int) -> None:
        """The end of the generator is awaited, which the driver tells it."""
        self.post(("k", stream), at_once=True)

    def ask_next(self, stream: ObjectRef, index: int) -> int:
        """The number of the request."""
        return self._ask("next", (stream._id, index))

    def is_next_ready(self, stream: ObjectRef, index: int, asked: int) -> bool:
        """Whether the driver has answered."""
        return asked in self._answers

    def next_of(
        self, stream: ObjectRef, index: int, timeout_s: Optional[float], asked: int = 0
    ) -> Optional[ObjectRef]:
        """The item at `index` of a generator, once it was yielded."""
        end = None if timeout_s is None else time.monotonic() + timeout_s
        with self.lock:
            self.post(("i", True), at_once=True)
        try:
            number = self._answer_to(asked or self.ask_next(stream, index), end)
        finally:
            self.post(("i", False), at_once=True)
        if number is None:
            return None
        with self.lock:
            self.receive(number)
        return ObjectRef(number, self)


_TAKEN: dict[str, Callable[..., None]] = {
    "v": Borrower._value, "r": Borrower._readied, "f": Borrower._function,
    "k": Borrower._allow, "g": Borrower._give_back, "x": Borrower._cancel, "n": Borrower._answer,
    "hello": Borrower._greeted,
}  # fmt: skip
