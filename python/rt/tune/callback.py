"""Callback: what a user wants to hear of a search while it runs.

Callbacks run in the driver, one after another, in the order of the journal. A driver that was away
catches up with what it missed; one that was killed in the midst of a call may make that call again.
"""

from __future__ import annotations

from typing import Any, Optional


class Callback:
    """Subclasses override what they want to hear. `trials` are all, `trial` is the one meant."""

    def setup(
        self,
        stop: Any = None,
        num_samples: Optional[int] = None,
        total_num_samples: Optional[int] = None,
        **info: Any,
    ) -> None:
        """Called once, before anything else.

        total_num_samples: of the trials, the points of grids among them; sys.maxsize: without end.
        """

    def on_step_begin(self, iteration: int, trials: list[Any], **info: Any) -> None:
        """Called before news is looked at; iteration counts from 1."""

    def on_step_end(self, iteration: int, trials: list[Any], **info: Any) -> None:
        """Called after news was looked at."""

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """The trial's process runs, for the first time or again."""

    def on_trial_restore(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """It goes on from a checkpoint."""

    def on_trial_save(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """One of its checkpoints was stored."""

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        """It reported a row."""

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """It ended, and did not fail."""

    def on_trial_recover(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """It failed, and is tried again."""

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """It failed for good."""

    def on_checkpoint(
        self, iteration: int, trials: list[Any], trial: Any, checkpoint: Any, **info: Any
    ) -> None:
        """The checkpoint of on_trial_save."""

    def on_experiment_end(self, trials: list[Any], **info: Any) -> None:
        """The search is over."""

    def get_state(self) -> Optional[dict[str, Any]]:
        """What set_state would need; rt does not call it."""
        return None

    def set_state(self, state: dict[str, Any]) -> None:
        """Takes up what get_state gave."""


__all__ = ["Callback"]
