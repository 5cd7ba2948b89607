"""Which large values the other nodes of a session have: each is sent to a node once (adr/0041).

A keeper is a process of one executor of a node (rt/core/_keeper.py). It is started when a large
value is first needed there. Values that more than its share of memory are dropped from it, the
longest unused first. All with the hub's lock.
"""

from __future__ import annotations

from typing import Any, Optional

from rt.core._channel import Channel
from rt.core._kept import Kept
from rt.core._places import Conn, Slot
from rt.core._values import Packed, Shared

Hub = Any  # rt.core._hub.Hub, which imports this module.


class Keeper:
    """What one node has. It is a port of the loop once it is connected."""

    def __init__(self, keepers: Keepers, slot: Slot) -> None:
        self._keepers = keepers
        self.slot = slot
        self.pid = 0  # On its node, once it is connected.
        self._channel: Optional[Channel] = None
        self._bound: Optional[int] = None  # Bytes; the keeper says it first.
        # (serial, size) by number, the longest unused first.
        self._values: dict[int, tuple[int, int]] = {}
        self._used = 0
        # By serial, to be sent one after another: only one is pickled at a time. None: it is not
        # needed any more.
        self._unsent: dict[int, Optional[Shared]] = {}
        self.is_over = False

    def lend(self, number: int, packed: Shared) -> Packed:
        """What a process of the node gets in place of the bytes; the bytes, if they are too
        many to be kept."""
        if self.is_over or (self._bound is not None and packed.size > self._bound):
            return packed
        found = self._values.pop(number, None)
        if found is None:
            found = self._keepers.serial(), packed.size
            self._used += packed.size
            self._unsent[found[0]] = packed
        self._values[number] = found
        self._trim()
        self._mark()
        return Kept(self.slot.trial_dir, found[0], number, packed.size, packed.layout)

    def drop(self, number: int) -> None:
        """The value is not needed there any more."""
        found = self._values.pop(number, None)
        if found is None:
            return
        serial, size = found
        self._used -= size
        if serial in self._unsent:
            self._unsent[serial] = None
        elif self._channel is not None:
            self._channel.post(("x", serial))
        self._mark()

    def _trim(self) -> None:
        while self._bound is not None and self._used > self._bound:
            self.drop(next(iter(self._values)))

    def _mark(self) -> None:
        if self._channel is not None:
            self._keepers.hub.pump.mark(self)

    def came(self, channel: Optional[Channel]) -> None:
        """It is connected; None: it cannot be reached."""
        if self.is_over or channel is None:
            if channel is not None:
                channel.close()
            self._keepers.lost(self)
            if channel is None:
                self._keepers.without.add(self.slot.executor)
            return
        self._channel = channel
        self._keepers.hub.pump.add(self)

    def close(self) -> None:
        """Ends the connection, and so the keeper; safe to repeat."""
        self.is_over = True
        self._unsent.clear()
        if self._channel is not None:
            self._keepers.hub.pump.remove(self)
            self._channel.close()
            self._channel = None

    # The port.

    def fileno(self) -> int:
        """The socket's descriptor."""
        return -1 if self._channel is None else self._channel.fileno()

    def on_readable(self) -> None:
        """It says its bound, or has gone."""
        assert self._channel is not None
        try:
            for message in self._channel.read():
                _, self.pid, self._bound = message
        except Exception:  # Also what is not a frame.
            self._keepers.lost(self)
            return
        self._trim()
        self._mark()

    def flush(self) -> bool:
        """Sends what its node lacks."""
        if self._channel is None or self._bound is None:
            return True
        try:
            while self._channel.flush():
                if not self._unsent:
                    return True
                serial = next(iter(self._unsent))
                self._channel.post(("k", serial, self._unsent.pop(serial)))
            return False
        except (ConnectionError, OSError):
            return True  # Reading finds the end.


class Keepers:
    """The keepers of a session, by node."""

    def __init__(self, hub: Hub, places: Any) -> None:
        self.hub = hub
        self._places = places
        self._by_node: dict[Any, Keeper] = {}
        self._serial = 0
        self.without: set[int] = set()  # Executors in which a keeper could not be reached.

    def serial(self) -> int:
        """The next serial: no two keepers of a session use the same."""
        self._serial += 1
        return self._serial

    def near(self, conn: Conn, number: int, packed: Packed) -> Packed:
        """The value as the process gets it: one on another node gets a large value from its
        keeper."""
        if not isinstance(packed, Shared) or conn.channel.is_local:
            return packed
        if conn.actor is not None and conn.actor.is_detached:
            return packed  # Its processes are not of this session.
        slot = conn.slot
        node = slot.node.get("id")
        keeper = self._by_node.get(node)
        if keeper is None:
            # The values of a keeper count towards the memory limit of its executor, which the
            # tasks need. An executor without width ends soon.
            is_limited = "memory" in dict(slot.pool.shape[0])
            if is_limited or not slot.width or slot.executor in self.without:
                return packed
            keeper = self._by_node[node] = Keeper(self, slot)
            self._places.dial_keeper(keeper)
        return keeper.lend(number, packed)

    def drop(self, number: int) -> None:
        """The session needs the value no more."""
        for keeper in self._by_node.values():
            keeper.drop(number)

    def lost(self, keeper: Keeper) -> None:
        """It is gone. What it kept is sent again when it is needed again."""
        keeper.close()
        node = keeper.slot.node.get("id")
        if self._by_node.get(node) is keeper:
            del self._by_node[node]

    def slot_went(self, slot: Slot) -> None:
        """An executor has ended, or was given back."""
        for keeper in list(self._by_node.values()):
            if keeper.slot is slot:
                self.lost(keeper)

    def close(self) -> None:
        """Ends them all."""
        for keeper in list(self._by_node.values()):
            self.lost(keeper)
