"""Notices a function of the user's that does not return, says so, and ends it when it is useless.

Functions of the user's run in the thread that called fit(). A second thread looks at the stack
of the first. It tells the head about a function that has run for some seconds, so that `rt status`,
`rt exp show` and `rt job show` name it. A search may wait for a function for as long as it wants.
Once the search has ended, nobody waits for an answer: the function is interrupted.
"""

from __future__ import annotations

import contextlib
import linecache
import os
import re
import signal
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from types import CodeType, FrameType
from typing import Any, Optional

from rt._driver import Driver, SocketDriver
from rt.tune.callback import Callback
from rt.tune.schedulers import TrialScheduler
from rt.tune.search import Searcher
from rt.tune.stopper import Stopper

LOOK_EVERY_S = 0.5
TOLD_AFTER_S = 5.0  # The head is told about a function that has run for so long, again and again,
TOLD_EVERY_S = 2.0  # because it forgets a driver that says nothing.
SAID_AFTER_S = 30.0  # Standard error gets a line, then one each time that the time has doubled.
ANSWER_LIMIT_S = 30.0  # After the end of the search, a function that answers it is interrupted.
CALLBACK_LIMIT_S = 3600.0  # The same of a callback, which may be uploading results.
INTERRUPT_LIMIT_S = 10.0  # A job whose function cannot be interrupted ends after this time.

_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_EXAMPLES = os.path.join(_OWN, "tune", "examples") + os.sep
_STDLIB = sysconfig.get_path("stdlib") + os.sep
_PACKAGES = ("site-packages", "dist-packages")
_ALLOCATION = "resources_allocation_function"
_ROLES = {
    "_allocate.py": _ALLOCATION,
    "stopper.py": "stop function",
    "_explore.py": "custom_explore_fn",
    "_computed.py": "function of sample_from",
}
# Code of rt's that calls functions of the user's.
_CALLERS = ("_advice.py", "_repeater.py", "_searchers.py", "_space.py", *_ROLES)
_CALLED = re.compile(
    r"\b(?:self\.)?_?((?:advice\.\w+|function|func|explore|stopper|callback|scheduler|searcher)"
    r"(?:\.\w+)*)\("
)
_CALLBACKS = "run_config=tune.RunConfig(callbacks=[...])"
_SCHEDULER = "tune_config=tune.TuneConfig(scheduler=...)"
_CONFIGS = "param_space=..., tune_config=..., run_config=..."
_ARGUMENTS: dict[type, str] = {
    Callback: _CALLBACKS,
    Stopper: "run_config=tune.RunConfig(stop=...)",
    TrialScheduler: _SCHEDULER,
    Searcher: "tune_config=tune.TuneConfig(search_alg=...)",
}


class Abandoned(BaseException):
    """Raised in a function of the user's whose answer nobody waits for any more.

    `dropped`: the fields of Advice that are replaced, so that functions like it are not called.
    """

    def __init__(self, is_callback: bool) -> None:
        super().__init__("the search has ended")
        none: dict[str, Any] = dict.fromkeys(("searcher", "scheduler", "explore", "allocator"))
        self.dropped = {**none, "stoppers": [], **({"callbacks": []} if is_callback else {})}


@contextlib.contextmanager
def until_abandoned(advisors: Any) -> Iterator[None]:
    """Once a function was interrupted, functions like it are not called any more."""
    try:
        yield
    except Abandoned as abandoned:
        advisors.advice = replace(advisors.advice, **abandoned.dropped)


