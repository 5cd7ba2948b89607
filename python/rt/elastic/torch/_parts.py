"""What a run (`_job.py`) needs of its loader and of its model."""

from __future__ import annotations

from typing import Any, Optional, Protocol


class Loader(Protocol):
    """A data loader that is trained on."""

    initial_batch: int
    max_batch_size: Optional[int]  # None: the batch size stays.
    local_bounds: Optional[tuple[int, int]]
    accumulates: bool

    @property
    def dataset(self) -> Any:
        """The data set."""

    @property
    def length(self) -> int:
        """Samples of the data set."""

    @property
    def planned_batch(self) -> int:
        """Samples of all ranks in a whole step."""

    @property
    def planned_local(self) -> int:
        """Samples of a rank's micro-batch in a whole step, at most."""

    @property
    def accumulation_steps(self) -> int:
        """Micro-batches of a rank before the last one of a step."""


class Model(Protocol):
    """A model that measures its gradients."""

    gns: Any  # Its GradientNoiseScale.
    lr_factor: float
    sync_s: float
    max_replicas: Optional[int]  # Of a deterministic model.

    @property
    def is_stuck(self) -> bool:
        """Whether no step follows those that a GradScaler has left out."""

    def take_norms(self, values: list[float]) -> None:
        """Takes the norms of a step, added up over the ranks."""

    def end_micro_batch(self) -> None:
        """Called by the loader after the user's work on a micro-batch."""
