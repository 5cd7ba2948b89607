"""Checkpoint: a directory of files that a trial can resume from."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import pickle
import shutil
import tempfile
from collections.abc import Iterator
from typing import Any, Callable, Optional, Union

_METADATA = ".metadata.json"
DICT_FILE = "_dict_checkpoint.pkl"
RESTORE_DIR = "restore"  # Next to a trainable: the checkpoint from which its trials start.
_scratch: list[str] = []


def scratch_dir(prefix: str, parent: Optional[str] = None) -> str:
    """A fresh directory that is removed when the process ends."""
    path = tempfile.mkdtemp(prefix=prefix, dir=parent)
    if not _scratch:
        atexit.register(_remove_scratch, os.getpid())
    _scratch.append(path)
    return path


def _remove_scratch(owner_pid: int) -> None:
    if os.getpid() != owner_pid:
        return
    for path in _scratch:
        shutil.rmtree(path, ignore_errors=True)


def pickled(value: Any) -> bytes:
    """The pickled value; uses cloudpickle if it contains classes of the script, or functions."""
    try:
        return pickle.dumps(value)
    except Exception:
        from rt import _pickle

        return _pickle.dumps(value)


class Checkpoint:
    """A directory of files. A checkpoint in a cluster's store is fetched when it is first used."""

    def __init__(self, path: Union[str, os.PathLike[str]], filesystem: Any = None) -> None:
        self._path: Optional[str] = os.path.abspath(os.fspath(path))
        self._fetch: Optional[Callable[[str], None]] = None
        self.filesystem = filesystem
        self.is_given = False  # The files are not used again once they were reported.

    @classmethod
    def from_directory(cls, path: Union[str, os.PathLike[str]]) -> Checkpoint:
        """The checkpoint that consists of the files in `path`."""
        return cls(path)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Checkpoint:
        """The older way, of Ray 2.0 to 2.6: a checkpoint from which `to_dict` returns `data`."""
        if not isinstance(data, dict):
            raise ValueError(f"from_dict takes a dict, not {type(data).__name__}")
        content = pickled(data)

        def write(target: str) -> None:
            with open(os.path.join(target, DICT_FILE), "wb") as file:
                file.write(content)

        checkpoint = cls._remote(write)
        checkpoint.is_given = True  # A caller that uses the files again gets new ones.
        return checkpoint

    def to_dict(self) -> dict[str, Any]:
        """The dict from which from_dict, or a class's save_checkpoint, made the checkpoint.

        Raises ValueError when the checkpoint consists of other files.
        """
        from rt._main import load_value

        try:
            with open(os.path.join(self.path, DICT_FILE), "rb") as file:
                return dict(load_value(file.read()))
        except FileNotFoundError:
            names = ", ".join(sorted(os.listdir(self.path))[:10])
            raise ValueError(f"no dict was saved in this checkpoint; it holds {names}") from None

    @classmethod
    def _remote(cls, fetch: Callable[[str], None]) -> Checkpoint:
        checkpoint = cls(os.curdir)
        checkpoint._path = None
        checkpoint._fetch = fetch
        return checkpoint

    @property
    def path(self) -> str:
        """A local directory with the files; raises RtError when they cannot be fetched."""
        if self._path is not None and self._fetch is not None and not os.path.isdir(self._path):
            self._path = None  # The files were moved away.
        if self._path is None:
            own = os.environ.get("RT_TRIAL_DIR") if self.is_given else None
            self._fetch_to(scratch_dir(".checkpoint-" if own else "rt-checkpoint-", own))
        assert self._path is not None
        return self._path

    def _fetch_to(self, target: str) -> None:
        """Fetches the files into `target`, which is the checkpoint's path from then on."""
        if self._path is None:
            os.makedirs(target, exist_ok=True)
            if self._fetch is not None:
                self._fetch(target)
            self._path = target

    @property
    def value(self) -> str:
        """The older name of `path`."""
        return self.path

    def to_directory(self, path: Union[str, os.PathLike[str], None] = None) -> str:
        """Copies the files into `path` (created if needed; by default a new one); returns it."""
        target = os.fspath(path) if path is not None else scratch_dir("rt-checkpoint-")
        shutil.copytree(self.path, target, dirs_exist_ok=True)
        return target

    @contextlib.contextmanager
    def as_directory(self) -> Iterator[str]:
        """`with checkpoint.as_directory() as path:` gives a directory to read from."""
        yield self.path

    def get_metadata(self) -> dict[str, Any]:
        """The metadata that `set_metadata` stored; empty when there is none."""
        try:
            with open(os.path.join(self.path, _METADATA), encoding="utf-8") as file:
                return dict(json.load(file))
        except FileNotFoundError:
            return {}

    def set_metadata(self, metadata: dict[str, Any]) -> None:
        """Stores `metadata`, which must be JSON, together with the files."""
        with open(os.path.join(self.path, _METADATA), "w", encoding="utf-8") as file:
            json.dump(metadata, file)

    def update_metadata(self, metadata: dict[str, Any]) -> None:
        """Adds the entries of `metadata` to the stored metadata."""
        self.set_metadata({**self.get_metadata(), **metadata})

    def __repr__(self) -> str:
        where = self._path if self._path is not None else "in the cluster's store"
        return f"Checkpoint({where})"
