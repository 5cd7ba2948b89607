"""What this process knows of its run: rt's and torchrun's variables, or AdaptDL's own."""

from __future__ import annotations

import os
from typing import Optional

CHECKPOINT_PATH = "ADAPTDL_CHECKPOINT_PATH"


def _first(*names: str) -> Optional[str]:
    return next((os.environ[name] for name in names if os.environ.get(name)), None)


def _number(default: int, *names: str) -> int:
    text = _first(*names)
    if text is None:
        return default
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{' or '.join(names)} must be a whole number, not {text!r}") from None


def checkpoint_path() -> Optional[str]:
    """The directory of checkpoints outside a trial, or None: nothing is saved. In a trial, rt keeps
    the checkpoints."""
    return _first(CHECKPOINT_PATH)


def share_path() -> Optional[str]:
    """The directory that the ranks share, or None."""
    return _first("ADAPTDL_SHARE_PATH")


def job_id() -> Optional[str]:
    """The trial's id, such as "3/0"; None outside a trial."""
    return _first("RT_TRIAL_ID", "ADAPTDL_JOB_ID")


def master_addr() -> str:
    """The address at which the ranks meet."""
    return _first("MASTER_ADDR", "ADAPTDL_MASTER_ADDR") or "127.0.0.1"


def master_port() -> int:
    """The port at which the ranks meet; 0 if a single rank meets nobody."""
    return _number(0, "MASTER_PORT", "ADAPTDL_MASTER_PORT")


def replica_rank() -> int:
    """This process's rank, from 0."""
    return _number(0, "RANK", "ADAPTDL_REPLICA_RANK")


def num_replicas() -> int:
    """How many ranks there are."""
    return _number(1, "WORLD_SIZE", "ADAPTDL_NUM_REPLICAS")


def num_nodes() -> int:
    """On how many nodes the ranks run."""
    return _number(1, "GROUP_WORLD_SIZE", "ADAPTDL_NUM_NODES")


def num_restarts() -> int:
    """How often the ranks have been started again: after a failure, a move, or a resize."""
    resizes = _number(1, "RT_GENERATION") - 1
    if "RT_ATTEMPT" in os.environ:
        return _number(1, "RT_ATTEMPT") - 1 + resizes
    return _number(0, "TORCHELASTIC_RESTART_COUNT", "ADAPTDL_NUM_RESTARTS")


def supervisor_url() -> None:
    """None: rt has no supervisor that a script could call."""


def from_ray() -> bool:
    """Always false."""
    return False
