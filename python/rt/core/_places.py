"""Where tasks run: pools of equal executors, and the connections to their processes.

A pool has the tasks of one shape (resources, environment) that are ready to run, and the slots
for them. A slot is an executor that the head granted (adr/0041). Each connection to it is a
process of its own. One of them runs tasks; others wait in `rt.get` and have lent the slot, or are
idle.
"""

from __future__ import annotations

import traceback
from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Any, Optional

from rt.core._channel import Channel, Message
from rt.core._records import Task

Hub = Any  # rt.core._hub.Hub, which imports this module.

Shape = tuple[tuple[tuple[str, float], ...], tuple[tuple[str, str], ...]]
QUEUED_S = 0.004  # Work that is queued behind a running task, by what its function costs.
QUEUED_MAX = 64  # Tasks.
BLOCKED_MAX = 64  # Processes of a slot that wait in `rt.get`.
_FREE_WIDTH = 64  # Processes at a time that need no capacity.
_BATCH_MAX = 16  # Messages to a busy process that are sent together.


class Slot:
    """An executor: capacity for one process that runs, or for `width` of them."""

    __slots__ = (
        "blocked", "conns", "executor", "idle_at", "is_local", "node", "pool", "running", "secret",
        "spares", "trial_dir", "width",
    )  # fmt: skip

    def __init__(
        self,
        executor: int,
        pool: Pool,
        trial_dir: str,
        node: dict[str, Any],
        width: int,
        is_local: bool = True,
        secret: str = "",
    ) -> None:
        self.executor = executor
        self.pool = pool
        self.trial_dir = trial_dir
        self.node = node
        self.width = width
        self.secret = secret  # Of a detached actor, which has its own; else it is the session's.
        self.is_local = is_local  # On this machine; else it is reached through the daemons.
        self.spares: list[tuple[Channel, int]] = []  # Processes of another machine, for later.
        self.conns: set[Conn] = set()
        self.running = 0  # Connections with work that do not wait.
        self.blocked = 0
        self.idle_at = 0.0  # Since when nothing runs.

    @property
    def is_granted(self) -> bool:
        """Whether the head granted it, and it may run more; else it is the driver's own."""
        return self.width > 0 and self.executor > 0

    @property
    def cpus(self) -> float:
        """What it holds of them."""
        return dict(self.pool.shape[0]).get("cpu", 0)

    def idle_conn(self) -> Optional[Conn]:
        """A process that does nothing."""
        for conn in self.conns:
            is_busy = conn.inflight or conn.is_blocked or conn.is_retired
            if conn.actor is None and not is_busy:
                return conn
        return None


class Pool:
    """Tasks of one shape, and their slots."""

    __slots__ = (
        "asked", "failed_starts", "failure", "hungry_at", "is_full", "limit", "pending", "room",
        "shape", "slots", "waited_at",
    )  # fmt: skip

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.pending: dict[int, deque[Task]] = {}  # By depth: the deepest first.
        self.slots: dict[int, Slot] = {}
        self.room: deque[Conn] = deque()  # Busy ones that take small tasks in advance.
        self.waited_at = 0.0  # When work last waited.
        self.asked: set[int] = set()  # Executors that were requested and do not run yet.
        self.limit: Optional[int] = None  # Slots that the cluster could have.
        self.is_full = False  # No process takes its head now.
        self.hungry_at: Optional[float] = None  # Since when tasks wait for a slot.
        self.failed_starts = 0  # Executors in a row that ended before they could be used.
        self.failure: Optional[BaseException] = None  # Why there can be no slot.

    @property
    def is_free(self) -> bool:
        """It needs no capacity: one executor has all its processes."""
        return not any(amount for _, amount in self.shape[0])

    @property
    def width(self) -> int:
        """The processes of a slot that may run at a time."""
        return _FREE_WIDTH if self.is_free else 1

    def free_slots(self) -> Iterator[Slot]:
        """Slots that may run more, at most as many as tasks wait."""
        free = (slot for slot in self.slots.values() if slot.running < slot.width)
        return islice(free, self.waiting())

    def add(self, task: Task, first: bool = False) -> None:
        """A task is ready to run."""
        queue = self.pending.get(task.depth)
        if queue is None:
            queue = self.pending[task.depth] = deque()
        if first:
            queue.appendleft(task)
        else:
            queue.append(task)

    def head(self) -> Optional[Task]:
        """The task that comes next. What a task submitted comes before what waits for a first
        slot: otherwise all slots fill with tasks that wait for others."""
        while self.pending:
            depth = max(self.pending) if len(self.pending) > 1 else next(iter(self.pending))
            queue = self.pending[depth]
            while queue and queue[0].cancelled:
                queue.popleft()
            if queue:
                return queue[0]
            del self.pending[depth]
        return None

    def pop(self) -> Task:
        """Takes the head."""
        task = self.head()
        assert task is not None
        return self.pending[task.depth].popleft()

    def waiting(self) -> int:
        """How many tasks wait."""
        return sum(map(len, self.pending.values()))

    def busy(self) -> int:
        """How many slots run something."""
        return sum(1 for slot in self.slots.values() if slot.running)

    def describe(self, actors: int) -> str:
        """What waits for what, for people; `actors` of its shape wait."""
        return (
            f"{dict(self.shape[0])}: {self.waiting()} tasks and {actors} actors wait, "
            f"{self.busy()} of {len(self.slots)} executors are busy, {len(self.asked)} are asked "
            f"for, limit {self.limit}"
        )


