"""The executors of a driver: requested, awaited, connected to, and given back (adr/0041)."""

from __future__ import annotations

import atexit
import contextlib
import os
import queue
import socket
import sys
import threading
import time
from typing import Any, Callable, Optional

from rt import _driver, _runtime
from rt._errors import RtError
from rt.core._channel import Channel
from rt.core._client import Client
from rt.core._code import StoredCode
from rt.core._crew import Crew
from rt.core._current import find_client, set_client
from rt.core._detached import Detached
from rt.core._dial import TASKS, boot_id, dial, dial_at_once, greet
from rt.core._far import OtherMachines, Refusal, second_connection
from rt.core._hub import Hub
from rt.core._keepers import Keeper
from rt.core._near import (
    LISTENS_WITHIN_S,
    Sources,
    cause_in,
    kill_near,
    listens,
    raise_open_files,
)
from rt.core._own import OwnCapacity
from rt.core._places import Conn, Pool, Slot
from rt.core._spec import executor_spec

_HOLD_MS = 10_000
_AGAIN_S = 0.2  # The head is away: it is asked again.
_LIMIT_S = 2.0  # How long the size of the cluster is taken as known.
_CLOSE_S = 5.0
_YIELD_S = 1.0  # An executor is given back so often at most while others wait for capacity.


