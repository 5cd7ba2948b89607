"""The functions that user code calls inside a trial: report, get_checkpoint, get_context."""

from __future__ import annotations

import contextlib
import os
import shutil
import warnings
from collections.abc import Iterator
from typing import Any, Optional

from rt import _script, _session
from rt._checkpoint import RESTORE_DIR, Checkpoint, scratch_dir
from rt._paths import Explained
from rt._resources import TrialResources


def report(
    metrics: Optional[dict[str, Any]] = None,
    *,
    checkpoint: Optional[Checkpoint] = None,
    **named: Any,
) -> None:
    """Reports one row: `report({"acc": 0.9})`, `report({...}, checkpoint=...)`, `report(acc=0.9)`.

    With a checkpoint it returns once the worker has taken the files; otherwise it returns at once.
    It ends the trial here when a stop rule or the scheduler decides so. Outside a trial it warns
    and does nothing, so that a training function can be tried by calling it. Raises ValueError when
    the metrics are not a dict. In a trial of several ranks each rank reports for itself, and the
    checkpoint of rank 0 is the checkpoint of the trial.
    """
    _report(metrics, checkpoint, named, together=False)


def report_together(
    metrics: Optional[dict[str, Any]] = None,
    checkpoint: Optional[Checkpoint] = None,
    **named: Any,
) -> None:
    """Like `report`, but every rank must call it equally often.

    The checkpoints that ranks pass with their n-th report are the shards of one checkpoint. It is
    committed once all ranks have reported and all shards are stored. It contains the files of all
    shards.
    """
    _report(metrics, checkpoint, named, together=True)


def report_at_barrier(
    metrics: Optional[dict[str, Any]] = None,
    checkpoint: Optional[Checkpoint] = None,
    **named: Any,
) -> None:
    """`train.report`: like report_together, and returns once every rank has reported this row."""
    _report(metrics, checkpoint, named, together=True, barrier=True)


def _report(
    metrics: Optional[dict[str, Any]],
    checkpoint: Optional[Checkpoint],
    named: dict[str, Any],
    together: bool,
    barrier: bool = False,
) -> None:
    if metrics is not None and not isinstance(metrics, dict):
        raise ValueError(f"report() takes a dict of metrics, not {type(metrics).__name__}")
    if checkpoint is not None and not isinstance(checkpoint, Checkpoint):
        raise ValueError("checkpoint must be a Checkpoint, e.g. Checkpoint.from_directory(path)")
    session = _session.current or _script.attach()
    if session is None:
        warnings.warn("report() does nothing outside a trial", stacklevel=3)
        return
    global _pending
    filled, _pending = _pending, None
    if checkpoint is None and filled is not None:
        checkpoint = Checkpoint(filled)
        checkpoint.is_given = True
    try:
        session.report({**(metrics or {}), **named}, checkpoint, together, barrier)
    finally:
        if filled is not None:
            shutil.rmtree(filled, ignore_errors=True)
    if checkpoint is not None:
        session.checkpoint_served()


_pending: Optional[str] = None  # The directory of checkpoint_dir(), for the next report.


@contextlib.contextmanager
def checkpoint_dir(step: Optional[int] = None) -> Iterator[str]:
    """The older way to make a checkpoint: write files into this directory, then call report(...).

    `with tune.checkpoint_dir(step=3) as path: torch.save(...)`. The step of the report is used.
    """
    global _pending
    path = scratch_dir(".checkpoint-", os.environ.get("RT_TRIAL_DIR") or None)
    yield path
    _pending = path


def get_checkpoint() -> Optional[Checkpoint]:
    """The checkpoint that this attempt resumes from, or None when it starts without one."""
    session = _session.current
    path = session.checkpoint_dir if session is not None else None
    path = path or os.environ.get("RT_CHECKPOINT_DIR") or given_checkpoint()
    return Checkpoint(path) if path else None


def given_checkpoint() -> Optional[str]:
    """The directory of the checkpoint that tune.run's `restore` names."""
    path = os.path.join(os.environ.get("RT_TRAINABLE", ""), RESTORE_DIR)
    return path if os.path.isabs(path) and os.path.isdir(path) else None


def checkpoint_requested() -> Optional[float]:
    """Seconds left to report a checkpoint that was requested, or None without a request."""
    session = _session.current or _script.attach()
    return session.checkpoint_requested() if session is not None else None


class TrialContext(Explained):
    """The trial, rank and node in which this code runs. Outside a trial the texts are empty."""

    _ray_name = "rt.train.TrainContext"

    def get_experiment_name(self) -> str:
        """The experiment's name."""
        session = _session.current
        known = session.experiment_name if session is not None else ""
        return known or os.environ.get("RT_EXPERIMENT_NAME", "")

    def get_trial_id(self) -> str:
        """The trial's id, such as "3/17": experiment and number."""
        return os.environ.get("RT_TRIAL_ID", "")

    def get_trial_name(self) -> str:
        """The trial's name, which is also the name of its directory."""
        directory = os.environ.get("RT_TRIAL_DIR", "").rstrip("/")
        return os.environ.get("RT_TRIAL_NAME") or os.path.basename(directory)

    def get_trial_dir(self) -> str:
        """A directory on this machine that belongs to the trial."""
        return os.environ.get("RT_TRIAL_DIR", "")

    def get_trial_resources(self) -> TrialResources:
        """The resources that the trial has, such as {"cpu": 1}; outside of a trial {}."""
        session = _session.current
        return TrialResources(session.resources if session is not None else {})

    def get_storage_path(self) -> str:
        """The same as get_trial_dir()."""
        return self.get_trial_dir()

    def get_world_size(self) -> int:
        """How many ranks the attempt has."""
        return int(os.environ.get("WORLD_SIZE", "1"))

    def get_world_rank(self) -> int:
        """This process's rank, from 0."""
        return int(os.environ.get("RANK", "0"))

    def get_local_rank(self) -> int:
        """This process's rank on its node, from 0."""
        return int(os.environ.get("LOCAL_RANK", "0"))

    def get_local_world_size(self) -> int:
        """How many of the ranks run on this node."""
        return int(os.environ.get("LOCAL_WORLD_SIZE", "1"))

    def get_node_rank(self) -> int:
        """The index of this node among the nodes of the attempt, from 0."""
        return int(os.environ.get("NODE_RANK", "0"))


def get_context() -> TrialContext:
    """The context of the running trial."""
    return TrialContext()