class Conn:
    """A process of an executor. It is a port of the loop."""

    def __init__(self, hub: Hub, slot: Slot, channel: Channel) -> None:
        self.hub = hub
        self.slot = slot
        self.channel = channel
        self.pid = 0  # Until it has said it.
        self.inflight: dict[int, Task] = {}  # In the order in which they run.
        self.load_s = 0.0  # What the tasks in flight cost.
        self.known: set[bytes] = set()  # Functions that it has.
        self.borrowed: dict[int, int] = {}  # References that it holds: how often it got them.
        self.wanted: dict[int, int] = {}  # Values that it waits for.
        self.watched: set[int] = set()  # Values of which it will hear when they are ready.
        self.is_blocked = False
        self.in_room = False
        self.began_at = 0.0  # When the task at the head began, or was sent.
        self.gave_back_at = 0.0
        self.actor: Any = None
        self.calls: dict[bytes, int] = {}  # Of functions with max_calls.
        self.is_retired = False  # It gets no further task.
        self.is_closed = False

    @property
    def may_lend(self) -> bool:
        """Whether its slot may run something else while it waits. An actor without cpus has none to
        lend, and what one has on a gpu stays there."""
        if self.actor is None:
            return True
        amounts = dict(self.slot.pool.shape[0])
        return not self.slot.pool.is_free and not amounts.get("gpu")

    def fileno(self) -> int:
        """The socket's descriptor."""
        return self.channel.fileno()

    def on_readable(self) -> None:
        """Takes the messages that have arrived."""
        try:
            messages = self.channel.read()
        except Exception as error:  # Also what is not a frame.
            self.hub.lost(self, str(error))
            return
        take = self.hub.take_message
        for message in messages:
            try:
                take(self, message)
            except Exception as error:
                # It must not end another thread's rt.get. Its own tasks fail, or run again.
                traceback.print_exc()
                self.hub.lost(self, f"its message {message[0]!r} failed: {error}")
            if self.is_closed:
                return

    def flush(self) -> bool:
        """Sends what was posted."""
        try:
            return self.channel.flush()
        except (ConnectionError, OSError):
            return True  # Reading finds the end, after what the process said last.

    def post(self, message: Message) -> None:
        """Sends a message at the next flush."""
        self.channel.post(message)
        self.hub.pump.mark(self)

    def count_call(self, task: Task) -> None:
        """Counts a call of a function with max_calls; after the last one the process ends."""
        digest = task.function.digest
        self.calls[digest] = self.calls.get(digest, 0) + 1
        self.is_retired = self.is_retired or self.calls[digest] >= task.options.max_calls

    def has_room(self, task: Task) -> bool:
        """Whether the task may be queued behind those in flight."""
        inflight = len(self.inflight)
        if not inflight:
            return True
        cost = task.function.cost_s
        return inflight < QUEUED_MAX and self.load_s + cost <= QUEUED_S

    def post_task(self, message: Message) -> None:
        """Sends a task: at once to an idle process, in batches to a busy one."""
        if self.channel.post(message) == 1 or len(self.inflight) <= 1:
            self.hub.pump.mark(self)
        if len(self.inflight) <= 1 or self.channel.post_count >= _BATCH_MAX:
            self.hub.pump.flush_port(self)
