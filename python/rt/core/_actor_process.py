"""A process that is an actor: one call after another, in threads, or in an asyncio loop."""

from __future__ import annotations

import atexit
import contextlib
import inspect
import os
import signal
import sys
import threading
import time
import types
from typing import TYPE_CHECKING, Any, NoReturn, Optional

from rt.core import _context
from rt.core._channel import Message
from rt.core._kept import Kept
from rt.core._records import STREAM, has_coroutines
from rt.core._task_errors import pack_error
from rt.core._values import Result, pack

if TYPE_CHECKING:  # Imported by actors with coroutines alone: it is large.
    import asyncio

Process = Any  # rt.core._process.Process, which imports this module.

_ASYNC_CALLS = 1000  # Of an actor with coroutines, at a time; as in Ray.


class ExitActor(BaseException):
    """Raised by exit_actor()."""


class ActorProcess:
    """The actor of a process."""

    def __init__(self, process: Process, message: Message) -> None:
        self._process = process
        self._borrower = process.borrower
        self._message = message
        self._object: Any = None
        self._id = int(message[1])
        self._name = ""
        self._tasks: dict[int, Any] = {}  # Coroutines that run.
        self.is_leaving = False  # exit_actor() was called.
        self._running: set[int] = set()  # Calls that do, without coroutines.
        self._loop: Optional[asyncio.AbstractEventLoop] = None

    def run(self) -> NoReturn:
        """Makes the object, and runs the calls until the driver is gone."""
        global _actor
        _actor = self
        _, _, digest, packed, values, options = self._message
        self._name = self._borrower.functions[digest][0]
        _context.begin_actor(options.get("name"), int(options.get("restarts") or 0))
        _context.enter(0, self._id, f"{self._name}.__init__", f"{self._name}.__init__")
        self._process.hold(values)  # Its arguments may be kept in the object.
        concurrency = options.get("max_concurrency")
        self._process.begin(self._id)  # So that the end of the driver is seen.
        try:
            made = self._process.function(digest)
            is_async = has_coroutines(made)
            if is_async:
                import asyncio

                self._loop = asyncio.new_event_loop()
                asyncio.set_event_loop(self._loop)
            args, kwargs = self._process.arguments(packed, values)
            if self._loop is None:
                self._object = made(*args, **kwargs)
            else:
                self._object = self._loop.run_until_complete(_make(made, args, kwargs))
            args = kwargs = None  # type: ignore[assignment]
            self._process.end()
        except ExitActor:
            self._exit()
        except BaseException as error:
            self._process.end()
            self._borrower.post(("m", pack_error(f"{self._name}.__init__", error)[0]), at_once=True)
            self._wait_for_end()
        self._borrower.post(("m", None), at_once=True)
        if self._loop is not None:
            self._run_loop(self._loop, int(concurrency or _ASYNC_CALLS))
        elif concurrency and int(concurrency) > 1:
            self._run_threads(int(concurrency))
        self._run_calls()

    def _wait_for_end(self) -> NoReturn:
        while True:  # The driver closes the connection.
            self._borrower.pump.run_until(lambda: False)

    def _take(self) -> Message:
        borrower = self._borrower
        work = borrower.work
        while True:
            if not work:
                borrower.flush_now()
                borrower.pump.run_until(lambda: bool(work))
            try:
                return work.popleft()
            except IndexError:
                continue

    def _run_calls(self) -> NoReturn:
        process, work = self._process, self._borrower.work
        while True:
            message = self._take()
            process.begin(int(message[1]))
            self._call(message)
            process.end()
            if not work:
                self._borrower.flush_now()

    def _run_threads(self, count: int) -> NoReturn:
        from concurrent.futures import ThreadPoolExecutor

        threads = ThreadPoolExecutor(count, "rt-actor")
        while True:
            threads.submit(self._call_in_thread, self._take())

    def _call_in_thread(self, message: Message) -> None:
        self._call(message)
        self._borrower.flush_now()

    def _call(self, message: Message) -> None:
        _, number, method, packed, values, num_returns, retry_on, *ahead = message
        name = f"{self._name}.{method}"
        self._running.add(number)
        _context.enter(number, self._id, name, name)
        began = time.perf_counter()
        held = self._process.hold(values)
        try:
            bound = self._method(method)
            args, kwargs = self._process.arguments(packed, values)
            result = bound(*args, **kwargs)
            self._check_process()
            results = self._process.results(number, result, num_returns, *ahead)
        except ExitActor:
            self._exit()
        except SystemExit as error:
            self._crash(error)
        except BaseException as error:
            self._process.end()
            self._process.post_error(number, f"{self._name}.{method}", error, began, retry_on)
        else:
            self._borrower.post(("d", number, results, time.perf_counter() - began))
        args = kwargs = result = None  # type: ignore[assignment]
        _context.leave(number)
        self._running.discard(number)
        if held:
            self._borrower.let_go(held)

    def _check_process(self) -> None:
        """After a method: it may have caught what exit_actor raises, or have forked."""
        if self._process.is_copy:
            os._exit(0)
        if self.is_leaving:
            raise ExitActor

    def _method(self, name: str) -> Any:
        if name == "__ray_terminate__":
            raise ExitActor
        if name == "__ray_ready__":
            return lambda: True
        if name == "__ray_call__":
            return lambda function, *args, **kwargs: function(self._object, *args, **kwargs)
        found = inspect.getattr_static(type(self._object), name, None)
        if inspect.isfunction(found):  # Also where an attribute of the object has its name.
            return types.MethodType(found, self._object)
        return getattr(self._object, name)

    def leave(self) -> None:
        """exit_actor() was called, possibly where nobody sees what it raises."""
        self.is_leaving = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._exit)

    def _exit(self) -> NoReturn:
        with contextlib.suppress(Exception):
            atexit._run_exitfuncs()
        self._borrower.flush_now()
        self._borrower.post(("q",), at_once=True)
        os._exit(0)

    def _crash(self, error: SystemExit) -> NoReturn:
        """sys.exit() in a method: unlike exit_actor(), the process fails, and may be restarted."""
        self._borrower.flush_now()
        code = error.code if isinstance(error.code, int) else 1
        if error.code is not None and not isinstance(error.code, int):
            print(error.code, file=sys.stderr)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code & 0xFF or 1)

    def cancel(self, number: int) -> None:
        """Cancels a call: a coroutine, or one that has not begun."""
        if number in self._running:
            _context.cancel(number)  # In a thread, it can only look.
        task = self._tasks.get(number)
        if task is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(task.cancel)
            return
        if number == self._process.current:
            self._process._cancelled = number
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            return
        for each in list(self._borrower.work):
            if each[1] == number:
                self._borrower.work.remove(each)
                self._process.post_error(
                    number, each[2], KeyboardInterrupt(), time.perf_counter(), False
                )

    # Coroutines.

    def _run_loop(self, loop: asyncio.AbstractEventLoop, concurrency: int) -> NoReturn:
        import asyncio

        limit = asyncio.Semaphore(concurrency)
        self._taken = asyncio.Event()  # An item of some generator was.
        self._borrower.on_taken = lambda: loop.call_soon_threadsafe(self._taken.set)
        pump, work = self._borrower.pump, self._borrower.work

        def arrived() -> None:
            pump.turn(0.0)
            while work:
                message = work.popleft()
                task = loop.create_task(self._call_async(message, limit))
                self._tasks[int(message[1])] = task
            self._borrower.flush_now()

        loop.add_reader(pump.fileno(), arrived)
        # Whoever waits in rt.get reads calls, too.
        self._borrower.on_work = lambda: loop.call_soon_threadsafe(arrived)
        loop.call_soon(arrived)
        loop.run_forever()
        os._exit(1)

    async def _call_async(self, message: Message, limit: asyncio.Semaphore) -> None:
        from asyncio import CancelledError

        _, number, method, packed, values, num_returns, retry_on, *ahead = message
        name = f"{self._name}.{method}"
        began = time.perf_counter()
        held = self._process.hold(values)
        try:
            async with limit:
                _context.enter(number, self._id, name, name)
                bound = self._method(method)
                await self._fetch(values)
                args, kwargs = self._process.arguments(packed, values)
                result = bound(*args, **kwargs)
                results = await self._results(number, result, num_returns, *ahead)
        except ExitActor:
            self._exit()
        except SystemExit as error:
            self._crash(error)
        except CancelledError:
            self._process.post_error(
                number, f"{self._name}.{method}", KeyboardInterrupt(), began, False
            )
        except BaseException as error:
            self._process.post_error(number, f"{self._name}.{method}", error, began, retry_on)
        else:
            self._borrower.post(("d", number, results, time.perf_counter() - began))
        del self._tasks[number]
        self._borrower.flush_now()
        if held:
            self._borrower.let_go(held)

    async def _fetch(self, values: list[Any]) -> None:
        """Gets the large arguments that the node keeps, while other coroutines run."""
        for _, value, _ in values:
            if isinstance(value, Kept):
                assert self._loop is not None
                await self._loop.run_in_executor(None, value.fetch)

    async def _results(
        self, number: int, result: Any, num_returns: int, ahead_max: int = -1
    ) -> list[Result]:
        if num_returns == STREAM and hasattr(result, "__aiter__"):
            count = 0
            async for item in result:
                packed, refs = pack(item)
                self._borrower.post(("y", number, packed, refs), at_once=True)
                count += 1
                while not self._borrower.may_yield(number, count, ahead_max):
                    self._taken.clear()
                    await self._taken.wait()
            self._borrower.taken.pop(number, None)
            return []
        if inspect.isawaitable(result):
            result = await result
        return self._process.results(number, result, num_returns, ahead_max)


async def _make(made: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A constructor in the event loop, in which it may start coroutines."""
    return made(*args, **kwargs)


_actor: Optional[ActorProcess] = None  # Of this process.


def exit_actor() -> NoReturn:
    """Ends the actor that calls it, after the calls that have ended. Functions of `atexit` run."""
    if _context.RuntimeContext().get_actor_id() is None:
        raise TypeError("exit_actor() is for code in an actor")
    if _actor is not None:
        _actor.leave()
    raise ExitActor
