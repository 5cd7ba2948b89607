"""Epochs, and the loops over data loaders inside them.

After a restart the code of the interrupted epoch runs again from its beginning. Loops that had
ended are skipped, and the one that was interrupted goes on where it was. Other code of an epoch
runs again, so it must have the same effect twice.
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Iterator
from typing import IO, Any, Callable, Optional

from rt.elastic import checkpoint


class Epochs(checkpoint.State):
    """Where the run is: the epoch, and how many loops of it have ended."""

    def __init__(self, at_end: Callable[[bool], None]) -> None:
        super().__init__("adaptdl-epoch")
        self._at_end = at_end
        self.finished = 0
        self.current: Optional[int] = None
        self.total: Optional[int] = None  # Epochs that the script wants.
        self._loops = 0  # Loops that this process has begun in the current epoch.
        self._ended = 0  # The same with those before a restart, but ended.
        self._replayed = 0  # Loops of the interrupted epoch that had ended.
        self._counts: dict[str, int] = {}
        self._own: list[tuple[checkpoint.State, weakref.ref[Any]]] = []
        checkpoint.load_state(self)
        self.resumed = checkpoint.restored_directory() is not None

    def remaining(self, epochs: int) -> Iterator[int]:
        """The epochs from the one that was interrupted to `epochs` - 1."""
        if epochs < 0:
            raise ValueError(f"remaining_epochs_until takes at least 0, not {epochs}")
        if self.current is not None:
            raise RuntimeError("remaining_epochs_until is called inside a loop over epochs")
        self.total = epochs
        try:
            while self.finished < epochs:
                self.current = self.finished
                self._loops = 0
                yield self.current
                self.finished += 1
                self._ended = self._replayed = 0
                self._forget()
                self.current = None
                self._at_end(self.finished >= epochs)
        finally:
            self.current = None

    def begin_loop(self) -> bool:
        """A loop over a data loader begins; false if it had ended before a restart."""
        if self.current is None:
            return True
        self._loops += 1
        return self._loops > self._replayed

    def end_loop(self) -> None:
        """The loop has ended."""
        if self.current is not None:
            self._ended = max(self._ended, self._loops)

    @property
    def place(self) -> Optional[list[int]]:
        """The epoch and the loop in it, which identify a loop over a data loader."""
        return None if self.current is None else [self.current, self._loops]

    def name_for(self, kind: str) -> str:
        """A name for the state of a loader or an accumulator: by its order in the epoch."""
        kind += "" if self.current is None else f"-epoch{self.current}"
        count = self._counts[kind] = self._counts.get(kind, -1) + 1
        return f"adaptdl-{kind}-{count}"

    def own(self, state: checkpoint.State, owner: Any) -> None:
        """The state is forgotten with the epoch in which its owner was dropped."""
        self._own.append((state, weakref.ref(owner)))

    def _forget(self) -> None:
        kept = []
        for state, owner in self._own:
            if owner() is None:
                checkpoint.forget(state)
            else:
                kept.append((state, owner))
        self._own = kept

    def save(self, fileobj: IO[bytes]) -> None:
        """Writes the place."""
        fileobj.write(json.dumps({"epoch": self.finished, "loops": self._ended}).encode())

    def load(self, fileobj: IO[bytes]) -> None:
        """Reads it."""
        saved = json.loads(fileobj.read())
        self.finished = int(saved["epoch"])
        self._ended = self._replayed = int(saved["loops"])
