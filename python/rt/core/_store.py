"""How much memory large values use; above a bound the oldest are spilled to the disk."""

from __future__ import annotations

import os
from typing import Any, Optional

from rt.core._values import Shared, spill
from rt.exceptions import ObjectStoreFullError

_SHARE = 0.3  # Of the machine's memory, as in Ray.
_DISK_LEFT = 0.05  # Of the disk: spilling leaves it free.


class Store:
    """The large values of a session, oldest first."""

    def __init__(self, bound: Optional[int] = None) -> None:
        self._bound = bound if bound is not None else int(_SHARE * memory_bytes())
        self._sizes: dict[int, int] = {}  # Of those in memory.
        self._used = 0
        self._directory = ""

    def set_bound(self, bound: int) -> None:
        """The bytes of memory that values may take."""
        self._bound = bound

    def add(self, number: int, shared: Shared, entries: dict[int, Any]) -> Shared:
        """Counts a value, and spills others, or this one, when there are too many. Raises
        ObjectStoreFullError when the disk has no room either."""
        if shared.is_spilled:
            return shared
        if shared.size > self._bound:
            return self._spilled(shared)
        while self._used + shared.size > self._bound and self._sizes:
            oldest = next(iter(self._sizes))
            entry = entries.get(oldest)
            if entry is not None and isinstance(entry.packed, Shared):
                entry.packed = self._spilled(entry.packed)
            self.remove(oldest)
        self._sizes[number] = shared.size
        self._used += shared.size
        return shared

    def remove(self, number: int) -> None:
        """The value is gone."""
        self._used -= self._sizes.pop(number, 0)

    def _spilled(self, shared: Shared) -> Shared:
        directory = self._directory or spill_directory()
        try:
            room = os.statvfs(directory)
            free = room.f_bavail * room.f_frsize - _DISK_LEFT * room.f_blocks * room.f_frsize
            if shared.size > free:
                raise OSError(28, "too little room is left on the disk")
            self._directory = directory
            return spill(shared, directory)
        except OSError as error:
            raise ObjectStoreFullError(
                f"a value of {shared.size} bytes fits neither into the {self._bound} bytes of "
                f"memory that values may use nor into {directory}: {error.strerror}",
                hint="let go of references that are not needed any more",
            ) from error


def spill_directory() -> str:
    """A directory on a disk: the attempt's in a job or trial, else the one for temporary files."""
    found = os.environ.get("RT_TRIAL_DIR") or os.environ.get("RT_SPILL_DIR")
    if not found:
        import tempfile  # Not before: the driver's first task would wait for its import.

        found = tempfile.gettempdir()
    return found


def memory_bytes() -> int:
    """The memory that this process may use: the machine's, or that of its cgroup."""
    found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            with open(path, encoding="ascii") as file:
                found = min(found, int(file.read()))
        except (OSError, ValueError):
            continue
    return found
