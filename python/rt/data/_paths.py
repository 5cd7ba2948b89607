"""Finding the files of a data set, and reading ranges of lines of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Optional, Union

from rt.data._arrow import Table, pa

_FILES_MAX = 1_000_000  # A wrong path such as "/" must not list for hours.
_LINE_STEP_BYTES = 64 << 10  # Read at a time while looking for the end of a line.
_COMPRESSED = (".gz", ".bz2", ".zst", ".lz4", ".br", ".snappy")

Paths = Union[str, "os.PathLike[str]", Sequence[Union[str, "os.PathLike[str]"]]]


@dataclass(frozen=True)
class File:
    """A file: its path in the file system, and its size in bytes."""

    path: str
    size: int

    def is_compressed(self) -> bool:
        """Whether the name says so; such a file cannot be read from its middle."""
        return self.path.endswith(_COMPRESSED)

    def partitions(self) -> dict[str, str]:
        """The column -> value of directories named "column=value", as Hive writes them."""
        found = {}
        for folder in self.path.split("/")[:-1]:
            name, equals, value = folder.partition("=")
            if equals and name and "=" not in value:
                found[name] = value
        return found


def find_files(
    paths: Paths, filesystem: Any, extensions: Optional[Sequence[str]], ignore_missing: bool
) -> tuple[Any, list[File]]:
    """(file system, files) of files and directories, those of a directory by name.

    Raises FileNotFoundError with the path that does not exist, or when there is no file at all.
    """
    from pyarrow import fs

    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    if not given:
        raise ValueError("name at least one path to read")
    files: list[File] = []
    for each in given:
        text = os.fspath(each)
        if filesystem is None and "://" in text:
            filesystem, text = fs.FileSystem.from_uri(text)
        elif "://" in text:
            text = text.split("://", 1)[1]
        elif filesystem is None or isinstance(filesystem, fs.LocalFileSystem):
            text = os.path.abspath(os.path.expanduser(text))
        files += _files_at(filesystem or fs.LocalFileSystem(), text, extensions, ignore_missing)
    if not files and not ignore_missing:
        wanted = f" named {', '.join('*.' + each for each in extensions)}" if extensions else ""
        raise FileNotFoundError(f"no file{wanted} in {', '.join(str(each) for each in given)}")
    return filesystem or fs.LocalFileSystem(), files


def _files_at(
    filesystem: Any, path: str, extensions: Optional[Sequence[str]], ignore_missing: bool
) -> list[File]:
    from pyarrow import fs

    info = filesystem.get_file_info(path)
    if info.type == fs.FileType.NotFound:
        if ignore_missing:
            return []
        raise FileNotFoundError(f"there is no file or directory {path}")
    if info.type == fs.FileType.File:
        return [File(path, info.size)]
    found = filesystem.get_file_info(fs.FileSelector(path, recursive=True))
    if len(found) > _FILES_MAX:
        raise ValueError(f"{path} has more than {_FILES_MAX} files: name a smaller directory")
    files = [
        File(each.path, each.size)
        for each in found
        if each.type == fs.FileType.File
        and not _is_hidden(each.path[len(path) :])
        and (not extensions or each.path.endswith(tuple(f".{end}" for end in extensions)))
    ]
    return sorted(files, key=lambda file: file.path)


def _is_hidden(relative: str) -> bool:
    """Names that begin with a dot or an underscore are markers of the program that wrote them."""
    return any(name.startswith((".", "_")) for name in relative.split("/"))


def read_lines(filesystem: Any, path: str, start: int, stop: int) -> bytes:
    """The lines that begin in the bytes [start, stop) of a file."""
    with filesystem.open_input_file(path) as file:
        if start:
            start = _line_begin(file, start)
        if start >= stop:
            return b""
        end = _line_begin(file, stop)
        file.seek(start)
        return bytes(file.read(end - start))


def _line_begin(file: Any, at: int) -> int:
    """Where the first line that begins at `at` or after it begins; the size if there is none."""
    at -= 1
    while True:
        file.seek(at)
        text = file.read(_LINE_STEP_BYTES)
        found = text.find(b"\n")
        if found >= 0:
            return int(at + found + 1)
        if len(text) < _LINE_STEP_BYTES:
            return int(at + len(text))
        at += len(text)


def with_partitions(table: Table, file: File) -> Table:
    """The table with a text column for each directory named "column=value"."""
    for name, value in file.partitions().items():
        if name not in table.column_names:
            column = pa.array([value]).take(pa.array([0] * table.num_rows, pa.int64()))
            table = table.append_column(name, column)
    return table
