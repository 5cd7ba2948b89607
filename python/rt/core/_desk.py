"""A detached actor's process: it is reached by the sessions of its user, one connection each.

The actor belongs to no session (adr/0041). What it uses itself (tasks, actors, values) is a session
of its own. Values pass between the sessions, and references do not.
"""

from __future__ import annotations

import array
import contextlib
import os
import pickle
import socket
import sys
from collections import deque
from pathlib import Path
from typing import Any, Callable, NoReturn

from rt import _driver, _sources
from rt._errors import RtError
from rt._warm import _reseed
from rt.core import _context
from rt.core._channel import Channel, Message
from rt.core._process import Process
from rt.core._pump import Pump
from rt.core._values import unpack
from rt.exceptions import TaskError

ACTOR_FILE = "actor.pkl"
_NUMBER = 1  # The actor's, in its own process.
_TOLD_WITHIN_S = 30.0  # A daemon that is restarted is back by then.
_MESSAGE_MAX = 1000  # Characters: the head keeps 4096 bytes.
_TRACEBACK_BYTES = 8000  # The head keeps 8192 (kActorTracebackBytes).


class _Caller:
    """The connection of a session."""

    def __init__(self, desk: Desk, channel: Channel) -> None:
        self.desk = desk
        self.channel = channel

    def fileno(self) -> int:
        """The socket's descriptor."""
        return self.channel.fileno()

    def on_readable(self) -> None:
        """Takes calls; forgets a session that has gone."""
        try:
            messages = self.channel.read()
        except (ConnectionError, OSError, EOFError):
            self.desk.forget(self)
            return
        for message in messages:
            self.desk.take(self, message)

    def flush(self) -> bool:
        """Sends what was posted."""
        try:
            return self.channel.flush()
        except (ConnectionError, OSError):
            self.desk.forget(self)
            return True


class Desk:
    """Does for ActorProcess what the connection to a driver does: calls come, results go."""

    def __init__(self, control: socket.socket, actor: dict[str, Any]) -> None:
        self.pump = Pump()
        self.lock = self.pump.lock
        self.work: deque[Message] = deque()
        self.functions = {actor["digest"]: (actor["class"], actor["blob"])}
        self.early_cancels: list[int] = []
        self.on_cancel: Callable[[int], None] = self.early_cancels.append
        self.on_work: Callable[[], None] = lambda: None
        self.on_taken: Callable[[], None] = lambda: None
        self.taken: dict[int, int] = {}  # Sessions take items without a bound.
        self._actor = actor
        self._control = control
        self._callers: set[_Caller] = set()
        self._made: list[Any] = []  # What `m` said.
        self._next = _NUMBER
        self._calls: dict[int, tuple[_Caller, int]] = {}  # Whose, and their number of it.
        control.setblocking(False)
        with self.lock:
            self.pump.add(self)

    # The port at which the executor hands over connections.

    def fileno(self) -> int:
        """The descriptor of the whole loop, for asyncio; of the port while it is added."""
        return self._control.fileno()

    def on_readable(self) -> None:
        """A session has connected."""
        try:
            data, ancillary, _, _ = self._control.recvmsg(
                1, socket.CMSG_SPACE(4), socket.MSG_CMSG_CLOEXEC
            )
        except (BlockingIOError, InterruptedError):
            return
        if not data:
            os._exit(1)  # The executor has ended.
        for _, _, payload in ancillary:
            for fd in array.array("i", payload):
                caller = _Caller(self, Channel(socket.socket(fileno=fd)))
                self._callers.add(caller)
                self.pump.add(caller)
                caller.channel.post(("h", os.getpid()))
                caller.channel.post(("M", self._actor["class"], self._actor["methods"]))
                for made in self._made:
                    caller.channel.post(("m", made))
                self.pump.mark(caller)

    def flush(self) -> bool:
        """Nothing is sent there."""
        return True

    def forget(self, caller: _Caller) -> None:
        """The session has gone; its calls run, and their results go nowhere."""
        self._callers.discard(caller)
        self.pump.remove(caller)
        caller.channel.close()

    def take(self, caller: _Caller, message: Message) -> None:
        """A message of a session."""
        if message[0] == "c":
            self._next += 1
            self._calls[self._next] = (caller, message[1])
            self.work.append(("c", self._next, *message[2:]))
            self.on_work()
        elif message[0] == "far":  # Daemons between two nodes carry no descriptors.
            caller.channel.is_local = False
        elif message[0] == "x":
            for number, (whose, theirs) in list(self._calls.items()):
                if whose is caller and theirs == message[1]:
                    self.on_cancel(number)

    # What ActorProcess says.

    def post(self, message: Message, at_once: bool = False) -> None:
        """Sends a result to the session that called."""
        kind = message[0]
        with self.lock:
            if kind in ("d", "e", "y"):
                found = self._calls.get(message[1])
                if found is None:
                    return
                caller, theirs = found
                if kind != "y":
                    del self._calls[message[1]]
                refs = _has_references(message)
                if refs:
                    message = ("e", 0, *_no_references(), 0.0, False)
                if caller in self._callers:
                    caller.channel.post((message[0], theirs, *message[2:]))
                    self.pump.mark(caller)
                    self.pump.flush_port(caller)
            elif kind in ("m", "q"):
                if kind == "m":
                    self._made.append(message[1])
                for caller in list(self._callers):
                    caller.channel.post(message)
                    self.pump.flush_port(caller)
                if kind == "m" and message[1] is not None:
                    _end_raised(unpack(message[1]))

    def flush_now(self) -> None:
        """Sends everything."""
        with self.lock:
            self.pump.flush()

    def may_yield(self, number: int, yielded: int, ahead_max: int) -> bool:
        """Always: sessions take items without a bound."""
        return True

    def receive(self, number: int) -> None:
        """Sessions pass no references."""

    def let_go(self, numbers: tuple[int, ...]) -> None:
        """Sessions pass no references."""