class Places:
    """The executors of a session. One thread awaits the head's answers and one asks it; one more
    reaches the executors of this machine, and some those of others."""

    def __init__(self, driver: _driver.Driver, session: str) -> None:
        self._driver = driver
        self.session = session
        self._secret = os.urandom(16).hex()
        self._hub: Any = None
        self._boot_id = boot_id()
        self._work: queue.SimpleQueue[Optional[Callable[[], None]]] = queue.SimpleQueue()
        self._pools: dict[int, Pool] = {}  # By executor.
        self._newest: dict[int, dict[str, Any]] = {}  # What the head said of each last.
        self._reached: set[int] = set()  # Executors that a thread waits for.
        self._limits_at = 0.0
        self._totals: dict[str, float] = {}
        self._requests = 0
        self._watching = False
        self._queued: set[int] = set()  # Pools about which the other thread will ask.
        self.is_closed = False
        self._sources = Sources()
        self._code = StoredCode(driver)
        self._near: queue.SimpleQueue[Optional[Callable[[], Any]]] = queue.SimpleQueue()
        self._far = Crew("rt-other-machines")  # By node.
        self._dialling: set[int] = set()  # Slots for which such a thread makes a process.
        for name, work in (("rt-executors", self._work), ("rt-this-machine", self._near)):
            threading.Thread(target=_run, args=(work,), name=name, daemon=True).start()

    def attach(self, hub: Any) -> None:
        """The hub that uses the executors."""
        self._hub = hub
        self._detached = Detached(self._driver, self.session, self._secret, hub)
        self._own = OwnCapacity(hub, self._spec_of)
        self._others = OtherMachines(self._driver, self.session, self._secret, self)

    # Called with the hub's lock: nothing here blocks.

    def hungry(self, pool: Pool) -> None:
        """Work waits in the pool."""
        if id(pool) not in self._queued and not self.is_closed:
            self._queued.add(id(pool))
            self._work.put(lambda: self._request(pool))

    def release(self, executor: int) -> None:
        """The executor is not needed any more."""
        if executor < 0:
            self._own.release(executor)
            return
        self._pools.pop(executor, None)
        self._work.put(lambda: self._release([executor], "it was idle"))

    def dial(self, slot: Slot, number: int) -> Optional[Channel]:
        """A new process of a slot on this machine; None: it would take time (`dial_later`)."""
        sources = self._sources.known()
        if sources is None:
            return None
        try:
            return self.greeted(dial_at_once(slot.trial_dir), slot, number, sources)
        except OSError:
            return None

    def greeted(
        self, sock: socket.socket, slot: Slot, number: int, sources: dict[str, Any],
        what: int = TASKS,
    ) -> Channel:  # fmt: skip
        """The connection to a process of the slot, which has been told who its driver is."""
        try:
            greet(sock, self._secret, what, number)
        except BaseException:
            sock.close()
            raise
        channel = Channel(sock, slot.is_local)
        channel.post(("hello", self.session, sys.path, sources, _runtime.namespace, slot.node,
                      slot.is_local))  # fmt: skip
        return channel

    def kill(self, conn: Conn) -> None:
        """Kills the process, in another thread."""
        if not conn.pid:
            return
        slot, pid = conn.slot, conn.pid
        if slot.is_local:
            self._near.put(lambda: kill_near(slot.trial_dir, slot.secret or self._secret, pid))
        else:
            self._far.put(slot.node.get("id"), lambda: self._others.kill(slot, pid))

    def dial_later(self, slot: Slot) -> None:
        """A new process of a slot, in another thread; `spare_came` follows."""
        if id(slot) in self._dialling:
            return
        self._dialling.add(id(slot))
        if slot.is_local:
            self._near.put(lambda: self._dial_near(slot))
        else:
            self._far.put(slot.node.get("id"), lambda: self._dial_far(slot))

    def cause_of(self, conn: Conn) -> str:
        """Why the process ended, if that is known."""
        known = self._newest.get(conn.slot.executor)
        has_ended = known is not None and known.get("state") in ("ENDED", "STOPPING")
        if known is not None and has_ended and known.get("reason"):
            return str(known["reason"])
        return cause_in(conn.slot.trial_dir, conn.pid)

    def sources(self) -> dict[str, Any]:
        """The sources of the user's modules, from the files if need be."""
        return self._sources.read()

    # In the threads for this machine and for others.

    def _dial_far(self, slot: Slot) -> None:
        hub = self._hub
        reached = self._others.reach(slot, TASKS)
        with hub.lock:
            self._dialling.discard(id(slot))
            if reached.channel is not None:
                hub.schedule.spare_came(slot, reached.channel, reached.number)
            else:
                self._give_up(slot, reached.refusal)
        hub.pump.wake()

    def _give_up(self, slot: Slot, refusal: Refusal) -> None:
        """A slot that was not reached may be of no use. With the lock."""
        why = self._others.reason_of(slot, refusal)
        if why is not None:
            self._pools.pop(slot.executor, None)
            self._hub.schedule.cannot(slot.pool, why)
            self._hub.schedule.slot_went(slot.pool, slot.executor, why, False)
            self._work.put(lambda: self._release([slot.executor], why))

    def _dial_near(self, slot: Slot) -> None:
        hub = self._hub
        sources = self._sources.read()
        with hub.lock:
            number = hub.conn_number()
        channel = None
        with contextlib.suppress(OSError):  # The schedule asks again.
            channel = self.greeted(dial(slot.trial_dir), slot, number, sources)
        with hub.lock:
            self._dialling.discard(id(slot))
            if channel is not None:
                hub.schedule.spare_came(slot, channel, number)
        hub.pump.wake()

    def dial_keeper(self, keeper: Keeper) -> None:
        """Starts the process that keeps values on another machine; `came` follows."""
        self._far.put(keeper.slot.node.get("id"), lambda: self._others.dial_keeper(keeper))

    def create_detached(self, actor: Any) -> None:
        """Asks for a detached actor, and connects to it."""
        self._detached.create(actor, lambda: self._spec_of(actor.pool))

    def follow(self, actor: Any) -> None:
        """Connects to a detached actor."""
        self._detached.follow(actor)

    def kill_detached(self, actor: Any) -> None:
        """Ends a detached actor."""
        self._detached.kill(actor)

    def restart_detached(self, actor: Any, pid: int) -> None:
        """Ends the process of a detached actor, so that it is made anew."""
        self._detached.restart(actor, pid)

    def ask_later(self, what: str, answer: Callable[[bool, Any], None]) -> None:
        """`ask` in the other thread."""

        def work() -> None:
            try:
                answer(True, self.ask(what))
            except Exception as error:
                answer(False, error)

        self._work.put(work)

    # Blocking, without the lock.

    def check_detached(self, name: str) -> None:
        """Raises ValueError unless the user has a detached actor of this name."""
        self._detached.check(name)

    def ask(self, what: str) -> Any:
        """The nodes of the cluster, or its resources."""
        if what == "nodes":
            return _runtime.list_nodes(self._driver)
        which = "total" if what == "cluster_resources" else "free"
        return _runtime.read_resources(which, self._driver)

    def close(self) -> None:
        """Gives all executors back."""
        if self.is_closed:
            return
        self.is_closed = True
        with self._hub.lock:
            self._own.close()
        done = threading.Event()

        def last() -> None:
            if self._requests and not self._driver.embedded:
                self._release(None, "its driver ended")
            done.set()

        self._near.put(lambda: self._work.put(last))  # After what is to be killed.
        done.wait(_CLOSE_S)
        self._detached.close(_CLOSE_S)
        self._near.put(None)
        self._work.put(None)
        self._far.close()

    def _request(self, pool: Pool) -> None:
        hub = self._hub
        if _driver.has_no_cpus() and dict(pool.shape[0]).get("cpu"):
            self._cannot(pool, "the cluster has no cpu: rt.init(num_cpus=0)")
            return
        self._sources.read()
        self._queued.discard(id(pool))
        with hub.lock:
            count = hub.schedule.wanted(pool, time.monotonic())
        if count <= 0 and pool.limit is not None:
            return
        if count > 0 and not self._ask_for(pool, 1 if pool.limit is None else count):
            return
        if pool.limit is None or time.monotonic() - self._limits_at > _LIMIT_S:
            self._learn_limit(pool)
            with hub.lock:
                count = hub.schedule.wanted(pool, time.monotonic())
            if count > 0:
                self._ask_for(pool, count)

    def _ask_for(self, pool: Pool, count: int) -> bool:
        self._requests += 1
        key = f"{self.session}-{self._requests}"
        while True:
            try:
                answer = self._driver.call(
                    "executor_request", session=self.session, key=key, count=count,
                    spec=self._spec_of(pool),
                )  # fmt: skip
                break
            except (RtError, ValueError) as error:
                if self.is_closed:
                    return False
                if getattr(error, "code", "") not in _driver.ASK_AGAIN:
                    self._cannot(pool, str(error))
                    return False
            time.sleep(_AGAIN_S)
        with self._hub.lock:
            for number in answer["executors"]:
                pool.asked.add(number)
                self._pools[number] = pool
        if not self._watching:
            self._watching = True
            threading.Thread(target=self._watch, name="rt-awaits", daemon=True).start()
        else:  # It may have come before it was known whose it is.
            for number in answer["executors"]:
                if number in self._newest:
                    self._apply(self._newest[number])
        return True

    def _cannot(self, pool: Pool, why: str) -> None:
        with self._hub.lock:
            self._hub.schedule.cannot(pool, why)
        self._hub.pump.wake()

    def _spec_of(self, pool: Pool) -> dict[str, Any]:
        params = {"secret": self._secret, "session": self.session}
        return executor_spec(self._driver, pool.shape, params, self._code)

    def _learn_limit(self, pool: Pool) -> None:
        self._totals = _runtime.read_resources("total", self._driver)
        self._limits_at = time.monotonic()
        names = {"cpu": "CPU", "gpu": "GPU"}
        amounts = [
            int(self._totals.get(names.get(name, name), 0.0) / amount + 1e-9)
            for name, amount in pool.shape[0]
            if amount > 0
        ]
        pool.limit = max(1, min(amounts, default=1))

    def _release(self, executors: Optional[list[int]], reason: str) -> None:
        fields: dict[str, Any] = {"session": self.session, "reason": reason}
        if executors is not None:
            fields["executors"] = executors
        try:
            self._driver.call("executor_release", **fields)
        except (RtError, ValueError) as error:
            if not self.is_closed:
                print(f"rt: an executor was not given back: {error}", file=sys.stderr, flush=True)

    def _watch(self) -> None:
        driver = second_connection(self._driver)
        seen: Any = None
        yielded_at = 0.0
        told = ""
        while not self.is_closed:
            yields = time.monotonic() - yielded_at > _YIELD_S
            hold_ms = _HOLD_MS if yields else int(_YIELD_S * 1000)
            try:
                answer = driver.call(
                    "executor_wait", session=self.session, seen=seen, hold_ms=hold_ms,
                    yields=yields, only_changes=True,
                )  # fmt: skip
            except (RtError, ValueError) as error:
                code = getattr(error, "code", "")
                if code == _driver.BRIDGE_ENDED:
                    self._lose(str(error))
                    return
                if code not in _driver.ASK_AGAIN and str(error) != told and not self.is_closed:
                    told = str(error)
                    print(f"rt: executors are not heard of: {error}", file=sys.stderr, flush=True)
                time.sleep(_AGAIN_S)
                continue
            seen = answer.get("seen")
            if answer.get("wanted"):
                yielded_at = time.monotonic()
                with self._hub.lock:
                    self._hub.schedule.yield_slot()
            listed = {int(each["id"]): each for each in answer["executors"]}
            missing = set(self._newest) - set(listed) if answer.get("whole", True) else set()
            self._newest.update(listed)
            for each in listed.values():
                self._apply(each)
            for number in missing:
                self._newest.pop(number)
                why = "the head does not know it any more"
                self._apply({"id": number, "state": "ENDED", "outcome": "LOST", "reason": why})

    def _lose(self, why: str) -> None:
        """The cluster cannot be reached any more: what runs or waits ends with an error."""
        schedule = self._hub.schedule
        with self._hub.lock:
            for pool in list(schedule.pools.values()):
                for executor in list(pool.slots):
                    schedule.slot_went(pool, executor, why, False)
            for pool in list(schedule.pools.values()):
                schedule.cannot(pool, why)
        self._hub.pump.wake()

    def _apply(self, each: dict[str, Any]) -> None:
        number = int(each["id"])
        hub = self._hub
        pool = self._pools.get(number)
        if pool is None or self.is_closed:
            return  # What is not known yet is looked at again once it is.
        if each["state"] == "ENDED":
            self._newest.pop(number, None)
        if each["state"] == "RUNNING" and number not in pool.slots:
            with hub.lock:
                is_new = number not in self._reached
                self._reached.add(number)
            if is_new:
                threading.Thread(target=self._reach, args=(each, pool), daemon=True).start()
        elif each["state"] == "STOPPING" and number in pool.slots:
            with hub.lock:
                hub.schedule.drain_slot(pool, pool.slots[number])
            hub.pump.wake()
        elif each["state"] == "ENDED":
            with hub.lock:
                self._pools.pop(number, None)
                reason = str(each.get("reason") or "its executor ended")
                is_lost = each.get("outcome") != "FAILED"
                hub.schedule.slot_went(pool, number, reason, is_lost)
            hub.pump.wake()

    def _reach(self, each: dict[str, Any], pool: Pool) -> None:
        """Waits until an executor listens."""
        number, node, hub = int(each["id"]), dict(each["node"]), self._hub
        trial_dir = f"{each['run_dir']}/trial"
        is_local = node.get("boot_id") == self._boot_id and os.path.isdir(trial_dir)
        is_good = is_local and listens(trial_dir, lambda: number in self._pools)
        with hub.lock:
            self._reached.discard(number)
            if number not in self._pools:
                return  # It has ended.
            if is_good or (not is_local and not self._driver.embedded):
                width = pool.width
                slot = Slot(number, pool, trial_dir, node, width, is_local)
                hub.schedule.slot_came(pool, slot)
            else:
                self._pools.pop(number)
                name = f"executor {number} on {node.get('name')}"
                why = f"{name} did not listen within {LISTENS_WITHIN_S:g} s"
                hub.schedule.slot_went(pool, number, why, False)
                self._work.put(lambda: self._release([number], why))
        hub.pump.wake()


def _run(queued: queue.SimpleQueue[Optional[Callable[[], Any]]]) -> None:
    """A thread that does what is queued."""
    while True:
        work = queued.get()
        if work is None:
            return
        try:
            work()
        except Exception as error:  # The thread must live: what it does is asked again.
            print(f"rt: tasks: {type(error).__name__}: {error}", file=sys.stderr, flush=True)


def open_session() -> Client:
    """The session of this process: it connects to the cluster."""
    driver = _driver.get_for_tasks()
    session = f"{socket.gethostname()[:20].lower()}-{os.getpid()}-{os.urandom(4).hex()}"
    session = "".join(each if each.isalnum() or each == "-" else "-" for each in session)
    places = Places(driver, session)
    hub = Hub(session, places)
    places.attach(hub)
    raise_open_files()
    atexit.register(close_session)
    return hub


def close_session() -> None:
    """Ends the session of this process, if it is its own."""
    client = find_client()
    if isinstance(client, Hub):
        set_client(None)
        client.close()
