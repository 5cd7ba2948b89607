"""Slots whose processes wait lend what they hold to work of another shape. Otherwise a task of one
cpu would never start while those that wait for it have all cpus. With the hub's lock."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

from rt.core._places import Pool, Slot

LEND_AFTER_S = 0.1  # What is free comes from the head, and sooner.
LEND_LESS_AFTER_S = 1.0


def lent_slots(pools: Iterable[Pool], pool: Pool) -> Iterator[Slot]:
    """Slots of other pools that may run the pool's work now: those that hold enough, the smallest
    first. When nothing of the session runs, also those with too few cpus or too little memory, the
    largest first: all of it is held by what waits, and the rest is too little for an executor."""
    if pool.is_free or pool.hungry_at is None or _may_run_later(pool):
        return
    hungry_s = time.monotonic() - pool.hungry_at
    if hungry_s < LEND_AFTER_S:
        return
    wanted = dict(pool.shape[0])
    if wanted.get("gpu"):  # The memory of the process that waits is there.
        return
    slots = [slot for one in pools if one is not pool for slot in one.slots.values()]
    waiting = [slot for slot in slots if slot.pool.shape[1] == pool.shape[1] and _waits(slot)]
    waiting.sort(key=lambda slot: slot.cpus)
    enough = [slot for slot in waiting if _has(slot, wanted)]
    yield from enough
    if enough or hungry_s < LEND_LESS_AFTER_S or any(slot.running for slot in slots):
        return
    least = {name: amount for name, amount in wanted.items() if name not in ("cpu", "memory")}
    yield from (slot for slot in reversed(waiting) if _has(slot, least))


def _may_run_later(pool: Pool) -> bool:
    """Whether a slot of the pool itself is going to be free: no actor has it."""
    return any(
        all(conn.actor is None for conn in slot.conns)
        for slot in pool.slots.values()
        if slot.is_granted
    )


def _waits(slot: Slot) -> bool:
    return slot.is_granted and slot.blocked > 0 and not slot.running and not slot.pool.is_free


def _has(slot: Slot, wanted: dict[str, float]) -> bool:
    held = dict(slot.pool.shape[0])
    return all(held.get(name, 0) >= amount for name, amount in wanted.items())
