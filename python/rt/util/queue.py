"""A queue that tasks, actors and the driver share: an actor has its items."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Iterable
from typing import Any, Optional

from rt.core import get, kill, remote

__all__ = ["Empty", "Full", "Queue"]


class Empty(queue.Empty):
    """The queue has too few items."""


class Full(queue.Full):
    """The queue has too little room."""


class _Items:
    """The actor of a queue."""

    def __init__(self, maxsize: int) -> None:
        self._items: asyncio.Queue[Any] = asyncio.Queue(maxsize)

    async def qsize(self) -> int:
        return self._items.qsize()

    async def put(self, item: Any, timeout: Optional[float]) -> bool:
        try:
            await asyncio.wait_for(self._items.put(item), timeout)
        except asyncio.TimeoutError:
            return False
        return True

    async def get(self, timeout: Optional[float]) -> tuple[bool, Any]:
        try:
            return True, await asyncio.wait_for(self._items.get(), timeout)
        except asyncio.TimeoutError:
            return False, None

    async def put_at_once(self, items: list[Any]) -> bool:
        """All of them or none."""
        most = self._items.maxsize
        if most > 0 and self._items.qsize() + len(items) > most:
            return False
        for item in items:
            self._items.put_nowait(item)
        return True

    async def get_at_once(self, count: int) -> Optional[list[Any]]:
        """So many, or none."""
        if self._items.qsize() < count:
            return None
        return [self._items.get_nowait() for _ in range(count)]


class Queue:
    """As queue.Queue, for processes on any node. References to values may be items."""

    def __init__(self, maxsize: int = 0, actor_options: Optional[dict[str, Any]] = None) -> None:
        """maxsize: number of items that fit; 0: as many as the memory takes."""
        self.maxsize = maxsize
        made = remote(_Items)
        self.actor = (made.options(**actor_options) if actor_options else made).remote(maxsize)

    def __len__(self) -> int:
        return self.size()

    def qsize(self) -> int:
        """Number of items."""
        found: int = get(self.actor.qsize.remote())
        return found

    size = qsize

    def empty(self) -> bool:
        """Whether there is no item."""
        return self.qsize() == 0

    def full(self) -> bool:
        """Whether no item fits."""
        return 0 < self.maxsize <= self.qsize()

    def put(self, item: Any, block: bool = True, timeout: Optional[float] = None) -> None:
        """Adds an item. Raises Full when there is no room, with `block` after `timeout` seconds."""
        if not block:
            self.put_nowait(item)
        elif not get(self.actor.put.remote(item, _checked(timeout))):
            raise Full

    def get(self, block: bool = True, timeout: Optional[float] = None) -> Any:
        """Takes an item. Raises Empty when there is none, with `block` after `timeout` seconds."""
        if not block:
            return self.get_nowait()
        is_there, item = get(self.actor.get.remote(_checked(timeout)))
        if not is_there:
            raise Empty
        return item

    async def put_async(
        self, item: Any, block: bool = True, timeout: Optional[float] = None
    ) -> None:
        """put() for coroutines."""
        if not block:
            if not await self.actor.put_at_once.remote([item]):
                raise Full
        elif not await self.actor.put.remote(item, _checked(timeout)):
            raise Full

    async def get_async(self, block: bool = True, timeout: Optional[float] = None) -> Any:
        """get() for coroutines."""
        if not block:
            found = await self.actor.get_at_once.remote(1)
            is_there, item = found is not None, (found or [None])[0]
        else:
            is_there, item = await self.actor.get.remote(_checked(timeout))
        if not is_there:
            raise Empty
        return item

    def put_nowait(self, item: Any) -> None:
        """Adds an item, or raises Full."""
        if not get(self.actor.put_at_once.remote([item])):
            raise Full

    def get_nowait(self) -> Any:
        """Takes an item, or raises Empty."""
        return self.get_nowait_batch(1)[0]

    def put_nowait_batch(self, items: Iterable[Any]) -> None:
        """Adds all items, or raises Full and adds none."""
        if not isinstance(items, Iterable):
            raise TypeError("put_nowait_batch() takes several items, such as a list")
        listed = list(items)
        if not get(self.actor.put_at_once.remote(listed)):
            raise Full(f"{len(listed)} items do not fit")

    def get_nowait_batch(self, num_items: int) -> list[Any]:
        """Takes that many items, or raises Empty and takes none."""
        if not isinstance(num_items, int) or num_items < 0:
            raise ValueError("num_items must be a whole number, 0 or more")
        found: Optional[list[Any]] = get(self.actor.get_at_once.remote(num_items))
        if found is None:
            raise Empty(f"there are fewer than {num_items} items")
        return found

    def shutdown(self, force: bool = False, grace_period_s: float = 5) -> None:
        """Ends the actor, and with it the queue: with `force` at once, else after the calls that
        it has, for which it gets `grace_period_s` seconds."""
        if self.actor is None:
            return
        if not force:
            from rt.core import wait

            wait([self.actor.__ray_terminate__.remote()], timeout=grace_period_s)
        kill(self.actor)
        self.actor = None


def _checked(timeout: Optional[float]) -> Optional[float]:
    if timeout is not None and timeout < 0:
        raise ValueError("timeout must be 0 or more seconds, or None")
    return timeout
