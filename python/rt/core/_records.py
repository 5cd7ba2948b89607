"""What the driver keeps of its session: values, functions, tasks."""

from __future__ import annotations

import hashlib
import inspect
from typing import Any, Callable, Optional, Union

from rt.core._values import Packed, Place

STREAM = -1  # num_returns of a generator.
AHEAD_MAX = 1000  # Items of a generator that nobody has taken: some megabytes of small ones.
UNKNOWN_COST_S = 1.0  # Of a function that has not run yet: nothing is queued behind it.
_NEW_COST = 0.3  # The weight of the newest call.


class Entry:
    """A value that exists, will exist, or is an error; or an actor.

    count: the handles of this process, those of the others, and what keeps it (tasks that need it,
    values that contain it). It is dropped at 0.
    """

    __slots__ = (
        "count", "is_error", "is_ready", "items", "packed", "refs", "takers", "task", "waiters",
    )  # fmt: skip

    def __init__(self, count: int = 1, task: Optional[Task] = None) -> None:
        self.count = count
        self.is_ready = False
        self.is_error = False
        self.packed: Packed = b""
        self.refs: tuple[int, ...] = ()
        self.task = task  # That returns it, until it has.
        self.waiters: Optional[list[Callable[[int, Entry], None]]] = None
        self.items: Optional[list[int]] = None  # Of a stream: what it has yielded.
        self.takers: list[Callable[[], None]] = []  # Of a stream: called at its next item, or end.

    def wait(self, waiter: Callable[[int, Entry], None]) -> None:
        """Calls `waiter` once it is ready."""
        if self.waiters is None:
            self.waiters = []
        self.waiters.append(waiter)


class Function:
    """A function or class that travels once to each process, and what a call of it costs."""

    __slots__ = ("blob", "cost_s", "digest", "name", "refs")

    def __init__(self, name: str, blob: bytes, refs: tuple[int, ...] = ()) -> None:
        self.name = name
        self.blob = blob
        self.digest = hashlib.blake2b(blob, digest_size=16).digest()
        self.refs = refs  # Kept as long as the session.
        self.cost_s = UNKNOWN_COST_S

    def took(self, seconds: float) -> None:
        """Learns from a call."""
        if self.cost_s == UNKNOWN_COST_S:
            self.cost_s = seconds
        else:
            self.cost_s += _NEW_COST * (seconds - self.cost_s)


class Options:
    """How tasks of one kind are run. One object for all calls of a remote function."""

    __slots__ = (
        "ahead_max", "env_vars", "max_calls", "max_retries", "name", "num_returns", "resources",
        "retry_on",
    )  # fmt: skip

    def __init__(
        self,
        resources: tuple[tuple[str, float], ...],
        num_returns: int = 1,
        max_retries: int = 3,
        retry_on: Union[bool, bytes] = False,
        name: str = "",
        env_vars: tuple[tuple[str, str], ...] = (),
        max_calls: int = 0,
        ahead_max: int = AHEAD_MAX,
    ) -> None:
        self.resources = resources
        self.num_returns = num_returns
        self.max_retries = max_retries  # -1: without end.
        self.retry_on = retry_on  # Exceptions of the user: all, or a pickled tuple of classes.
        self.name = name
        self.env_vars = env_vars
        self.max_calls = max_calls  # Of the function in one process, which then ends; 0: any.
        self.ahead_max = (
            ahead_max  # Items that a generator may be ahead of who takes them; -1: any.
        )

    def __reduce__(self) -> Any:
        given = (self.resources, self.num_returns, self.max_retries, self.retry_on, self.name)
        return (Options, (*given, self.env_vars, self.max_calls, self.ahead_max))


class Task:
    """A call of a function, or of a method of an actor (`actor`, `method`)."""

    __slots__ = (
        "actor", "caller", "cancelled", "conn", "depth", "function", "id", "method", "missing",
        "options", "packed", "parent", "places", "refs", "returns", "seen", "taken", "tries",
        "yielded",
    )  # fmt: skip

    def __init__(
        self,
        number: int,
        function: Function,
        options: Options,
        packed: Optional[Packed],
        refs: tuple[int, ...],
        places: tuple[Place, ...],
        returns: list[int],
    ) -> None:
        self.id = number
        self.function = function
        self.options = options
        self.packed = packed
        self.refs = refs
        self.places = places
        self.returns = returns
        self.tries = 0  # Failed ones.
        self.missing = 0  # Arguments that are not there yet.
        self.depth = 0  # 0: submitted by the driver; 1: by such a task; and so on.
        self.parent: Optional[int] = None  # The task that submitted it.
        self.conn: Any = None  # Where it runs, or is queued to run.
        self.actor: Any = None
        self.caller: Any = None  # The process that called the actor; None: the driver.
        self.method = ""
        self.cancelled = False
        self.yielded = 0
        self.seen = 0  # Of what it yields in this try; the first ones were yielded in earlier ones.
        self.taken = 0  # Of what it has yielded.

    @property
    def name(self) -> str:
        """For people."""
        if self.actor is not None:
            return f"{self.function.name}.{self.method}"
        return self.options.name or self.function.name

    def may_retry(self) -> bool:
        """Whether it may run again after it failed as its process did."""
        return self.options.max_retries < 0 or self.tries < self.options.max_retries

    def try_again(self) -> None:
        """It failed, and is to run again."""
        self.conn = None
        self.tries += 1
        self.seen = 0


def has_coroutines(made: type) -> bool:
    """Whether a class has async methods: its actors run on an event loop."""
    return any(
        inspect.iscoroutinefunction(each) or inspect.isasyncgenfunction(each)
        for _, each in inspect.getmembers(made, inspect.isfunction)
    )
