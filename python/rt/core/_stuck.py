"""Tasks that wait in `rt.get` when their slot has no place for a further one: they keep the slot
while they wait, and fail once nothing else of the session runs. With the hub's lock."""

from __future__ import annotations

from typing import Any

from rt.core._places import BLOCKED_MAX, Conn
from rt.core._values import pack
from rt.exceptions import RayError

Hub = Any  # rt.core._hub.Hub, which imports this module.

STUCK_S = 1.0  # Nothing has run for so long: what they wait for will not come.


class Stuck:
    """The processes of a session that wait and have not lent their slot."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._conns: dict[Conn, None] = {}
        self._ran_at = 0.0  # When something else ran last.

    def add(self, conn: Conn) -> None:
        """Its slot has as many waiting processes as it may have."""
        self._conns[conn] = None
        self._ran_at = 0.0

    def look(self, now: float) -> None:
        """Lends the slots that may be lent by now. Fails what waits for nothing that runs."""
        schedule = self._hub.schedule
        for conn in list(self._conns):
            if conn.is_closed or not conn.wanted:
                del self._conns[conn]
            elif schedule.block(conn):
                del self._conns[conn]
                schedule.dispatch(conn.slot.pool)
        if not self._conns:
            return
        if not self._ran_at or self._runs_other():
            self._ran_at = now
        elif now - self._ran_at > STUCK_S:
            for conn in self._conns:
                self._fail(conn)
            self._conns.clear()

    def _runs_other(self) -> bool:
        return any(
            conn.inflight and not conn.is_blocked and conn not in self._conns
            for pool in self._hub.schedule.pools.values()
            for slot in pool.slots.values()
            for conn in slot.conns
        )

    def _fail(self, conn: Conn) -> None:
        text = f"{BLOCKED_MAX} tasks of one slot wait in rt.get; submit fewer tasks that wait"
        error = pack(RayError(text))[0]
        for each in conn.wanted:
            conn.post(("v", each, error, True, ()))
        conn.wanted.clear()
