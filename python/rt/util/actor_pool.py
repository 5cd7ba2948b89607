"""A pool of actors that share a stream of work."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, Callable, Optional

from rt.core import get, wait

Call = Callable[[Any, Any], Any]  # (actor, value) -> the reference that a method returned.


class ActorPool:
    """Gives values to idle actors, one each. It is used by one thread.

    Results are taken either in the order of `submit` (get_next, map) or as they come
    (get_next_unordered, map_unordered).
    """

    def __init__(self, actors: Iterable[Any]) -> None:
        self._idle: list[Any] = list(actors)
        self._pending_submits: deque[tuple[Call, Any]] = deque()
        self._refs: dict[int, Any] = {}  # By the number of the call; in order.
        self._numbers: dict[Any, tuple[int, Any]] = {}  # By the first reference: number, actor.
        self._submitted = 0
        self._returned = 0

    def map(self, fn: Call, values: Iterable[Any]) -> Iterator[Any]:
        """The results of `fn(actor, value)` for each value, in their order. Results that were not
        taken before are dropped."""
        return self._map(fn, values, self.get_next)

    def map_unordered(self, fn: Call, values: Iterable[Any]) -> Iterator[Any]:
        """The same, each result as soon as there is one."""
        return self._map(fn, values, self.get_next_unordered)

    def _map(self, fn: Call, values: Iterable[Any], following: Callable[..., Any]) -> Iterator[Any]:
        while self.has_next():
            try:
                self.get_next_unordered(ignore_if_timedout=True)
            except Exception:
                continue  # The error of a result that nobody wants.
        for value in values:
            self.submit(fn, value)

        def results() -> Iterator[Any]:
            while self.has_next():
                yield following()

        return results()

    def submit(self, fn: Call, value: Any) -> None:
        """Calls `fn(actor, value)` with an idle actor, now or once there is one."""
        if not self._idle:
            self._pending_submits.append((fn, value))
            return
        actor = self._idle.pop()
        ref = fn(actor, value)
        self._refs[self._submitted] = ref
        self._numbers[_key(ref)] = (self._submitted, actor)
        self._submitted += 1

    def has_next(self) -> bool:
        """Whether a result is there or will come."""
        return bool(self._refs) or bool(self._pending_submits)

    def get_next(self, timeout: Optional[float] = None, ignore_if_timedout: bool = False) -> Any:
        """The next result in the order of `submit`. Raises StopIteration when there is none,
        TimeoutError after `timeout` seconds, and what the call raised. With `ignore_if_timedout`
        a result that is late is skipped."""
        if not self.has_next():
            raise StopIteration("the pool has no more results")
        while self._returned not in self._refs and self._returned < self._submitted:
            self._returned += 1  # It was taken without order.
        ref = self._refs[self._returned]
        if not wait([_key(ref)], timeout=timeout)[0] and not ignore_if_timedout:
            raise TimeoutError(f"no result within {timeout:g} s")
        return self._take(_key(ref), ignore_if_timedout)

    def get_next_unordered(
        self, timeout: Optional[float] = None, ignore_if_timedout: bool = False
    ) -> Any:
        """The result that comes first. Raises as get_next does."""
        if not self.has_next():
            raise StopIteration("the pool has no more results")
        ready, _ = wait(list(self._numbers), num_returns=1, timeout=timeout)
        if not ready:
            if not ignore_if_timedout:
                raise TimeoutError(f"no result within {timeout:g} s")
            ready = [next(iter(self._numbers))]
        return self._take(ready[0], ignore_if_timedout)

    def _take(self, key: Any, may_be_late: bool) -> Any:
        number, actor = self._numbers.pop(key)
        ref = self._refs.pop(number)
        self.push_actor(actor)
        if may_be_late and not wait([key], timeout=0)[0]:
            return None
        return get(ref)

    def push_actor(self, actor: Any) -> None:
        """Adds an idle actor. Raises ValueError for one that the pool has."""
        if actor in self._idle or any(actor == each for _, each in self._numbers.values()):
            raise ValueError("the actor is in this pool already")
        self._idle.append(actor)
        if self._pending_submits:
            self.submit(*self._pending_submits.popleft())

    push = push_actor

    def pop_idle(self) -> Any:
        """Takes an idle actor out of the pool; None when none is idle."""
        return self._idle.pop() if self.has_free() else None

    def has_free(self) -> bool:
        """Whether an actor is idle."""
        return bool(self._idle) and not self._pending_submits


def _key(ref: Any) -> Any:
    """The reference that stands for a call: the first of several."""
    return ref[0] if isinstance(ref, list) else ref