@dataclass
class _Call:
    """A function of the user's that is running."""

    frame: FrameType
    role: str
    argument: str  # Of Tuner.restore, with which a corrected one is given.
    since: float
    told_at: float = 0.0
    say_at: float = SAID_AFTER_S  # Seconds after `since`.
    interrupted_at: Optional[float] = None
    line: int = 0  # Where it raised.
    native: str = ""  # What is called, where it is no Python function: `frame` is rt's then.

    def runs_in(self, stack: list[FrameType]) -> bool:
        """Whether it has not returned."""
        return self.frame in stack and (not self.native or _own(stack)[-1] is self.frame)

    @property
    def is_callback(self) -> bool:
        """Whether it hears of the search, and answers nothing."""
        return self.argument == _CALLBACKS

    def advice(self, results_dir: str) -> str:
        """What to do when it has raised."""
        return (
            f"rt: {self} stopped the search. Its reports and checkpoints are kept; correct the "
            f"script, and continue with\nrt:   tune.Tuner.restore({results_dir!r}, trainable, "
            f"{self.argument}).fit()"
        )

    def __str__(self) -> str:
        """Such as "stop function f (search.py:12)", with the line where it is now."""
        if self.native:
            return f"{self.role} {self.native} (no Python function)".lstrip()
        code = self.frame.f_code
        name = getattr(code, "co_qualname", code.co_name).rpartition("<locals>.")[2]
        owner = self.frame.f_locals.get("self")
        if name == code.co_name and owner is not None:  # Python 3.10 and older.
            name = f"{type(owner).__name__}.{name}"
        line = self.line or self.frame.f_lineno
        place = f"{os.path.basename(code.co_filename)}:{line}"
        return f"{self.role} {name} ({place})".lstrip()


def _is_users(path: str) -> bool:
    if path.startswith("<frozen") or (path.startswith(_OWN) and not path.startswith(_EXAMPLES)):
        return False
    return not path.startswith(_STDLIB) or any(each in path for each in _PACKAGES)


def _stack(frame: Optional[FrameType]) -> list[FrameType]:
    """From the outermost frame to this one."""
    frames = []
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    return frames[::-1]


def _own(stack: list[FrameType]) -> list[FrameType]:
    """The frames of rt's code."""
    return [frame for frame in stack if frame.f_code.co_filename.startswith(_OWN)]


def _find_call(stack: list[FrameType], entries: Iterable[CodeType]) -> Optional[_Call]:
    """The function of the user's that was called below one of `entries`, the innermost of them."""
    codes = set(entries)
    starts = [index for index, frame in enumerate(stack) if frame.f_code in codes]
    role, argument = "", ""
    for frame in stack[starts[-1] + 1 :] if starts else []:
        owner = frame.f_locals.get("self")
        kinds = [text for kind, text in _ARGUMENTS.items() if isinstance(owner, kind)]
        argument = argument or "".join(kinds)
        if _is_users(frame.f_code.co_filename):
            return _Call(frame, role, argument or _CONFIGS, time.monotonic())
        role = _ROLES.get(os.path.basename(frame.f_code.co_filename), role)
        argument = _SCHEDULER if role == _ALLOCATION else argument
    return None


def _native_call(stack: list[FrameType], entries: Iterable[CodeType]) -> Optional[_Call]:
    """The function of the user's without a frame, such as a method of a lock, that rt has called.

    Only rt's code and the standard library's runs then, and rt's innermost is that of a caller.
    """
    if not any(frame.f_code in set(entries) for frame in stack):
        return None
    frame = _own(stack)[-1]
    path = frame.f_code.co_filename
    called = _CALLED.search(linecache.getline(path, frame.f_lineno))
    if os.path.basename(path) not in _CALLERS or called is None:
        return None
    name = called[1].replace("advice.", "")
    arguments = [text for kind, text in _ARGUMENTS.items() if _is_named(kind, name)]
    files = [os.path.basename(each.f_code.co_filename) for each in _own(stack)]
    role = next((_ROLES[file] for file in reversed(files) if file in _ROLES), "")
    return _Call(frame, role, (*arguments, _CONFIGS)[0], time.monotonic(), native=name)


def _is_named(kind: type, name: str) -> bool:
    """Whether a variable of that name has an object of the kind, as in _CALLERS."""
    return kind.__name__.replace("Trial", "").lower() in name


def failed_call(error: BaseException, entries: Iterable[CodeType]) -> Optional[_Call]:
    """The function of the user's in which the error was raised; None: in none."""
    frames, lines, tb = [], {}, error.__traceback__
    while tb is not None:
        frames.append(tb.tb_frame)
        lines[tb.tb_frame] = tb.tb_lineno
        tb = tb.tb_next
    call = None if isinstance(error, KeyboardInterrupt) else _find_call(frames, entries)
    if call is not None:
        call.line = lines[call.frame]
    return call


