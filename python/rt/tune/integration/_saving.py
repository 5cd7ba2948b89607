"""The common part of the callbacks for neural networks: a report with a directory of files."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterable, Iterator
from typing import Any, Union

from rt._checkpoint import Checkpoint
from rt._json import unboxed

Events = Union[str, Iterable[str]]


def events(name: str, given: Events, allowed: Iterable[str]) -> list[str]:
    """The events as a list. Raises ValueError for one that does not exist."""
    found = [given] if isinstance(given, str) else list(given)
    for each in found:
        if each not in allowed:
            raise ValueError(f"{name}: unknown event {each!r}; known: {', '.join(sorted(allowed))}")
    return found


def numbers_of(values: dict[str, Any]) -> dict[str, Any]:
    """Tensors and arrays of one element as numbers."""
    return {key: unboxed(value) for key, value in values.items()}


@contextlib.contextmanager
def checkpoint_directory() -> Iterator[tuple[str, Checkpoint]]:
    """A directory for the files of one checkpoint, which is removed after the report."""
    with tempfile.TemporaryDirectory(prefix="rt-model-") as path:
        yield path, Checkpoint(path)
