"""The barrier of train.report, as one rank sees it: it arrives at the n-th one, and waits until the
worker says that all ranks have (docs/trial-protocol.md, "The barrier").
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any, Optional

from rt._json import dump

WARN_S = 60.0  # How often a rank that waits says for whom.
STACKS_S = 10.0  # The worker reads the stacks of the missing ranks in less.
# Of the driver, which passes them on to its ranks: seconds to wait at a barrier.
BARRIER_VARIABLES = ("RT_TRAIN_BARRIER_TIMEOUT_S", "RAY_TRAIN_COLLECTIVE_TIMEOUT_S")


def _timeout_s() -> Optional[float]:
    """The seconds to wait, or None for ever. Raises ValueError for what is not a number."""
    for name in BARRIER_VARIABLES:
        text = os.environ.get(name)
        if text:
            try:
                return float(text)
            except ValueError:
                raise ValueError(f"{name} must be a number of seconds, not {text!r}") from None
    return None


class Barrier:
    """Counts the barriers of this rank."""

    def __init__(self) -> None:
        self._number = 0
        self._passed = 0
        self._began = 0.0
        self._asked = 0.0  # When it asked last who is missing.
        self._timeout_s: Optional[float] = None
        self._wants_stacks = False

    @property
    def is_passed(self) -> bool:
        """Whether every rank has arrived where this one has."""
        return self._passed >= self._number

    def arrive(self) -> bytes:
        """The message that this rank has arrived at its next barrier."""
        self._number += 1
        self._began = self._asked = time.monotonic()
        self._timeout_s = _timeout_s()
        self._wants_stacks = False
        return self.message()

    def message(self) -> bytes:
        """The same, to be sent again after a lost connection."""
        return dump({"op": "arrive", "number": self._number})

    def overdue(self) -> Optional[bytes]:
        """The question who is missing, when it is time to ask it. It may be asked repeatedly."""
        now = time.monotonic()
        late = self._timeout_s is not None and now - self._began >= self._timeout_s
        if not late and now - self._asked < WARN_S:
            return None
        if late and self._wants_stacks and now - self._asked < STACKS_S:
            return None  # Asked, and the answer is on its way.
        self._wants_stacks = late
        self._asked = now
        return dump({"op": "missing", "number": self._number, "dump": late})

    def take(self, message: dict[str, Any]) -> None:
        """Takes an answer of the worker. Raises RuntimeError when the barrier cannot be passed."""
        if message["op"] == "passed":
            self._passed = max(self._passed, int(message["number"]))
        if self.is_passed or message.get("number") != self._number:
            return  # Of an earlier barrier, perhaps.
        waited_s = time.monotonic() - self._began
        ended = [str(each["rank"]) for each in message.get("ended") or []]
        if ended:
            raise RuntimeError(
                f"train.report() was called {self._number} times here, and rank {', '.join(ended)} "
                "has ended without doing so: every rank must call it equally often"
            )
        ranks = message.get("missing") or []
        missing = _named(ranks)
        if message["op"] != "missing" or not missing:
            return
        line = (
            f"train.report() has waited {waited_s:.0f} s at its call {self._number} for {missing}"
        )
        if self._timeout_s is not None and waited_s >= self._timeout_s:
            raise RuntimeError(f"{line}: longer than {BARRIER_VARIABLES[0]}{_stacks(ranks)}")
        print(f"rt: {line}", file=sys.stderr, flush=True)


def _named(ranks: list[dict[str, Any]]) -> str:
    """Such as "rank 1 (node w2), rank 3 (node w2)"."""
    shown = [
        f"rank {each['rank']}" + (f" (node {each['node']})" if each.get("node") else "")
        for each in ranks
    ]
    return ", ".join(shown)


def _stacks(ranks: list[dict[str, Any]]) -> str:
    """Where the missing ranks are, as their workers have seen it."""
    shown = [
        f"\nrank {each['rank']} is here:\n{each['stack']}" for each in ranks if each.get("stack")
    ]
    return "".join(shown)