def advise(error: BaseException, text: str) -> None:
    """Shows the text below the error's traceback; before Python 3.11 above it."""
    if hasattr(error, "add_note"):
        error.add_note(text)
    else:
        print(text, file=sys.stderr, flush=True)


class HangWatch:
    """Watches the thread that makes it, from `start` to `close`."""

    def __init__(
        self,
        driver: Driver,
        experiment_id: int,
        session: int,
        entries: Iterable[CodeType],
        say: Callable[[str], None],
    ) -> None:
        self._driver = driver
        self._fields = {"experiment_id": experiment_id, "session": session}
        self._entries = tuple(entries)
        self._say = say
        self._thread_id = threading.get_ident()
        self._is_main = threading.current_thread() is threading.main_thread()
        self._closed = threading.Event()
        self._call: Optional[_Call] = None
        self._ended_at: Optional[float] = None  # The search, as far as is known here.
        self._signalled = False
        self._thread = threading.Thread(target=self._watch, name="rt-hangs", daemon=True)

    def start(self) -> None:
        """Begins to look."""
        self._thread.start()

    def close(self) -> None:
        """Stops looking; safe to repeat."""
        self._closed.set()
        self._call = None

    def takes_signal(self, frame: Optional[FrameType]) -> bool:
        """Whether a SIGINT was sent by this watch. Raises Abandoned if its function still runs."""
        if not self._signalled:
            return False
        self._signalled = False
        call = self._call
        if call is not None and call.runs_in(_stack(frame)):
            raise Abandoned(call.is_callback)
        return True

    def _watch(self) -> None:
        while not self._closed.wait(LOOK_EVERY_S):
            self.look()

    def look(self) -> None:
        """Looks once."""
        stack = _stack(sys._current_frames().get(self._thread_id))
        found = _find_call(stack, self._entries) or _native_call(stack, self._entries)
        if found is None or self._call is None or found.frame is not self._call.frame:
            self._call = found
        if self._call is not None:
            self._consider(self._call, time.monotonic())

    def _consider(self, call: _Call, now: float) -> None:
        ran_s = now - call.since
        if ran_s >= TOLD_AFTER_S and now - call.told_at >= TOLD_EVERY_S:
            call.told_at = now
            self._tell(call, ran_s)
        limit_s = CALLBACK_LIMIT_S if call.is_callback else ANSWER_LIMIT_S
        is_late = self._ended_at is not None and now - max(self._ended_at, call.since) >= limit_s
        if is_late and self._is_main:  # Python interrupts no other thread.
            self._interrupt(call, now, limit_s)
        elif ran_s >= call.say_at:
            call.say_at *= 2
            ended = self._ended_at is not None
            why = " although the search has ended" if ended else ", and the script waits for it"
            self._say(f"{call} has run for {ran_s:.0f} s{why}")

    def _tell(self, call: _Call, ran_s: float) -> None:
        try:
            told = {"function": str(call), "for_s": ran_s}
            reply = self._driver.call("driver_call", **self._fields, **told) or {}
        except Exception:
            return  # The head is away or older: the thread that it answers hears of it.
        if reply.get("ended") and self._ended_at is None:
            self._ended_at = time.monotonic()

    def _interrupt(self, call: _Call, now: float, limit_s: float) -> None:
        if call.interrupted_at is None:
            call.interrupted_at = now
            text = f"{call} has not returned {limit_s:.0f} s after the end of the search"
            self._say(f"{text}: it is interrupted, and is not called again")
            # Once more: nothing else may be interrupted in its place.
            if call.runs_in(_stack(sys._current_frames().get(self._thread_id))):
                self._signalled = True
                signal.pthread_kill(self._thread_id, signal.SIGINT)
            return
        in_job = isinstance(self._driver, SocketDriver)
        if in_job and now - call.interrupted_at >= INTERRUPT_LIMIT_S:
            self._end_job(call)

    def _end_job(self, call: _Call) -> None:
        """Ends this process: its search is over, and its thread cannot be interrupted."""
        text = f"{call} can neither end nor be interrupted, although the search has ended"
        print(f"rt: {text}", file=sys.stderr, flush=True)
        driver: Any = self._driver
        try:
            driver.say_error("Hang", text, "")
        except Exception:
            pass  # Its exit code and its last line have to do.
        os._exit(1)
