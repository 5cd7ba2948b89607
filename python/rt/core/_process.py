"""A process of an executor: it runs tasks one after another, or becomes an actor."""

from __future__ import annotations

import inspect
import os
import pickle
import signal
import socket
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Iterator
from typing import Any, NoReturn, Optional, Union

from rt import _sources
from rt._warm import _reseed
from rt.core import _context
from rt.core._actor_process import ActorProcess
from rt.core._borrower import Borrower
from rt.core._channel import Channel, Message
from rt.core._current import set_client
from rt.core._output import catch_output
from rt.core._records import STREAM
from rt.core._task_errors import pack_error
from rt.core._values import Packed, Result, pack, unpack, unpack_call
from rt.exceptions import TaskError

_LONG_S = 0.005  # While a task runs for longer, another thread takes the driver's messages.
_LOOK_S = 0.01
_MISSED_MAX = 256
_REST_S = 1.0  # The other thread sleeps after so long without a task.


class Process:
    """The loop of one process."""

    def __init__(self, borrower: Borrower) -> None:
        self.borrower = borrower
        self.functions: dict[bytes, Any] = {}
        self.current = 0  # The task that runs.
        self._began_at = 0.0
        self.is_copy = False  # The process was forked by code of the user.
        self._handler = self.on_interrupt
        self._is_due = False  # An interrupt could not be raised where it came.
        self._busy = threading.Event()
        self.actor: Optional[ActorProcess] = None
        self._cancelled: Optional[int] = None
        # Cancelled between their queue and their begin, or after their end.
        self._missed: deque[int] = deque(maxlen=_MISSED_MAX)
        borrower.on_wake = self._on_wake
        with borrower.lock:
            borrower.on_cancel = self._cancel
            early, borrower.early_cancels = borrower.early_cancels, []
        for each in early:
            self._cancel(each)
        threading.Thread(target=self._look, name="rt-messages", daemon=True).start()

    def run(self) -> NoReturn:
        """Runs what the driver sends, until it is gone."""
        borrower = self.borrower
        work = borrower.work
        while True:
            if not work:
                borrower.flush_now()
                borrower.pump.run_until(lambda: bool(work))
            try:
                message = work.popleft()
            except IndexError:
                continue  # Given back.
            if message[0] == "t":
                self._run_task(*message[1:])
                if not work:
                    borrower.flush_now()
            elif message[0] == "A":
                self.become(message)

    def become(self, message: Message) -> NoReturn:
        """The process is an actor from here on."""
        self.actor = ActorProcess(self, message)
        self.actor.run()

    def begin(self, number: int) -> None:
        """A task begins in the main thread."""
        self.current = number
        self._began_at = time.monotonic()
        if not self._busy.is_set():
            self._busy.set()

    def end(self) -> None:
        """It has ended."""
        self.current = 0

    def function(self, digest: bytes) -> Any:
        """The function or class. Raises what unpickling raises."""
        found = self.functions.get(digest)
        if found is None:
            found = self.functions[digest] = pickle.loads(self.borrower.functions[digest][1])
        return found

    def _run_task(
        self, number: int, digest: bytes, packed: Optional[Packed], values: list[Any],
        num_returns: int, retry_on: Union[bool, bytes], is_exact: bool, name: str, ahead_max: int,
    ) -> None:  # fmt: skip
        borrower = self.borrower
        if is_exact:
            borrower.flush_now()
        self.begin(number)
        shown = name or borrower.functions[digest][0]
        _context.enter(number, None, shown, borrower.functions[digest][0])
        began = time.perf_counter()
        held = self.hold(values)
        try:
            function = self.function(digest)
            args, kwargs = self.arguments(packed, values)
            result = function(*args, **kwargs)
            self._check_process()
            results = self.results(number, result, num_returns, ahead_max)
            self.end()
        except BaseException as error:
            self.end()
            self._check_process()
            self.post_error(number, shown, error, began, retry_on)
        else:
            borrower.post(("d", number, results, time.perf_counter() - began))
        args = kwargs = result = None  # type: ignore[assignment]
        _context.leave(number)
        if held:
            borrower.let_go(held)

    def hold(self, values: list[Any]) -> tuple[int, ...]:
        """Holds the references among the arguments as long as the task runs."""
        refs: tuple[int, ...] = values.pop()
        for _, _, more in values:
            refs += more
        if refs:
            with self.borrower.lock:
                for each in refs:
                    self.borrower.receive(each)
        return refs

    def arguments(
        self, packed: Optional[Packed], values: list[Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """(args, kwargs) of a call. `values` is emptied: the message, which lives until the next
        one, must not keep large values."""
        if self.current in self._missed:
            raise KeyboardInterrupt
        found = unpack_call(packed, [(place, unpack(value)) for place, value, _ in values])
        values.clear()
        return found

    def results(
        self, number: int, result: Any, num_returns: int, ahead_max: int = -1
    ) -> list[Result]:
        """What a call returned, packed; a generator's items are sent as they come, at most
        `ahead_max` of them before they are taken."""
        if num_returns == 1 and not inspect.isgenerator(result):
            return [pack(result)]
        if num_returns == 0:
            return []
        if num_returns == STREAM:
            try:
                for count, item in enumerate(result, 1):
                    packed, refs = pack(item)
                    self.borrower.post(("y", number, packed, refs), at_once=True)
                    self._await_takers(number, count, ahead_max)
            finally:
                self.borrower.taken.pop(number, None)
            return []
        if inspect.isgenerator(result):
            return _first_items(result, num_returns)
        items = list(result) if hasattr(result, "__iter__") else [result]
        if len(items) != num_returns:
            raise ValueError(
                f"num_returns={num_returns}, but the task returned {len(items)} values"
            )
        return [pack(item) for item in items]

    def _await_takers(self, number: int, count: int, ahead_max: int) -> None:
        """Waits until the generator may yield once more; its slot may run another task."""
        borrower = self.borrower
        if borrower.may_yield(number, count, ahead_max):
            return
        borrower.post(("i", True), at_once=True)
        try:
            borrower.pump.run_until(lambda: borrower.may_yield(number, count, ahead_max))
        finally:
            borrower.post(("i", False), at_once=True)

    def post_error(
        self,
        number: int,
        name: str,
        error: BaseException,
        began: float,
        retry_on: Union[bool, bytes],
    ) -> None:
        """Reports that a call raised."""
        results: list[Result] = []
        if isinstance(error, _Interrupted):
            results, error = error.results, error.error
        packed, refs = pack_error(name, error)
        seconds = time.perf_counter() - began
        is_retried = _is_retried(error, retry_on)
        self.borrower.post(("e", number, packed, refs, seconds, is_retried, results))

    def _cancel(self, number: int) -> None:
        if self.actor is not None:
            self.actor.cancel(number)
            return
        if number == self.current:
            _context.cancel(number)
        if number == self.current:
            self._cancelled = number
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        else:
            for each in list(self.borrower.work):
                if each[1] == number:
                    self.borrower.work.remove(each)
                    error = KeyboardInterrupt()
                    self.post_error(number, "task", error, time.perf_counter(), False)
                    return
            self._missed.append(number)

    def listen(self) -> None:
        """Takes SIGINT."""
        signal.signal(signal.SIGINT, self._handler)

    def forget_in_child(self) -> None:
        """After a fork by the user's code: the connection is the parent's alone."""
        self.is_copy = True
        self.borrower.pump.forget_in_child()
        set_client(None)

    def _check_process(self) -> None:
        """After the user's code: it may have forked, or replaced the handler of SIGINT."""
        if self.is_copy:  # The child has come back from the function, which is the parent's.
            os._exit(0)
        if signal.getsignal(signal.SIGINT) is not self._handler:
            self.listen()

    def on_interrupt(self, *_: Any) -> None:
        """SIGINT: the running task is cancelled, if it still runs."""
        if self._cancelled is None or self._cancelled != self.current:
            return
        if self.borrower.lock._is_owned():  # type: ignore[attr-defined]
            # In the middle of a message: at the end of rt.get, or a moment later.
            self._is_due = True
            thread = threading.main_thread().ident or 0
            threading.Timer(_LOOK_S, signal.pthread_kill, (thread, signal.SIGINT)).start()
            return
        self._cancelled = None
        raise KeyboardInterrupt

    def _on_wake(self) -> None:
        if self._is_due and threading.current_thread() is threading.main_thread():
            self._is_due = False
            self.on_interrupt()

    def _look(self) -> None:
        """Takes messages while a long task runs: it may be cancelled, or others given back."""
        borrower = self.borrower
        while True:
            self._busy.wait()
            time.sleep(_LOOK_S)
            now = time.monotonic()
            if not self.current:
                if now - self._began_at > _REST_S:
                    self._busy.clear()
                continue
            if now - self._began_at > _LONG_S:
                borrower.flush_now()
                borrower.pump.turn(0.0)


class _Interrupted(BaseException):
    """A generator raised `error` after it had yielded `results`."""

    def __init__(self, results: list[Result], error: BaseException) -> None:
        super().__init__()
        self.results = results
        self.error = error


def _first_items(generator: Iterator[Any], count: int) -> list[Result]:
    """As many items as the call returns. Those that were yielded before an error are kept."""
    found: list[Result] = []
    try:
        for item in generator:
            found.append(pack(item))
            if len(found) == count:
                return found
        raise ValueError(f"num_returns={count}, but the task yielded {len(found)} values")
    except Exception as error:
        raise _Interrupted(found, error) from None


def _is_retried(error: BaseException, retry_on: Union[bool, bytes]) -> bool:
    if not isinstance(error, Exception) or not retry_on:
        return False
    if retry_on is True:
        return True
    cause = error.cause if isinstance(error, TaskError) else error
    return isinstance(cause, pickle.loads(retry_on))  # type: ignore[arg-type]


def run_process(sock: socket.socket, number: int, secret: str) -> NoReturn:
    """Runs in the child of an executor; it never returns."""
    try:
        _reseed()
        borrower = Borrower(Channel(sock), number, secret)
        set_client(borrower)
        borrower.pump.run_until(lambda: borrower.greeting is not None)
        assert borrower.greeting is not None
        session, path, sources, namespace, node, _ = borrower.greeting
        borrower.session = session
        _context.begin(session, namespace, node)
        sys.path.extend(each for each in path if each not in sys.path)
        _sources.install(sources)
        borrower.post(("h", os.getpid()), at_once=True)
        catch_output(borrower)
        process = Process(borrower)
        os.register_at_fork(after_in_child=process.forget_in_child)
        process.listen()
        process.run()
    except BaseException:
        traceback.print_exc()
    os._exit(1)
