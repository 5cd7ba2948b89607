"""How much memory large values use; above a bound the oldest are spilled to the disk."""

from __future__ import annotations

import os
from typing import Optional

from rt.core._values import Shared, spill
from rt.exceptions import ObjectStoreFullError

_SHARE = 0.3  # Of the machine's memory, as in Ray.
# Spilling leaves this share of the disk free, at most these bytes, as a checkpoint store does.
_DISK_LEFT = 0.05
_DISK_LEFT_MAX = 2 << 30


class Store:
    """The large values of a session, oldest first. With the hub's lock, but for `spill`, which
    writes to the disk."""

    def __init__(self, bound: Optional[int] = None) -> None:
        self._bound = bound if bound is not None else int(_SHARE * memory_bytes())
        self._sizes: dict[int, int] = {}  # Of those in memory.
        self._used = 0
        self._directory = ""

    def set_bound(self, bound: int) -> None:
        """The bytes of memory that values may take."""
        self._bound = bound

    @property
    def is_over(self) -> bool:
        """Whether values take more than the bound: some are to be spilled."""
        return self._used > self._bound

    def add(self, number: int, shared: Shared) -> None:
        """Counts a value. Raises ObjectStoreFullError when neither the memory nor the disk has
        room for it."""
        if shared.is_spilled:
            return
        excess = self._used + shared.size - self._bound
        if excess > 0:
            self._check_disk(excess, shared.size)
        self._sizes[number] = shared.size
        self._used += shared.size

    def remove(self, number: int) -> None:
        """The value is gone, or on the disk."""
        self._used -= self._sizes.pop(number, 0)

    def oldest(self) -> Optional[int]:
        """The value that is to be spilled next; None: nothing is."""
        return next(iter(self._sizes), None) if self.is_over else None

    def _check_disk(self, excess: int, size: int) -> None:
        directory = self._directory or spill_directory()
        try:
            disk = os.statvfs(directory)
            left = min(_DISK_LEFT * disk.f_blocks * disk.f_frsize, _DISK_LEFT_MAX)
            if excess > disk.f_bavail * disk.f_frsize - left:
                raise OSError(28, "too little room is left on the disk")
        except OSError as error:
            raise ObjectStoreFullError(
                f"a value of {size} bytes fits neither into the {self._bound} bytes of "
                f"memory that values may use nor into {directory}: {error.strerror}",
                hint="let go of references that are not needed any more",
            ) from error
        self._directory = directory

    def spill(self, shared: Shared) -> Shared:
        """The same value on the disk. Raises OSError. Without the lock."""
        return spill(shared, self._directory or spill_directory())


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
