"""The actors of a session: their processes, their calls in order, their restarts. All with the
hub's lock."""

from __future__ import annotations

from collections import deque
from itertools import chain, islice
from typing import Any, Optional

from rt.core._actor import ALIVE, DEAD, PENDING, STARTING, Actor
from rt.core._channel import Channel
from rt.core._dial import ACTORS_PROCESS
from rt.core._lending import lent_slots
from rt.core._places import Conn, Pool, Slot
from rt.core._records import STREAM, Entry, Function, Options, Task
from rt.core._values import Packed, PackedCall, unpack
from rt.exceptions import (
    ActorDiedError,
    ActorUnavailableError,
    ActorUnschedulableError,
    PendingCallsLimitExceeded,
    RayError,
    TaskError,
)

Hub = Any  # rt.core._hub.Hub, which imports this module.

_AHEAD = 1000  # Calls that are sent to a process before it has run them.


def _text_of(error: Packed) -> str:
    """The text of an error, whose class the driver may lack."""
    try:
        cause = unpack(error)
    except Exception as failure:
        return f"(its error cannot be read here: {failure})"
    return cause.traceback_str if isinstance(cause, TaskError) else str(cause)


class Actors:
    """The actors of a session."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.by_id: dict[int, Actor] = {}
        self._names: dict[tuple[str, str], int] = {}
        self._unplaced: dict[int, Actor] = {}

    def create(
        self, number: int, function: Function, call: PackedCall, options: dict[str, Any]
    ) -> None:
        """A new actor. Raises ValueError when its name is taken."""
        name = options.get("name")
        key = (str(options.get("namespace") or ""), str(name))
        if name:
            taken = self.by_id.get(self._names.get(key, -1))
            if taken is not None and taken.state != DEAD:
                raise ValueError(
                    f"an actor with the name {name!r} exists; get_actor({name!r}) returns it"
                )
        hub = self.hub
        pool = hub.schedule.pool((options["resources"], options.get("env_vars") or ()))
        actor = Actor(number, hub.learn(function), call, options, pool)
        self._register(actor)
        if name:
            self._names[key] = number
        for each in (*call[1], *(each for _, each in call[2])):
            hub.keep(each)
        if pool.failure is not None:
            self._die(actor, ActorUnschedulableError(str(pool.failure)))
            return
        if actor.is_detached:
            self._create_detached(actor)
            return
        self._unplaced[number] = actor
        self._await_arguments(actor)

    def _create_detached(self, actor: Actor) -> None:
        if not actor.options.get("name"):
            self._die(actor, ActorDiedError("a detached actor needs a name"))
        elif actor.call[1] or actor.call[2] or actor.function.refs:
            text = (
                "a detached actor outlives this session: it and its class use values, not "
                "references or handles of other actors; get_actor(name) finds those"
            )
            self._die(actor, ActorDiedError(text))
        else:
            self.hub.schedule.places.create_detached(actor)

    def adopt_detached(self, name: str) -> Actor:
        """A detached actor of another session, or of an earlier one."""
        key = ("", name)
        known = self.by_id.get(self._names.get(key, -1))
        if known is not None and known.state != DEAD:
            return known
        pool = self._pool()
        function = Function(name, b"")
        actor = Actor(self.hub.number(), function, (None, (), ()), {
            "name": name, "lifetime": "detached", "resources": ()}, pool)  # fmt: skip
        self._register(actor)
        self.hub.entries[actor.id].count = 0  # The handles follow.
        self._names[key] = actor.id
        self.hub.schedule.places.follow(actor)
        return actor

    def reached(self, actor: Actor, slot: Slot, channel: Channel) -> None:
        """There is a connection to a detached actor."""
        if actor.state == DEAD:
            channel.close()
            return
        if actor.is_killed:
            channel.close()
            self.hub.schedule.places.follow(actor)
            return
        conn = Conn(self.hub, slot, channel)
        conn.actor = actor
        slot.conns.add(conn)
        self.hub.pump.add(conn)
        actor.conn, actor.state = conn, STARTING

    def introduced(self, conn: Conn, name: str, methods: dict[str, Any]) -> None:
        """A detached actor has said what it is."""
        conn.actor.function.name = name
        whole = {  # An actor of an earlier version says nothing of arguments.
            key: (each, None) if isinstance(each, Options) else each
            for key, each in methods.items()
        }
        conn.actor.options = {**conn.actor.options, "methods": whole}

    def end_detached(self, actor: Actor, error: BaseException) -> None:
        """A detached actor has ended, or cannot be reached."""
        self._end_conn(actor)
        self._die(actor, error)

    def _pool(self) -> Pool:
        return self.hub.schedule.pool(((), ()))

    def create_dead(self, number: int, function: Function, why: str) -> None:
        """An actor that cannot be: its calls say why."""
        actor = Actor(number, function, (None, (), ()), {"resources": ()}, self._pool())
        self._register(actor)
        actor.refused = why
        self._die(actor, ActorDiedError(why))

    def check_made(self, number: int) -> None:
        """Raises ValueError when the actor was refused, because its name is taken."""
        actor = self.by_id.get(number)
        if actor is not None and actor.refused:
            raise ValueError(actor.refused)

    def _register(self, actor: Actor) -> None:
        self.by_id[actor.id] = actor
        self.hub.entries[actor.id] = Entry()

    def _await_arguments(self, actor: Actor) -> None:
        missing = [n for _, n in actor.call[2] if not self.hub.entries[n].is_ready]
        if missing:
            self.hub.entries[missing[0]].wait(lambda _number, _entry: self._await_arguments(actor))
        else:
            self.place(actor.pool)

    def waits(self, pool: Pool) -> int:
        """How many actors wait for an executor of the pool."""
        return sum(each.pool is pool for each in self._unplaced.values())

    def place(self, pool: Pool) -> None:
        """Gives waiting actors their processes, as long as there is room."""
        if not self._unplaced:
            return
        waiting = [each for each in self._unplaced.values() if each.pool is pool]
        for index, actor in enumerate(waiting):
            if any(not self.hub.entries[number].is_ready for _, number in actor.call[2]):
                continue
            conn = self._connect(pool, len(waiting) - index)
            if conn is None:
                self.hub.schedule.hunger(pool)
                return
            del self._unplaced[actor.id]
            self._start(actor, conn)

    def _connect(self, pool: Pool, waiting: int) -> Optional[Conn]:
        """A process for an actor. A slot that takes long to reach holds up no other: as many slots
        are dialled as actors wait."""
        own = islice(filter(self._has_room, pool.slots.values()), waiting)
        for slot in chain(own, lent_slots(self.hub.schedule.pools.values(), pool)):
            conn = self.hub.schedule.connect(slot)
            if conn is not None:
                return conn
        return None

    def _has_room(self, slot: Slot) -> bool:
        return slot.is_granted and (slot.pool.is_free or slot.running < slot.width)

    def _start(self, actor: Actor, conn: Conn) -> None:
        hub = self.hub
        actor.conn, actor.state = conn, STARTING
        conn.actor = actor
        if not actor.pool.is_free:
            conn.slot.running += 1
        task = Task(actor.id, actor.function, Options(()), *actor.call, [])
        values = hub.arguments_of(task)
        if isinstance(values, Entry):
            self._end_conn(actor)
            text = f"an argument of {actor.function.name} failed:\n{_text_of(values.packed)}"
            self._die(actor, ActorDiedError(text))
            return
        hub.schedule.send_function(conn, task)
        hub.schedule.lend(conn, task, values)
        options = {key: actor.options.get(key) for key in ("max_concurrency", "name")}
        options["restarts"] = actor.restarts
        conn.post(("A", actor.id, actor.function.digest, actor.call[0], values, options))

    def made(self, conn: Conn, error: Optional[Packed]) -> None:
        """Its constructor has returned, or raised."""
        actor: Actor = conn.actor
        if error is None:
            actor.state = ALIVE
            self.send_calls(actor)
            if actor.is_ending:
                self._end_if_done(actor)
            return
        text = f"the constructor of {actor.function.name} raised:\n{_text_of(error)}"
        self._end_conn(actor)
        self._die(actor, ActorDiedError(text))

    def call(
        self,
        number: int,
        actor_id: int,
        method: str,
        call: PackedCall,
        options: Options,
        returns: list[int],
        caller: Optional[Conn] = None,
    ) -> Task:
        """A call, to be added. `caller`: the process that calls; None: the driver. Raises
        PendingCallsLimitExceeded, and ValueError."""
        actor = self.by_id.get(actor_id)
        if actor is None:
            raise ValueError("the actor is not known in this session")
        most = int(actor.options.get("max_pending_calls") or -1)
        if most > 0 and actor.has_pending(most, caller):
            raise PendingCallsLimitExceeded(f"{most} calls of {actor.name} wait already")
        task = Task(number, actor.function, options, *call, returns)
        task.actor, task.method, task.caller = actor, method, caller
        return task

    def add_call(self, task: Task) -> None:
        """The call waits for its turn."""
        actor: Actor = task.actor
        self.hub.keep(actor.id)  # A call keeps its actor.
        if actor.state == DEAD:
            self._fail(task, self._died(actor))
            return
        actor.calls.append(task)
        if actor.state == ALIVE:
            self.send_calls(actor)

    def send_calls(self, actor: Actor) -> None:
        """Sends the calls of each caller in their order, up to its first whose arguments are
        missing. An actor that runs several at a time has no order: those whose arguments are
        missing are overtaken."""
        conn = actor.conn
        if actor.state != ALIVE or conn is None:
            return
        hub, calls = self.hub, actor.calls
        ahead_max = max(_AHEAD, int(actor.options.get("max_concurrency") or 0))
        while calls and len(conn.inflight) < ahead_max:
            task = calls[0]
            calls.popleft()
            if task.caller in actor.held and not task.tries:  # What runs again held up the others.
                actor.held[task.caller].append(task)
                continue
            if task.missing and not task.cancelled:
                if actor.options.get("is_ordered", True):
                    actor.held[task.caller] = deque([task])
                else:
                    actor.aside[task.id] = task
                continue
            if task.id not in hub.tasks:  # It was cancelled.
                self.hub.release(actor.id)
                continue
            values = hub.arguments_of(task)
            if isinstance(values, Entry):
                for each in values.refs:
                    hub.keep(each)
                hub.fail_task(task, values.packed, values.refs)
                self.hub.release(actor.id)
                continue
            if actor.is_detached and (
                task.refs or any(hub.entries[number].refs for _, number in task.places)
            ):
                text = "a detached actor belongs to no session: pass it values, not references"
                self._fail(task, ValueError(text))
                continue
            hub.schedule.lend(conn, task, values)
            conn.inflight[task.id] = task
            task.conn = conn
            options = task.options
            is_bounded = options.num_returns == STREAM and not actor.is_detached
            ahead = (options.ahead_max if task.taken >= 0 else -1,) if is_bounded else ()
            conn.post_task(("c", task.id, task.method, task.packed, values,
                            options.num_returns, options.retry_on, *ahead))  # fmt: skip
            if task.taken > 0 and is_bounded:
                conn.post(("k", task.id, task.taken))

    def arguments_came(self, task: Task) -> None:
        """Nothing that the call needs is missing any more, or it was cancelled."""
        actor: Actor = task.actor
        if actor.aside.pop(task.id, None) is not None:
            actor.calls.append(task)
        held = actor.held.get(task.caller)
        if held and held[0] is task:
            del actor.held[task.caller]
            actor.calls.extendleft(reversed(held))
        self.send_calls(actor)

    def call_ended(self, actor: Actor) -> None:
        """A call has ended."""
        self.send_calls(actor)
        self.hub.release(actor.id)
        if actor.is_ending:
            self._end_if_done(actor)

    def call_again(self, task: Task) -> None:
        """A call that raised is called again; call_ended follows."""
        actor: Actor = task.actor
        self.hub.keep(actor.id)
        actor.calls.appendleft(task)

    def _fail(self, task: Task, error: BaseException) -> None:
        self.hub.fail_with(task, error)
        self.hub.release(task.actor.id)

    # Ends.

    def out_of_scope(self, number: int) -> None:
        """Its last handle is gone: it ends once its calls have."""
        actor = self.by_id[number]
        if actor.is_detached:
            return
        actor.is_ending = True
        self._end_if_done(actor)

    def _end_if_done(self, actor: Actor) -> None:
        entry = self.hub.entries.get(actor.id)
        busy = actor.waiting or (actor.conn is not None and actor.conn.inflight)
        if entry is None or busy or entry.count > 0 or actor.state == STARTING:
            return
        self._end_conn(actor)
        self._die(actor, ActorDiedError(f"{actor.name} has ended: no handle of it was left"))
        self._forget(actor)

    def _forget(self, actor: Actor) -> None:
        self.by_id.pop(actor.id, None)
        self.hub.entries.pop(actor.id, None)
        for key in [key for key, number in self._names.items() if number == actor.id]:
            del self._names[key]

    def kill(self, number: int, no_restart: bool) -> None:
        """Ends its process at once. Its calls fail."""
        actor = self.by_id.get(number)
        if actor is None:
            raise ValueError("the actor is not known in this session")
        if actor.state == DEAD:
            return
        error = ActorDiedError(f"{actor.name} was ended by rt.kill")
        if no_restart:
            actor.options = {**actor.options, "max_restarts": 0}
        conn = actor.conn
        if actor.is_detached and no_restart:
            self.hub.schedule.places.kill_detached(actor)
            self.end_detached(actor, error)
            return
        if actor.is_detached:
            pid = conn.pid if conn is not None else ACTORS_PROCESS
            self.hub.schedule.places.restart_detached(actor, pid)
        elif conn is not None:
            self.hub.schedule.places.kill(conn)
        if conn is None:
            if no_restart:
                self._die(actor, error)
            return
        self.lost(actor, conn, "it was ended by rt.kill", error)

    def left(self, conn: Conn) -> None:
        """It called exit_actor."""
        actor: Actor = conn.actor
        actor.options = {**actor.options, "max_restarts": 0}
        self.lost(actor, conn, "", ActorDiedError(f"{actor.name} called exit_actor()"))

    def lost(self, actor: Actor, conn: Conn, why: str, error: Optional[RayError] = None) -> None:
        """Its process has ended."""
        hub = self.hub
        if actor.conn is not conn:
            return
        tasks = list(conn.inflight.values())
        crash = error or ActorDiedError(str(hub.schedule.crash(conn, actor.name, why)))
        self._end_conn(actor)
        again = actor.max_restarts < 0 or actor.restarts < actor.max_restarts
        again = again or actor.is_detached  # The head knows.
        if again and not actor.is_ending:
            actor.restarts += 1
            actor.state = PENDING
            if actor.is_detached:
                self.hub.schedule.places.follow(actor)
            else:
                self._unplaced[actor.id] = actor
            unavailable = ActorUnavailableError(
                f"{crash}; the call may have run, the actor restarts"
            )
            for task in reversed(tasks):
                if task.may_retry() and not task.cancelled:
                    task.try_again()
                    actor.calls.appendleft(task)
                else:
                    self._fail(task, unavailable)
            self.place(actor.pool)
            return
        for task in tasks:
            self._fail(task, crash)
        self._die(actor, crash)

    def _end_conn(self, actor: Actor) -> None:
        conn, actor.conn = actor.conn, None
        if conn is None:
            return
        if not actor.pool.is_free and not conn.is_blocked:
            conn.slot.running -= 1
        self.hub.schedule.close_conn(conn)
        conn.inflight.clear()
        if not actor.pool.is_free:
            self.hub.schedule.freed(conn.slot)

    def _died(self, actor: Actor) -> BaseException:
        return actor.died or ActorDiedError(f"{actor.name} has ended")

    def _die(self, actor: Actor, error: BaseException) -> None:
        if actor.state == DEAD:
            return
        actor.state, actor.died = DEAD, error
        self._unplaced.pop(actor.id, None)
        held = [task for each in actor.held.values() for task in each]
        calls = [*held, *actor.calls, *actor.aside.values()]
        actor.calls, actor.aside, actor.held = deque(), {}, {}
        for task in calls:
            self._fail(task, error)
        call, actor.call = actor.call, (None, (), ())
        for each in (*call[1], *(each for _, each in call[2])):
            self.hub.release(each)
        entry = self.hub.entries.get(actor.id)
        if entry is not None and entry.count <= 0:
            self._forget(actor)

    def cannot(self, pool: Pool, why: str) -> None:
        """No node could have the executor that they need."""
        for actor in [each for each in self._unplaced.values() if each.pool is pool]:
            self._die(actor, ActorUnschedulableError(why))

    def find(self, name: str, namespace: Optional[str] = None) -> dict[str, Any]:
        """The actor of a name. Raises ValueError."""
        actor = self.by_id.get(self._names.get((namespace or "", name), -1))
        if actor is None or actor.state == DEAD:
            raise ValueError(f"no actor has the name {name!r}")
        return self.describe(actor)

    def describe(self, actor: Actor) -> dict[str, Any]:
        """What a handle of the actor is made of."""
        return {
            "id": actor.id,
            "class": actor.function.name,
            "methods": actor.options.get("methods") or {},
        }
