"""What is saved, and restored after a restart or a resize: the states that register themselves.

In a trial the files travel in rt's checkpoints. Elsewhere they are in ADAPTDL_CHECKPOINT_PATH, in
one directory per checkpoint: synchronised to the disk before it gets its name, with a checksum of
each file, and the previous one is kept. A checkpoint with a damaged file is skipped, and removed
when the next one is saved.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from typing import IO, Any, Optional

from rt import _api
from rt.elastic import env

MANIFEST = "elastic.json"
KEPT = 2  # Checkpoints outside a trial: the newest, and one to fall back to.
_PREFIX = "checkpoint-"
_states: dict[str, State] = {}
_restored: list[Optional[str]] = []  # The directory to load from, once it is known.
_skipped: set[str] = set()  # Checkpoints that were found damaged.


class State:
    """A part of a run that is saved. Subclasses override `save` and `load`, and perhaps `sync`.

    `name` identifies the state in checkpoints. Raises ValueError if it is in use.
    """

    def __init__(self, name: str) -> None:
        if name in _states:
            raise ValueError(f"there is a state named {name!r} already: give each its own name")
        if not name or "/" in name or name == MANIFEST:
            raise ValueError(f"{name!r} is no name of a state: it is the name of a file")
        self.name = name
        _states[name] = self

    def save(self, fileobj: IO[bytes]) -> None:
        """Writes the state; called on rank 0 only."""

    def load(self, fileobj: IO[bytes]) -> None:
        """Reads what `save` wrote; called on every rank."""

    def sync(self) -> None:
        """Called on every rank before rank 0 saves."""


def forget(*states: State) -> None:
    """Unregisters these states, or all, and looks for the checkpoint anew (for tests)."""
    for state in states or list(_states.values()):
        _states.pop(state.name, None)
    _restored.clear()
    _skipped.clear()


def load_state(state: State) -> bool:
    """Loads the state from the checkpoint that this run resumes from; whether it had the state."""
    directory = restored_directory()
    path = os.path.join(directory, state.name) if directory is not None else ""
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        state.load(file)
    return True


def restored_directory() -> Optional[str]:
    """The directory that this run resumes from, or None."""
    if not _restored:
        _restored.append(_find())
    return _restored[0]


def save_all_states(directory: Optional[str] = None) -> None:
    """Saves all states: every rank calls it, rank 0 writes into `directory`, which it makes.

    By default it is a new checkpoint below ADAPTDL_CHECKPOINT_PATH; without that nothing is saved.
    Where rank 0 cannot write, it raises OSError after the states were synchronised on all ranks.
    """
    root = env.checkpoint_path() if directory is None else None
    if directory is None and root is None:
        return
    for state in list(_states.values()):
        state.sync()
    if env.replica_rank() > 0:
        return
    staging = os.path.join(root, f"_{_PREFIX}new") if root is not None else str(directory)
    shutil.rmtree(staging, ignore_errors=True)
    try:
        _write(staging)
        if root is not None:
            _publish(root, staging)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)  # The disk may be full.
        raise


def _write(directory: str) -> None:
    os.makedirs(directory, 0o700)
    sums = {}
    for state in list(_states.values()):
        path = os.path.join(directory, state.name)
        with open(path, "wb") as file:
            state.save(file)
        sums[state.name] = _digest(path)
    with open(os.path.join(directory, MANIFEST), "w", encoding="utf-8") as text:
        json.dump({"format": 1, "sha256": sums}, text)


def _publish(root: str, staging: str) -> None:
    for name in os.listdir(staging):
        _flush(os.path.join(staging, name))
    _flush(staging)
    numbers = _numbers(root)
    target = os.path.join(root, f"{_PREFIX}{(numbers[-1] if numbers else -1) + 1}")
    os.rename(staging, target)
    _flush(root)
    # A damaged one is nothing to fall back to. (It stays if it could not be read just once.)
    known = [os.path.join(root, f"{_PREFIX}{number}") for number in numbers]
    damaged = [path for path in known if path in _skipped and _damage(path) is not None]
    sound = [path for path in known if path not in damaged]
    for path in [*damaged, *sound[: 1 - KEPT]]:
        shutil.rmtree(path, ignore_errors=True)


def _find() -> Optional[str]:
    if "RT_SOCKET" in os.environ or "RT_CHECKPOINT_DIR" in os.environ:
        given = _api.get_checkpoint()
        path = given.path if given is not None else None
        return path if path and os.path.isfile(os.path.join(path, MANIFEST)) else None
    root = env.checkpoint_path()
    for number in reversed(_numbers(root) if root else []):
        assert root is not None
        path = os.path.join(root, f"{_PREFIX}{number}")
        wrong = _damage(path)
        if wrong is None:
            return path
        _skipped.add(path)
        print(f"rt.elastic: {path} is skipped: {wrong}", file=sys.stderr, flush=True)
    return None


def _damage(path: str) -> Optional[str]:
    """What is wrong with the checkpoint, or None."""
    try:
        with open(os.path.join(path, MANIFEST), encoding="utf-8") as file:
            sums: dict[str, Any] = json.load(file)["sha256"]
        for name, expected in sums.items():
            if _digest(os.path.join(path, name)) != expected:
                return f"{name} does not have its checksum"
    except (OSError, ValueError, KeyError, TypeError) as error:
        return str(error)
    return None


def _digest(path: str) -> str:
    found = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            found.update(block)
    return found.hexdigest()


def _numbers(root: str) -> list[int]:
    """The numbers of the checkpoints below `root`, ascending."""
    names = os.listdir(root) if os.path.isdir(root) else []
    ends = [name[len(_PREFIX) :] for name in names if name.startswith(_PREFIX)]
    return sorted(int(end) for end in ends if end.isdigit())


def _flush(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
