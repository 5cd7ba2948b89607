"""Which process runs which task, and how many executors are needed. All with the hub's lock."""

from __future__ import annotations

import time
from itertools import chain
from typing import Any, Optional

from rt.core._channel import Channel
from rt.core._lending import lent_slots
from rt.core._places import BLOCKED_MAX, Conn, Pool, Shape, Slot
from rt.core._records import Entry, Task
from rt.core._task_errors import crash_error
from rt.exceptions import RayError, TaskCancelledError, TaskUnschedulableError

Hub = Any  # rt.core._hub.Hub, which imports this module.

IDLE_S = 1.0  # A slot that did nothing for so long is given back.
OVERDUE_S = 0.01  # Tasks queued behind one that runs for longer are taken back.
_EXTRA_AFTER_S = 1.0  # Tasks that wait for so long are demand for more than the cluster has.
_EXTRA_MAX = 32
_FAILED_STARTS_MAX = 3
_SHARE_S = 1.0  # Work of another shape gives up an executor so often at most.


class Schedule:
    """The pools of a session."""

    def __init__(self, hub: Hub, places: Any) -> None:
        self.hub = hub
        self.places = places
        self.pools: dict[Shape, Pool] = {}
        self._shared_at = 0.0

    def pool(self, shape: Shape) -> Pool:
        """The pool of a shape."""
        found = self.pools.get(shape)
        if found is None:
            found = self.pools[shape] = Pool(shape)
        return found

    def add(self, task: Task) -> None:
        """The task is ready to run."""
        pool = self.pool((task.options.resources, task.options.env_vars))
        if pool.failure is not None:
            self.hub.fail_with(task, pool.failure)
            return
        pool.add(task)
        if not pool.is_full:
            self.dispatch(pool)

    def add_again(self, task: Task) -> None:
        """The task runs again, before others."""
        task.conn = None
        self.pool((task.options.resources, task.options.env_vars)).add(task, first=True)

    def dispatch(self, pool: Pool) -> None:
        """Gives actors and tasks to processes as long as there are both."""
        self.hub.actors.place(pool)
        while True:
            task = pool.head()
            if task is None:
                pool.is_full = False
                return
            conn = self._idle(pool) or self._room(pool, task)
            if conn is None:
                pool.is_full = True
                self.hunger(pool)
                return
            pool.pop()
            self._start(conn, task)

    def hunger(self, pool: Pool) -> None:
        """Work waits for an executor."""
        if pool.hungry_at is None:
            pool.hungry_at = time.monotonic()
            self.places.hungry(pool)

    def _idle(self, pool: Pool) -> Optional[Conn]:
        """A process that does nothing. A slot that takes long to reach holds up no other."""
        for slot in chain(pool.free_slots(), lent_slots(self.pools.values(), pool)):
            conn = slot.idle_conn() or self.connect(slot)
            if conn is not None:
                return conn
        return None

    def _room(self, pool: Pool, task: Task) -> Optional[Conn]:
        for _ in range(0 if task.options.max_calls else len(pool.room)):
            conn = pool.room[0]
            if conn.is_closed or conn.is_blocked or conn.is_retired or not conn.inflight:
                pool.room.popleft()
                conn.in_room = False
                continue
            if conn.slot.width and conn.has_room(task):
                pool.room.rotate(-1)
                return conn
            pool.room.rotate(-1)
        return None

    def connect(self, slot: Slot) -> Optional[Conn]:
        """A new process of the slot; None: not now."""
        hub = self.hub
        channel: Optional[Channel] = None
        if slot.spares:
            channel, number = slot.spares.pop()
        elif slot.is_local:
            number = hub.conn_number()
            channel = self.places.dial(slot, number)
        if channel is None:
            self.places.dial_later(slot)  # dispatch() follows.
            return None
        conn = Conn(hub, slot, channel)
        slot.conns.add(conn)
        hub.pump.add(conn)
        return conn

    def _start(self, conn: Conn, task: Task) -> None:
        hub = self.hub
        values = hub.arguments_of(task)
        if isinstance(values, Entry):
            for each in values.refs:
                hub.keep(each)
            hub.fail_task(task, values.packed, values.refs)
            return
        if not conn.inflight:
            conn.slot.running += 1
            conn.began_at = time.monotonic()
        self.send_function(conn, task)
        self.lend(conn, task, values)
        conn.inflight[task.id] = task
        conn.load_s += task.function.cost_s
        task.conn = conn
        options = task.options
        # `is_exact`: it must not be taken for started when it was not, nor the other way round.
        is_exact = options.max_retries == 0
        conn.post_task(
            ("t", task.id, task.function.digest, task.packed, values, options.num_returns,
             options.retry_on, is_exact, options.name,
             options.ahead_max if task.taken >= 0 else -1)
        )  # fmt: skip
        if task.taken > 0:
            conn.post(("k", task.id, task.taken))
        if options.max_calls:
            conn.count_call(task)
        elif not conn.in_room and not is_exact:
            conn.in_room = True
            conn.slot.pool.room.append(conn)

    def send_function(self, conn: Conn, task: Task) -> None:
        """Sends the function, if the process does not have it."""
        function = task.function
        if function.digest not in conn.known:
            conn.known.add(function.digest)
            for each in function.refs:
                self.borrow(conn, each)
            conn.post(("f", function.digest, function.name, function.blob, function.refs))

    def lend(self, conn: Conn, task: Task, values: list[Any]) -> None:
        """The process gets the references in the task's arguments."""
        for each in task.refs:
            self.borrow(conn, each)
        if task.places:
            for index, (_, number) in enumerate(task.places):
                refs = self.hub.entries[number].refs
                for each in refs:
                    self.borrow(conn, each)
                place, packed = values[index]
                values[index] = (place, self.hub.keepers.near(conn, number, packed), refs)
        values.append(task.refs)

    def borrow(self, conn: Conn, number: int) -> None:
        """The process holds the reference once more."""
        self.hub.keep(number)
        conn.borrowed[number] = conn.borrowed.get(number, 0) + 1

    def give_back(self, conn: Conn, number: int, count: int) -> None:
        """The process holds it no more: it had got it so often."""
        left = conn.borrowed.get(number, 0) - count
        if left > 0:
            conn.borrowed[number] = left
        else:
            conn.borrowed.pop(number, None)
        self.hub.release(number, count)

    # What becomes of a process.

    def ended(self, conn: Conn, task: Task) -> None:
        """A task of the process has ended."""
        del conn.inflight[task.id]
        task.conn = None
        if conn.inflight:
            conn.load_s = max(0.0, conn.load_s - task.function.cost_s)
            conn.began_at = time.monotonic()
            return
        conn.load_s = 0.0
        if conn.actor is None and not conn.is_blocked:
            self._rests(conn)

    def next(self, conn: Conn, task: Task) -> None:
        """The process has ended the task, and may run another."""
        if conn.is_retired and not conn.inflight:  # It has had all the calls of max_calls.
            self.close_conn(conn)
        self.settle(conn.slot)
        pool = conn.slot.pool
        self.dispatch(pool)
        if task.options.resources != pool.shape[0]:  # The slot was lent.
            self.dispatch(self.pool((task.options.resources, task.options.env_vars)))

    def settle(self, slot: Slot) -> None:
        """What a task returned is kept: a slot that was only awaited is given back."""
        if slot.width or slot.running or slot.blocked:
            return
        if slot.pool.slots.get(slot.executor) is slot and not any(
            conn.actor is not None for conn in slot.conns
        ):
            self.release_slot(slot.pool, slot)

    def _rests(self, conn: Conn) -> None:
        slot = conn.slot
        slot.running -= 1
        if not slot.running:
            slot.idle_at = time.monotonic()

    def block(self, conn: Conn) -> bool:
        """The process waits for a value: its slot may run another. False: too many do."""
        slot = conn.slot
        if conn.is_blocked or not conn.may_lend:
            return True
        if slot.blocked >= BLOCKED_MAX * slot.width:
            return False
        conn.is_blocked = True
        slot.blocked += 1
        if conn.actor is None and len(conn.inflight) > 1:
            conn.post(("g",))
        if conn.inflight or conn.actor is not None:
            self._rests(conn)
        return True

    def unblock(self, conn: Conn) -> None:
        """The process continues. The slot may have two running processes for a while."""
        if conn.is_blocked:
            conn.is_blocked = False
            conn.slot.blocked -= 1
            if conn.inflight or conn.actor is not None:
                conn.slot.running += 1

    def take_back(self, conn: Conn, numbers: list[int]) -> None:
        """The process has not begun these tasks, and will not."""
        had_work = bool(conn.inflight)
        for each in reversed(numbers):
            task = conn.inflight.pop(each, None)
            if task is not None:
                conn.load_s = max(0.0, conn.load_s - task.function.cost_s)
                self._return_loans(conn, task)
                if task.cancelled:  # The process found it no more.
                    self.hub.fail_with(task, TaskCancelledError(f"{task.name} was cancelled"))
                    continue
                self.add_again(task)
        if had_work and not conn.inflight:
            conn.load_s = 0.0
            if not conn.is_blocked:
                self._rests(conn)
            self.settle(conn.slot)
        self.dispatch(conn.slot.pool)

    def _return_loans(self, conn: Conn, task: Task) -> None:
        for each in task.refs:
            self.give_back(conn, each, 1)
        for _, number in task.places:
            for each in self.hub.entries[number].refs:
                self.give_back(conn, each, 1)

    def close_conn(self, conn: Conn) -> None:
        """Ends the connection, and so the process."""
        if conn.is_closed:
            return
        conn.is_closed = True
        self.hub.pump.remove(conn)
        conn.channel.close()
        slot = conn.slot
        slot.conns.discard(conn)
        if conn.is_blocked:
            slot.blocked -= 1
        elif conn.inflight and conn.actor is None:
            self._rests(conn)
        borrowed, conn.borrowed = conn.borrowed, {}
        for number, count in borrowed.items():
            self.hub.release(number, count)

    def kill_conn(self, conn: Conn) -> None:
        """Kills the process."""
        self.places.kill(conn)
        self.lost(conn, "it was killed")

    def lost(self, conn: Conn, why: str) -> None:
        """The process has ended, or the connection to it."""
        if conn.is_closed:
            return
        actor, tasks = conn.actor, list(conn.inflight.values())
        self.close_conn(conn)
        if actor is not None:
            self.hub.actors.lost(actor, conn, why)
            return
        conn.inflight.clear()
        for task in reversed(tasks[1:]):  # Not begun, as far as one can know.
            self.add_again(task)
        if tasks:
            self._failed(tasks[0], conn, why)
        self.dispatch(conn.slot.pool)

    def _failed(self, task: Task, conn: Conn, why: str) -> None:
        task.conn = None
        if task.cancelled:
            self.hub.fail_with(task, TaskCancelledError(f"{task.name} was cancelled"))
            return
        if task.may_retry():
            task.try_again()
            self.add_again(task)
            return
        self.hub.fail_with(task, self.crash(conn, task.name, why))

    def crash(self, conn: Conn, name: str, why: str) -> RayError:
        """The error for a task whose process is gone."""
        node = conn.slot.node.get("name") or "its node"
        return crash_error(name, conn.pid, node, self.places.cause_of(conn) or why)

    # Slots.

    def slot_came(self, pool: Pool, slot: Slot) -> None:
        """An executor runs."""
        pool.asked.discard(slot.executor)
        pool.failed_starts = 0
        pool.slots[slot.executor] = slot
        slot.idle_at = time.monotonic()
        pool.hungry_at = None
        self.dispatch(pool)
        self.hub.pump.flush()

    def yield_slot(self) -> None:
        """Others wait for capacity: gives back the slot that is free, or will be first."""
        best: Optional[Slot] = None
        least = 0.0
        for pool in self.pools.values():
            for slot in pool.slots.values():
                if pool.is_free or not slot.is_granted or slot.blocked:
                    continue
                if any(conn.actor is not None for conn in slot.conns):
                    continue
                costs = [conn.load_s for conn in slot.conns if conn.inflight]
                cost = sum(costs) if slot.running else -1.0
                if best is None or cost < least:
                    best, least = slot, cost
        if best is None:
            return
        self.drain_slot(best.pool, best)
        if not best.running:
            self.release_slot(best.pool, best)

    def drain_slot(self, pool: Pool, slot: Slot) -> None:
        """Its node drains: what runs there ends, and nothing more begins."""
        slot.width = 0
        for conn in slot.conns:
            if len(conn.inflight) > 1 and conn.actor is None:
                conn.post(("g",))
        if pool.head() is not None:
            self.dispatch(pool)
        self.hub.pump.flush()

    def slot_went(self, pool: Pool, executor: int, why: str, is_lost: bool) -> None:
        """An executor has ended."""
        is_failed_start = executor in pool.asked and not is_lost
        pool.asked.discard(executor)
        slot = pool.slots.pop(executor, None)
        pool.failed_starts += is_failed_start
        if pool.failed_starts >= _FAILED_STARTS_MAX:
            self.cannot(pool, f"executors do not start: {why} (rt executor logs {executor})")
        if slot is not None:
            self._close_spares(slot)
            for conn in list(slot.conns):
                self.lost(conn, why)
        if pool.head() is not None or self.hub.actors.waits(pool):
            pool.hungry_at = time.monotonic()
            self.places.hungry(pool)
        self.hub.pump.flush()

    def spare_came(self, slot: Slot, channel: Any, number: int) -> None:
        """There is a process of an executor on another machine."""
        if slot.pool.slots.get(slot.executor) is not slot:
            channel.close()
            return
        slot.spares.append((channel, number))
        self.dispatch(slot.pool)
        self.hub.pump.flush()

    def cannot(self, pool: Pool, why: str) -> None:
        """No node of the cluster could have such an executor."""
        pool.failure = TaskUnschedulableError(why)
        while pool.head() is not None:
            self.hub.fail_with(pool.pop(), pool.failure)
        self.hub.actors.cannot(pool, why)

    def wanted(self, pool: Pool, now: float) -> int:
        """How many more executors the pool needs."""
        waiting = pool.waiting() + self.hub.actors.waits(pool)
        have = len(pool.asked) + sum(each.is_granted for each in pool.slots.values())
        if not waiting:
            return 0
        if pool.is_free:
            return 1 - have
        limit = pool.limit or 1
        if pool.hungry_at is not None and now - pool.hungry_at > _EXTRA_AFTER_S:
            limit += _EXTRA_MAX
        return min(waiting + pool.busy(), limit) - have

    def tick(self, now: float) -> None:
        """Gives idle slots back, and takes back what waits behind a long task."""
        for pool in list(self.pools.values()):
            is_waiting = pool.head() is not None or self.hub.actors.waits(pool) > 0
            if is_waiting:
                self.dispatch(pool)  # A process could not be started a moment ago.
            if is_waiting and pool.hungry_at is not None and now - pool.hungry_at > _EXTRA_AFTER_S:
                self.places.hungry(pool)
            if is_waiting or not pool.asked:
                pool.waited_at = now
            elif now - pool.waited_at > IDLE_S:
                self._withdraw(pool)
            for slot in list(pool.slots.values()):
                self._tend(pool, slot, is_waiting, now)
        self._share(now)

    def _share(self, now: float) -> None:
        """Work that waits, and whose pool has no executor, gets the capacity of another pool."""
        if now - self._shared_at < _SHARE_S:
            return
        starved = filter(self._is_starved, self.pools.values())
        if any(now - (pool.hungry_at or now) > _SHARE_S for pool in starved):
            self._shared_at = now
            for pool in self.pools.values():
                if pool.slots:
                    self._withdraw(pool)  # Its requests would come first. It may make new ones.
            self.yield_slot()

    def _is_starved(self, pool: Pool) -> bool:
        """Work waits, and no executor could run it later."""
        waits = pool.head() is not None or self.hub.actors.waits(pool) > 0
        return pool.hungry_at is not None and not pool.slots and waits

    def freed(self, slot: Slot) -> None:
        """An actor's process has ended: its place goes to what has waited for longer."""
        others = (pool for pool in self.pools.values() if pool is not slot.pool)
        if any(map(self._is_starved, others)):
            self._withdraw(slot.pool)
            self.drain_slot(slot.pool, slot)
            self.settle(slot)
        else:
            self.dispatch(slot.pool)

    def _withdraw(self, pool: Pool) -> None:
        """Gives back what was asked for and is not needed any more."""
        asked, pool.asked = pool.asked, set()
        for executor in asked:
            self.places.release(executor)

    def _tend(self, pool: Pool, slot: Slot, is_waiting: bool, now: float) -> None:
        has_actor = False
        for conn in slot.conns:
            has_actor = has_actor or conn.actor is not None
            is_late = len(conn.inflight) > 1 and now - conn.began_at > OVERDUE_S
            if is_late and conn.actor is None and now - conn.gave_back_at > OVERDUE_S:
                conn.gave_back_at = now
                conn.post(("g",))
        is_idle = not slot.running and not slot.blocked and not has_actor
        is_over = now - slot.idle_at > IDLE_S or not slot.width
        if is_idle and is_over and (not is_waiting or not slot.width):
            self.release_slot(pool, slot)

    def _close_spares(self, slot: Slot) -> None:
        self.hub.keepers.slot_went(slot)
        for channel, _ in slot.spares:
            channel.close()
        slot.spares.clear()

    def release_slot(self, pool: Pool, slot: Slot) -> None:
        """Gives the executor back."""
        pool.slots.pop(slot.executor, None)
        self._close_spares(slot)
        for conn in list(slot.conns):
            self.close_conn(conn)
        self.places.release(slot.executor)

    def describe(self) -> str:
        """What waits for what, for people."""
        pools = self.pools.values()
        return "; ".join(pool.describe(self.hub.actors.waits(pool)) for pool in pools)
