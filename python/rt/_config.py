"""RunConfig and its parts: the settings of a run, as opposed to those of the search space."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Optional, Union
from urllib.parse import unquote, urlsplit

from rt._slips import refuse_class, suggests_arguments, whole


@suggests_arguments
@dataclass
class FailureConfig:
    """max_failures: restarts per trial (-1: unlimited). fail_fast: True, False or "raise".

    retry, breaker, watchdog: as in an experiment's YAML (docs/policies.md), e.g.
    retry=[{"exit_code": 137, "then": "retry"}], breaker=False, watchdog={"factor": 10}.
    """

    max_failures: int = 0
    fail_fast: Union[bool, str] = False
    retry: Optional[list[dict[str, Any]]] = None
    breaker: Union[dict[str, Any], bool, None] = None
    watchdog: Optional[dict[str, Any]] = None

    def __post_init__(self) -> None:
        if self.fail_fast not in (True, False, "raise"):
            raise ValueError(f"fail_fast must be True, False or 'raise', not {self.fail_fast!r}")
        if whole("max_failures", self.max_failures) < -1:
            raise ValueError("max_failures must be -1 (unlimited) or more")
        if self.fail_fast and self.max_failures != 0:
            raise ValueError("max_failures must be 0 when fail_fast is set")


@suggests_arguments
@dataclass
class CheckpointConfig:
    """Which checkpoints are kept and, for class trainables, when they are made.

    checkpoint_frequency counts iterations (0: never). num_to_keep None keeps all checkpoints.
    durable_after says where a checkpoint must be stored before it counts: "store" (the checkpoint
    store), "peer" (another node's disk as well) or "local" (this node's disk). With "peer" and
    "local" it reaches the store a little later. Trials of several ranks always wait for the store.
    """

    num_to_keep: Optional[int] = None
    checkpoint_score_attribute: Optional[str] = None
    checkpoint_score_order: str = "max"
    checkpoint_frequency: int = 0
    checkpoint_at_end: Optional[bool] = None
    durable_after: str = "store"

    def __post_init__(self) -> None:
        if self.durable_after not in ("store", "peer", "local"):
            raise ValueError("durable_after must be 'store', 'peer' or 'local'")
        if self.num_to_keep is not None and whole("num_to_keep", self.num_to_keep) < 1:
            raise ValueError("num_to_keep must be None (all) or at least 1")
        if self.checkpoint_score_order not in ("max", "min"):
            raise ValueError("checkpoint_score_order must be 'max' or 'min'")
        if whole("checkpoint_frequency", self.checkpoint_frequency) < 0:
            raise ValueError("checkpoint_frequency must be 0 (never) or more")

    def to_spec(self) -> dict[str, Any]:
        """The `checkpoints` of an experiment's specification; empty when all of them are kept."""
        spec: dict[str, Any] = {}
        if self.num_to_keep is not None:
            spec["num_to_keep"] = int(self.num_to_keep)
        if self.checkpoint_score_attribute:
            spec["score_attribute"] = self.checkpoint_score_attribute
            spec["score_order"] = self.checkpoint_score_order
        if self.durable_after != "store":
            spec["durable_after"] = self.durable_after
        return spec


@suggests_arguments
@dataclass
class SyncConfig:
    """Accepted for scripts written for Ray, and ignored: rt needs no syncing."""

    sync_period: float = 300
    sync_timeout: float = 1800
    sync_artifacts: bool = False
    sync_artifacts_on_checkpoint: bool = True


StopFunction = Callable[[str, dict[str, Any]], bool]


@suggests_arguments
@dataclass
class RunConfig:
    """name: of the experiment (default: trainable and date). storage_path: parent of its results,
    a directory, also as file:///....

    stop: {metric: threshold}, an expression such as "loss < 0.1 or training_iteration >= 100", or
    a function of (trial_id, result). verbose: 0 prints nothing.
    priority: from -1000 to 1000; trials of a lower priority are suspended if this experiment needs
    their capacity.
    short_trials: a trial of up to 2 s may be backfilled: it waits on its worker behind a running
    trial, and starts without asking the head. If such a trial is withdrawn from a silent node, it
    is not known whether it started.
    limit_cpu: the kernel limits each trial to the cpus that it asked for, if the node supports it.
    suspend: trials that are paused or preempted are frozen where they are, and continue there.
    preflight: True, or {"min_bus_gbps": 200}: rt-probe tests the gpus of a trial before it starts.
    A gpu that fails takes no more work, and the trial starts elsewhere.
    """

    name: Optional[str] = None
    storage_path: Optional[str] = None
    storage_filesystem: Any = None
    failure_config: Optional[FailureConfig] = None
    checkpoint_config: Optional[CheckpointConfig] = None
    sync_config: Optional[SyncConfig] = None
    verbose: Optional[int] = None
    stop: Union[dict[str, Any], str, StopFunction, None] = None
    callbacks: Optional[list[Any]] = None
    progress_reporter: Any = None
    log_to_file: Any = False
    priority: int = 0
    short_trials: bool = False
    limit_cpu: bool = False
    suspend: bool = False
    preflight: Union[bool, dict[str, float]] = False
    local_dir: Optional[str] = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.storage_path, str) and self.storage_path.startswith("file:///"):
            self.storage_path = unquote(urlsplit(self.storage_path).path)
        refuse_class("failure_config", self.failure_config)
        refuse_class("checkpoint_config", self.checkpoint_config)
