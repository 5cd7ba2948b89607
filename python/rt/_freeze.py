"""What the daemon says of freezes: a trial is asked to save first, and hears how long it stood.

A frozen process is stopped where it is (docs/adr/0043), which it cannot notice by itself.
"""

from __future__ import annotations

from typing import Any


class FreezeNotice:
    """One trial's freezes. Not thread-safe: the session holds its lock."""

    def __init__(self) -> None:
        self._asked = False
        self._frozen_s = 0.0  # In all, as far as it was heard.

    def take(self, message: dict[str, Any]) -> float:
        """The seconds of the freeze that is over; 0 for the wish to save before one."""
        self._asked = message.get("op") == "save"
        return self.hear(message)

    def hear(self, message: dict[str, Any]) -> float:
        """The same of any message. A program that was frozen while its daemon was restarted hears
        it when it connects again."""
        known_s, told_s = self._frozen_s, float(message.get("frozen_for_s") or 0.0)
        self._frozen_s = max(known_s, told_s)
        return self._frozen_s - known_s

    def has_nothing(self, saved: bool, saves: bool) -> bool:
        """After a report: whether the daemon is to hear that the trial never saves, once."""
        was_asked, self._asked = self._asked, self._asked and saves and not saved
        return was_asked and not saves and not saved
