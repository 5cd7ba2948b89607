"""Values as bytes: pickled, with their buffers aside; from 100 KB on in a memory file.

A packed value is one of
  bytes                     a pickle
  (bytes, [bytes, ...])     a pickle and its buffers (pickle protocol 5)
  Shared                    both in a memory file, which other processes map without a copy
  Elsewhere                 what stands for a Shared that a process of the same node keeps

The references (ObjectRef, ActorHandle) in a value are listed beside it, because whoever keeps
the value keeps them.
"""

from __future__ import annotations

import fcntl
import io
import mmap
import os
import pickle
import threading
from typing import Any, Callable, Optional, Union

from rt import _pickle
from rt.core._pages import File, Pages

INLINE_MAX = 100_000  # Bytes; Ray's bound, too.
_ALIGNMENT = 64  # Of buffers: vector instructions read aligned arrays faster.
_WRITE_MAX = 1 << 30  # Bytes a call: the kernel stops at 2 GiB.
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE  # type: ignore[attr-defined]
_SIMPLE = frozenset((int, float, bool, type(None)))
_TEXTS = frozenset((str, bytes))

# (the length of the pickle, (offset, length) of each buffer)
Layout = tuple[int, tuple[tuple[int, int], ...]]


class Shared:
    """A packed value in a file without a name: a memory file, or a spilled one on the disk.

    The file lives for as long as any process has its descriptor or a mapping of it.
    """

    __slots__ = ("_file", "fd", "is_spilled", "layout", "size")

    def __init__(
        self,
        fd: int,
        size: int,
        layout: Layout,
        is_spilled: bool = False,
        file: Optional[File] = None,
    ) -> None:
        """file: what `fd` was opened from, to be used for another value afterwards."""
        self.fd = fd
        self._file = file
        self.size = size
        self.layout = layout
        self.is_spilled = is_spilled

    def __del__(self) -> None:
        try:
            os.close(self.fd)
            if self._file is not None:
                reuse.give(self._file)
        except (OSError, TypeError, AttributeError):
            pass

    def give_back(self) -> None:
        """Its memory is not kept for another value."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def parts(self) -> tuple[memoryview, list[memoryview]]:
        """The pickle and the buffers, mapped read-only. The mapping lives as long as they do."""
        mapped = memoryview(mmap.mmap(self.fd, self.size, mmap.MAP_SHARED, mmap.PROT_READ))
        length, places = self.layout
        return mapped[:length], [mapped[at : at + size] for at, size in places]

    def __reduce__(self) -> Any:
        """As a part of a frame (rt/core/_channel.py)."""
        fds = frame.fds
        if fds is None:  # To another machine: by value.
            pickled, buffers = self.parts()
            return (_share_received, (pickle.PickleBuffer(pickled), self._buffers(buffers)))
        fds.append(self.fd)
        return (_shared_of_frame, (len(fds) - 1, self.size, self.layout, self.is_spilled))

    @staticmethod
    def _buffers(buffers: list[memoryview]) -> list[Any]:
        return [pickle.PickleBuffer(each) for each in buffers]


class _Reuse:
    """The memory files that this process uses again: those of a driver (rt/core/_pages.py)."""

    pages: Optional[Pages] = None

    def take(self, size: int) -> Optional[File]:
        """A file for a value of this size; None: it is not to be used again."""
        return None if self.pages is None else self.pages.take(size)

    def give(self, file: File) -> None:
        """The value of the file is gone."""
        if self.pages is None:
            file.close()
        else:
            self.pages.give(file)


reuse = _Reuse()


class Elsewhere:
    """Stands for a packed value that is fetched where it is unpacked."""

    def fetch(self) -> Packed:
        """The value."""
        raise NotImplementedError


class _Frame(threading.local):
    """The descriptors of the frame that this thread pickles or unpickles."""

    fds: Optional[list[int]] = None


frame = _Frame()


def _shared_of_frame(index: int, size: int, layout: Layout, is_spilled: bool) -> Shared:
    assert frame.fds is not None
    return Shared(frame.fds[index], size, layout, is_spilled)


def _share_received(pickled: Any, buffers: list[Any]) -> Shared:
    return share(pickled, list(buffers))


Packed = Union[bytes, tuple[bytes, list[Any]], Shared, Elsewhere]


def share(pickled: Any, buffers: list[Any]) -> Shared:
    """A memory file with these bytes. Raises OSError when memory for it cannot be had."""
    views = [memoryview(each).cast("B") for each in buffers]
    end = len(pickled)
    places = []
    for view in views:
        end = -(-end // _ALIGNMENT) * _ALIGNMENT
        places.append((end, view.nbytes))
        end += view.nbytes
    file = reuse.take(end)
    if file is not None:
        try:
            file.write(memoryview(pickled).cast("B"), 0)
            for view, (at, _) in zip(views, places):
                file.write(view, at)
            fd = file.open_read_only()
        except BaseException:
            file.close()
            raise
        return Shared(fd, end, (len(pickled), tuple(places)), file=file)
    fd = os.memfd_create("rt-value", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(fd, end)
        _write(fd, memoryview(pickled).cast("B"), 0)
        for view, (at, _) in zip(views, places):
            _write(fd, view, at)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)  # type: ignore[attr-defined]
    except BaseException:
        os.close(fd)
        raise
    return Shared(fd, end, (len(pickled), tuple(places)))


def _write(fd: int, view: memoryview, at: int) -> None:
    while view.nbytes:
        done = os.pwrite(fd, view[:_WRITE_MAX], at)
        view, at = view[done:], at + done


def spill(shared: Shared, directory: str) -> Shared:
    """The same bytes in a file on the disk without a name. Raises OSError."""
    fd = os.open(directory, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        os.ftruncate(fd, shared.size)
        at = 0
        while at < shared.size:
            at += os.sendfile(fd, shared.fd, at, min(_WRITE_MAX, shared.size - at))
    except BaseException:
        os.close(fd)
        raise
    return Shared(fd, shared.size, shared.layout, is_spilled=True)


class _Bytes:
    """Bytes as a buffer beside the pickle: copied once on either side."""

    def __reduce__(self) -> Any:
        return (bytes, (pickle.PickleBuffer(b""),))


_BYTES = pickle.dumps(_Bytes(), 5, buffer_callback=lambda _: None)


class _Collected(threading.local):
    """The references in the value that this thread packs."""

    ids: Optional[list[int]] = None


collected = _Collected()


def pack(value: Any) -> tuple[Packed, tuple[int, ...]]:
    """(the value as bytes, the references in it). Raises what pickling raises."""
    kind = type(value)
    if kind in _SIMPLE or (kind in _TEXTS and len(value) < INLINE_MAX):
        return pickle.dumps(value, 5), ()
    if kind is bytes:
        return share(_BYTES, [value]), ()
    file = io.BytesIO()
    buffers: list[pickle.PickleBuffer] = []
    before, collected.ids = collected.ids, []
    try:
        pickler = _pickle._Pickler(file, protocol=5, buffer_callback=buffers.append)
        pickler.dump(value)
        found = tuple(collected.ids)
    finally:
        collected.ids = before
    if not buffers:
        if file.tell() < INLINE_MAX:
            return file.getvalue(), found
        return share(file.getbuffer(), []), found
    views = [each.raw() for each in buffers]
    if file.tell() + sum(each.nbytes for each in views) < INLINE_MAX:
        return (file.getvalue(), [bytes(each) for each in views]), found
    return share(file.getbuffer(), views), found


def unpack(packed: Packed) -> Any:
    """The value. Raises what unpickling raises. Buffers of it are read-only."""
    if type(packed) is bytes:
        return pickle.loads(packed)
    if isinstance(packed, Shared):
        pickled, buffers = packed.parts()
        return pickle.loads(pickled, buffers=buffers)
    if isinstance(packed, tuple):
        return pickle.loads(packed[0], buffers=packed[1])
    assert isinstance(packed, Elsewhere)
    return unpack(packed.fetch())


Result = tuple[Packed, tuple[int, ...]]  # What a call returned, and the references in it.

# The arguments of a call: (args, kwargs) packed with None for each top-level reference, and where
# those belong: (index or name, reference).
Place = tuple[Union[int, str], int]
PackedCall = tuple[Optional[Packed], tuple[int, ...], tuple[Place, ...]]
_ALL_SIMPLE = _SIMPLE | {str}
NOTHING: PackedCall = (None, (), ())


def pack_call(
    args: tuple[Any, ...], kwargs: dict[str, Any], id_of: Callable[[Any], Optional[int]]
) -> PackedCall:
    """Packs the arguments of a call. `id_of`: the reference that an argument is, or None."""
    if not args and not kwargs:
        return NOTHING
    if not kwargs and all(type(each) in _ALL_SIMPLE for each in args):
        data = pickle.dumps((args, kwargs), 5)
        if len(data) < INLINE_MAX:
            return data, (), ()
    places: list[Place] = []
    for index, each in enumerate(args):
        found = id_of(each)
        if found is not None:
            places.append((index, found))
    for name, each in kwargs.items():
        found = id_of(each)
        if found is not None:
            places.append((name, found))
    if places:
        names = {place for place, _ in places}
        args = tuple(None if index in names else each for index, each in enumerate(args))
        kwargs = {name: None if name in names else each for name, each in kwargs.items()}
    packed, found_ids = pack((args, kwargs))
    return packed, found_ids, tuple(places)


def unpack_call(
    packed: Optional[Packed], values: list[tuple[Union[int, str], Any]]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """(args, kwargs) with the values of top-level references in their places."""
    if packed is None:
        return (), {}
    args, kwargs = unpack(packed)
    if values:
        listed = list(args)
        for place, value in values:
            if isinstance(place, int):
                listed[place] = value
            else:
                kwargs[place] = value
        args = tuple(listed)
    return args, kwargs
