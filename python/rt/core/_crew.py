"""Threads for work that may wait long: each piece waits by itself, and holds up no other."""

from __future__ import annotations

import sys
import threading
from collections import deque
from typing import Any, Callable, Hashable

_MOST = 32  # Threads.
_MOST_OF_ONE = 8  # Of them for one node: one that does not answer leaves the others to the rest.


class Crew:
    """Does what is queued, in threads that end when nothing is."""

    def __init__(self, name: str, most: int = _MOST, most_of_one: int = _MOST_OF_ONE) -> None:
        self._name = name
        self._most = most
        self._most_of_one = most_of_one
        self._lock = threading.Lock()
        self._queued: deque[tuple[Hashable, Callable[[], Any]]] = deque()
        self._busy: dict[Hashable, int] = {}  # Threads, by what they work for.
        self._is_closed = False

    def put(self, key: Hashable, work: Callable[[], Any]) -> None:
        """Queues work that is for `key`."""
        with self._lock:
            if self._is_closed:
                return
            self._queued.append((key, work))
            is_full = sum(self._busy.values()) >= self._most
            if is_full or self._busy.get(key, 0) >= self._most_of_one:
                return  # A thread takes it when it has done its own.
            self._busy[key] = self._busy.get(key, 0) + 1
        threading.Thread(target=self._run, args=(key,), name=self._name, daemon=True).start()

    def close(self) -> None:
        """Drops what has not begun."""
        with self._lock:
            self._is_closed = True
            self._queued.clear()

    def _run(self, key: Hashable) -> None:
        while True:
            with self._lock:
                found = self._take(key)
                if found is None:
                    return
                key, work = found
            try:
                work()
            except Exception as error:  # The thread must live: what it does is asked again.
                print(f"rt: tasks: {type(error).__name__}: {error}", file=sys.stderr, flush=True)

    def _take(self, key: Hashable) -> Any:
        """The next work for a thread that has worked for `key`. With the lock."""
        self._busy[key] -= 1
        if not self._busy[key]:
            del self._busy[key]
        for index, (other, _) in enumerate(self._queued):
            if self._busy.get(other, 0) < self._most_of_one:
                found = self._queued[index]
                del self._queued[index]
                self._busy[other] = self._busy.get(other, 0) + 1
                return found
        return None
