"""An actor as the driver of its session sees it. All with the hub's lock."""

from __future__ import annotations

from collections import deque
from itertools import chain
from typing import Any, Optional

from rt.core._places import Conn, Pool
from rt.core._records import Function, Task
from rt.core._values import PackedCall

PENDING, STARTING, ALIVE, DEAD = "PENDING", "STARTING", "ALIVE", "DEAD"


class Actor:
    """An actor: what it was made with, and the calls that wait for it."""

    __slots__ = (
        "aside", "call", "calls", "conn", "died", "executor", "function", "held", "id", "is_ending",
        "is_killed", "options", "pool", "refused", "restarts", "state",
    )  # fmt: skip

    def __init__(
        self, number: int, function: Function, call: PackedCall, options: dict[str, Any], pool: Pool
    ) -> None:
        self.id = number
        self.function = function
        self.call = call
        self.options = options
        self.pool = pool
        self.state = PENDING
        self.calls: deque[Task] = deque()  # Not sent yet.
        self.aside: dict[int, Task] = {}  # Overtaken: their arguments are missing.
        # By caller: a call whose arguments are missing, and those that the caller made after it.
        self.held: dict[Any, deque[Task]] = {}
        self.conn: Optional[Conn] = None
        self.refused = ""  # Why it was not made.
        self.restarts = 0
        self.is_ending = False  # It ends once its calls have.
        self.is_killed = False  # The old process of a detached actor must not be reached any more.
        self.died: Optional[BaseException] = None
        self.executor = 0  # Of a detached actor, once the head has said which.

    @property
    def is_detached(self) -> bool:
        """It outlives the session; the head restarts it."""
        return self.options.get("lifetime") == "detached"

    @property
    def waiting(self) -> int:
        """The number of calls that were not sent."""
        return len(self.calls) + len(self.aside) + sum(map(len, self.held.values()))

    def has_pending(self, count: int, caller: Optional[Conn]) -> bool:
        """Whether so many calls of the caller have not ended."""
        sent = self.conn.inflight if self.conn is not None else {}
        if self.waiting + len(sent) < count:
            return False
        tasks = chain(self.calls, self.aside.values(), *self.held.values(), sent.values())
        return sum(each.caller is caller for each in tasks) >= count

    @property
    def max_restarts(self) -> int:
        """-1: without end."""
        return int(self.options.get("max_restarts") or 0)

    @property
    def name(self) -> str:
        """For people."""
        given = self.options.get("name")
        return f"{self.function.name} {given!r}" if given else self.function.name
