"""Callback: user code that is called for the events of a running search.

Callbacks run in the driver, one after another, in the order of the journal. A driver that was away
makes the calls that it missed. A driver that was killed during a call may repeat that call.
"""

from __future__ import annotations

from typing import Any, Optional


class Callback:
    """Subclasses override methods. `trials` are all trials, `trial` is the one concerned."""

    def setup(
        self,
        stop: Any = None,
        num_samples: Optional[int] = None,
        total_num_samples: Optional[int] = None,
        **info: Any,
    ) -> None:
        """Called once, before anything else.

        total_num_samples: number of trials, including grid points; sys.maxsize: unbounded.
        """

    def on_step_begin(self, iteration: int, trials: list[Any], **info: Any) -> None:
        """Called before new records are read; iteration counts from 1."""

    def on_step_end(self, iteration: int, trials: list[Any], **info: Any) -> None:
        """Called after new records were read."""

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Called when the trial's process runs, for the first time or again."""

    def on_trial_restore(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Called when it resumes from a checkpoint."""

    def on_trial_save(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Called when one of its checkpoints was stored."""

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        """Called when it reported a row."""

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Called when it ended without failing."""

    def on_trial_recover(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Called when it failed, and is tried again."""

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Called when it failed permanently."""

    def on_checkpoint(
        self, iteration: int, trials: list[Any], trial: Any, checkpoint: Any, **info: Any
    ) -> None:
        """The checkpoint of on_trial_save."""

    def on_experiment_end(self, trials: list[Any], **info: Any) -> None:
        """Called when the search has ended."""

    def get_state(self) -> Optional[dict[str, Any]]:
        """The state for set_state; rt does not call it."""
        return None

    def set_state(self, state: dict[str, Any]) -> None:
        """Restores the result of get_state."""


__all__ = ["Callback"]
