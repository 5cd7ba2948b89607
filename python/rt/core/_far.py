"""The executors of other machines. In a job the daemon of this node carries the bytes; outside of
the cluster `rt bridge` does, through the head (adr/0041). All here may wait for the head or for a
node that does not answer, and is called without the hub's lock, from any thread."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import sys
import threading
import time
from typing import Any, NamedTuple, Optional, Union

from rt import _driver
from rt._errors import RtError
from rt.core._channel import Channel
from rt.core._dial import KEEP, KILL, TASKS, dial_path, greet
from rt.core._keepers import Keeper
from rt.core._near import LISTENS_WITHIN_S
from rt.core._places import Slot

_ANSWERS_WITHIN_S = 5.0  # A process there.
_AGAIN_S = 0.02
_AGAIN_OUTSIDE_S = 0.2  # Each try takes a connection of the head.
_OUTSIDE_WITHIN_S = 8.0  # An executor that has had no process for 10 s ends.
FINAL = ("PERMISSION_DENIED", "UNAUTHENTICATED", "UNIMPLEMENTED")


class Refusal(NamedTuple):
    """Why one try failed."""

    code: str
    why: str


class Reached(NamedTuple):
    """A new process of a slot, and its number; no channel: it cannot be reached, or has gone."""

    channel: Optional[Channel]
    number: int
    refusal: Refusal  # Of the newest try.


class OtherMachines:
    """The ways of a session to executors that are not on this machine."""

    def __init__(self, driver: _driver.Driver, session: str, secret: str, places: Any) -> None:
        self._driver = driver
        self._session = session
        self._secret = secret
        self._places = places
        self._hub = places._hub
        self._lock = threading.Lock()
        self._connection: Optional[_driver.Driver] = None
        self._told: set[int] = set()

    def dial_keeper(self, keeper: Keeper) -> None:
        """Starts the process that keeps values there; `came` follows."""
        reached = self.reach(keeper.slot, KEEP)
        with self._hub.lock:
            keeper.came(reached.channel)
        self._hub.pump.wake()

    def reach(self, slot: Slot, what: int) -> Reached:
        """A new process of a slot. Tries again until the executor listens."""
        hub = self._hub
        within_s = LISTENS_WITHIN_S if self._driver.inside_job else _OUTSIDE_WITHIN_S
        end = time.monotonic() + within_s
        number, refusal = 0, Refusal("", "")
        while time.monotonic() < end and not self._places.is_closed:
            with hub.lock:
                if slot.pool.slots.get(slot.executor) is not slot:
                    break  # It has gone.
                number = hub.conn_number()
            found = self._try(slot, number, what)
            if isinstance(found, Channel):
                return Reached(found, number, refusal)
            refusal = found
            if refusal.code in FINAL and not self._driver.inside_job:
                break
            time.sleep(_AGAIN_S if self._driver.inside_job else _AGAIN_OUTSIDE_S)
        return Reached(None, number, refusal)

    def reason_of(self, slot: Slot, refusal: Refusal) -> Optional[str]:
        """Why a slot that is still there cannot be reached from outside of the cluster; None: it
        has gone, or is tried again, which is said once. With the hub's lock."""
        code, why = refusal
        if self._driver.inside_job or not why:
            return None
        if slot.pool.slots.get(slot.executor) is not slot:
            return None
        name = f"executor {slot.executor} on {slot.node.get('name')}"
        if code == "FAILED_PRECONDITION":
            return None  # It ends.
        if code not in _driver.ASK_AGAIN:
            return f"{name} cannot be reached from this machine: {why}"
        if slot.executor not in self._told:
            self._told.add(slot.executor)
            print(f"rt: {name} is not reached yet: {why}", file=sys.stderr, flush=True)
        return None

    def _try(self, slot: Slot, number: int, what: int) -> Union[Channel, Refusal]:
        """A process that has said that it is there, or why not now."""
        sock = self._socket(slot)
        if isinstance(sock, Refusal):
            return sock  # If the executor has gone, the head says so.
        refusal = Refusal("", "its process ended at once, or did not answer")
        try:
            sources = self._places.sources() if what == TASKS else {}
            channel: Channel = self._places.greeted(sock, slot, number, sources, what)
            while not channel.flush():
                select.select([], [sock], [], _ANSWERS_WITHIN_S)
            ready, _, _ = select.select([sock], [], [], _ANSWERS_WITHIN_S)
            if ready and sock.recv(1, socket.MSG_PEEK):
                return channel
        except OSError as error:
            refusal = Refusal("", str(error))
        sock.close()
        return refusal

    def kill(self, slot: Slot, pid: int) -> None:
        """Has the executor kill a process of its own."""
        sock = self._socket(slot)
        if not isinstance(sock, Refusal):
            with contextlib.suppress(OSError), sock:
                greet(sock, slot.secret or self._secret, KILL, pid)

    def _socket(self, slot: Slot) -> Union[socket.socket, Refusal]:
        try:
            return dial_path(str(self._way_to(slot.executor)["socket"]))
        except (RtError, ValueError, OSError) as error:
            return Refusal(getattr(error, "code", ""), str(error))

    def _way_to(self, executor: int) -> Any:
        with self._lock:
            if self._connection is None:
                self._connection = second_connection(self._driver)
        return way_to(self._connection, self._session, executor)


def way_to(connection: _driver.Driver, session: str, executor: int) -> Any:
    """{"socket"}: where one connection to the executor is taken. Raises RtError."""
    if connection.inside_job:
        return connection.call("executor_dial", id=executor)
    return connection.call("executor_dial", executor=executor, session=session)


def second_connection(driver: _driver.Driver) -> _driver.Driver:
    """One for a thread that may wait long: a bridge answers many requests at a time, the socket of
    a daemon one."""
    if isinstance(driver, _driver.SocketDriver):
        return _driver.SocketDriver(os.environ["RT_SOCKET"], os.environ["RT_TOKEN"])
    return driver
