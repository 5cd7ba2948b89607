"""The functions of ray.air.session, with which a trial reports and asks where it runs."""

from __future__ import annotations

from typing import Any

from rt._api import get_checkpoint, get_context
from rt._api import report_together as report


def get_experiment_name() -> str:
    """The experiment's name."""
    return get_context().get_experiment_name()


def get_trial_name() -> str:
    """The trial's name, which is also the name of its directory."""
    return get_context().get_trial_name()


def get_trial_id() -> str:
    """The trial's id, such as "3/17": experiment and number."""
    return get_context().get_trial_id()


def get_trial_dir() -> str:
    """A directory on this machine that belongs to the trial."""
    return get_context().get_trial_dir()


def get_trial_resources() -> dict[str, Any]:
    """The resources that the trial asked for, such as {"cpu": 1}."""
    return get_context().get_trial_resources()


def get_world_size() -> int:
    """How many ranks the attempt has."""
    return get_context().get_world_size()


def get_world_rank() -> int:
    """This process's rank, from 0."""
    return get_context().get_world_rank()


def get_local_rank() -> int:
    """This process's rank on its node, from 0."""
    return get_context().get_local_rank()


__all__ = [
    "get_checkpoint",
    "get_experiment_name",
    "get_local_rank",
    "get_trial_dir",
    "get_trial_id",
    "get_trial_name",
    "get_trial_resources",
    "get_world_rank",
    "get_world_size",
    "report",
]
