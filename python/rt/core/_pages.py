"""Memory files of values that are gone, for the next values: their pages need not be made again.

A driver that puts a large value again and again would otherwise wait most of the time for the
kernel, which makes pages of memory files one by one (docs/benchmarks.md). A file is used again only
when the kernel says that nothing else has it open or mapped, here or in another process: readers
get descriptors that are read-only, and a write lease on the file is refused as long as there is one
of those, or a mapping made with it. Only a driver has such files, because only it knows when a
value is gone.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import time
from collections import deque
from typing import Callable, Optional

REUSED_MIN = 4 << 20  # Bytes; smaller files are made quickly, and would need two descriptors.
_SHARE = 0.1  # Of the machine's memory, for files that wait.
_WAITS_S = 5.0  # A file that nobody needed for so long is given back.
_SLACK = 1.25  # A file may be larger than the value by this factor.
_STEP = 32 << 20  # Bytes that are copied at a time: other threads run in between.
_WRITE_MAX = 1 << 30
_POPULATE_WRITE = 23  # MADV_POPULATE_WRITE, from Linux 5.14 on.


class File:
    """A memory file that its maker can write. The owner closes it, or gives it back."""

    __slots__ = ("_mapped", "capacity", "fd", "since")

    def __init__(self, capacity: int) -> None:
        """Raises OSError."""
        made = os.memfd_create("rt-value", os.MFD_CLOEXEC)
        try:
            os.ftruncate(made, capacity)
            # Opened anew: only such descriptors are counted by leases.
            self.fd = os.open(f"/proc/self/fd/{made}", os.O_RDWR | os.O_CLOEXEC)
        finally:
            os.close(made)
        self.capacity = capacity
        self.since = 0.0
        self._mapped: Optional[memoryview] = None

    def open_read_only(self) -> int:
        """A descriptor for those who read. Raises OSError."""
        return os.open(f"/proc/self/fd/{self.fd}", os.O_RDONLY | os.O_CLOEXEC)

    def is_alone(self) -> bool:
        """Whether nobody has a descriptor for reading, or a mapping made with one."""
        try:
            fcntl.fcntl(self.fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
            fcntl.fcntl(self.fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        except OSError:
            return False
        return True

    def map(self) -> None:
        """Maps its pages, which are there: copies into a mapping are much faster than writes."""
        if self._mapped is None:
            with contextlib.suppress(OSError, ValueError):
                mapped = mmap.mmap(self.fd, self.capacity)
                for at in range(0, self.capacity, _STEP):
                    mapped.madvise(_POPULATE_WRITE, at, min(_STEP, self.capacity - at))
                self._mapped = memoryview(mapped)

    def write(self, view: memoryview, at: int) -> None:
        """Writes bytes at a place. Raises OSError."""
        while view.nbytes:
            if self._mapped is None:
                done = os.pwrite(self.fd, view[:_WRITE_MAX], at)
            else:
                done = min(_STEP, view.nbytes)
                self._mapped[at : at + done] = view[:done]
            view, at = view[done:], at + done

    def close(self) -> None:
        """Safe to repeat."""
        self._mapped = None
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)


def can_reuse() -> bool:
    """Whether leases of this kernel tell what `File.is_alone` needs to know."""
    try:
        file = File(mmap.PAGESIZE)
    except (OSError, AttributeError):
        return False
    try:
        fd = file.open_read_only()
        while_open = file.is_alone()
        mapped = mmap.mmap(fd, mmap.PAGESIZE, mmap.MAP_SHARED, mmap.PROT_READ)
        os.close(fd)
        while_mapped = file.is_alone()
        mapped.close()
        return not while_open and not while_mapped and file.is_alone()
    except OSError:
        return False
    finally:
        file.close()


class Pages:
    """The files of one driver that wait for a next value. Without a lock: a value may be dropped by
    the garbage collector, anywhere."""

    def __init__(self, memory_bytes: int, drain: Callable[[], None]) -> None:
        """drain: notes the end of the values whose references are gone."""
        self._drain = drain
        self._bound = int(_SHARE * memory_bytes)
        self._free: deque[File] = deque()
        self._closed = not can_reuse()

    @property
    def waiting_bytes(self) -> int:
        """Of the files that wait."""
        return sum(each.capacity for each in list(self._free))

    def take(self, size: int) -> Optional[File]:
        """A file for a value of this size: one that waits, or a new one. None: it is to be made as
        elsewhere. Raises OSError."""
        if self._closed or size < REUSED_MIN:
            return None
        self._drain()
        for _ in range(len(self._free)):
            try:
                file = self._free.popleft()
            except IndexError:
                break
            if not size <= file.capacity <= _SLACK * size:
                self._free.append(file)
            elif file.is_alone():
                file.map()
                return file
            else:
                file.close()  # An array in some process still uses it.
        return File(size)

    def give(self, file: File) -> None:
        """The value of the file is gone."""
        if self._closed or file.capacity + self.waiting_bytes > self._bound:
            file.close()
            return
        file.since = time.monotonic()
        self._free.append(file)

    def look(self, now: float) -> None:
        """Gives back to the kernel what has waited for long."""
        while self._free and now - self._free[0].since > _WAITS_S:
            try:
                self._free.popleft().close()
            except IndexError:
                return

    def close(self) -> None:
        """Gives back everything, and keeps nothing from here on."""
        self._closed = True
        while self._free:
            self._free.pop().close()