def _has_references(message: Message) -> bool:
    """Whether what a call returned, yielded or raised contains some."""
    if message[0] == "d":
        return any(refs for _, refs in message[2])
    if message[0] == "e" and any(refs for _, refs in message[6]):
        return True
    return bool(message[3])


def _end_raised(error: TaskError) -> NoReturn:
    """Ends an actor whose constructor has raised. The head, which hears of the error, starts it no
    more; if the daemon is away for so long that it cannot be told, the actor is started again, and
    says it then."""
    print(error, file=sys.stderr, flush=True)
    path, token = os.environ.get("RT_SOCKET"), os.environ.get("RT_TOKEN")
    if path and token:
        kind = "" if error.cause is None else type(error.cause).__name__
        message = ""
        with contextlib.suppress(Exception):  # The user's own __str__.
            message = str(error.cause) if error.cause is not None else ""
        with contextlib.suppress(RtError, ValueError, OSError):
            driver = _driver.SocketDriver(path, token, _TOLD_WITHIN_S)
            driver.say_error(kind, message[:_MESSAGE_MAX], _tail(error.traceback_str))
    os._exit(1)


def _tail(text: str) -> str:
    """The end of a traceback, which says most."""
    text = text.strip() or "(no traceback)"
    data = text.encode("utf-8", "replace")
    if len(data) <= _TRACEBACK_BYTES:
        return text
    return "...\n" + data[-_TRACEBACK_BYTES:].decode("utf-8", "ignore")


def _no_references() -> Any:
    from rt.core._task_errors import pack_error

    text = (
        "a detached actor cannot return references: they belong to its own session; return values"
    )
    return pack_error("the actor", ValueError(text))


def run_actor(control: socket.socket) -> NoReturn:
    """Runs in a child of the executor; it never returns."""
    code = 1
    try:
        _reseed()
        path = Path(os.environ["RT_ACTOR"])
        data = (path / ACTOR_FILE if path.is_dir() else path).read_bytes()
        actor = pickle.loads(data)
        sys.path.extend(each for each in actor["path"] if each not in sys.path)
        _sources.install(actor["sources"])
        _context.begin("", actor["options"].get("namespace") or "", {})
        desk = Desk(control, actor)
        process = Process(desk)  # type: ignore[arg-type]
        message = ("A", _NUMBER, actor["digest"], actor["packed"], [()], actor["options"])
        process.become(message)
    except BaseException:
        import traceback

        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
