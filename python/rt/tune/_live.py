"""The arguments of schedulers, searchers and callbacks: current trials, and a controller."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Optional

from rt._paths import Explained
from rt._resources import PlacementGroupFactory, as_factory
from rt.tune._allocate import ClusterResources
from rt.tune._trial_base import AnyTrial, MetricSummary, evaluated, tag_of

PENDING, RUNNING, PAUSED = "PENDING", "RUNNING", "PAUSED"
TERMINATED, ERROR = "TERMINATED", "ERROR"


class LiveTrial(Explained):
    """A trial while the search runs, with Ray's names.

    `space`: of the search, in the form of the head.
    """

    _ray_name = "rt.tune.Trial"
    PENDING, RUNNING, PAUSED = PENDING, RUNNING, PAUSED
    TERMINATED, ERROR = TERMINATED, ERROR

    def __init__(
        self,
        trial_id: str,
        number: int,
        config: dict[str, Any],
        name: str,
        trainable_name: str = "",
        space: Optional[Mapping[str, Any]] = None,
    ) -> None:
        self.trial_id = trial_id
        self.number = number
        self.config = config
        self._space = space or {}
        self.evaluated_params = evaluated(config, self._space)
        self.experiment_tag = tag_of(number, config, self._space)
        self.trial_name = name
        self.trainable_name = trainable_name
        self.local_path = ""
        self.status = PENDING
        self.last_result: dict[str, Any] = {}
        self._summary = MetricSummary()
        self.checkpoint: Any = None
        self.num_failures = 0
        self.error_message = ""
        self.start_time: Optional[float] = None
        self.attempt = 0
        self.released = False  # It may run once there is capacity: its scheduler chose it.
        self.told = False  # The searcher and the scheduler know its end.
        self.resources: dict[str, Any] = {}  # In the form of the head.
        self.allocated: Optional[dict[str, Any]] = None  # By the user's function, newest.

    @property
    def placement_group_factory(self) -> PlacementGroupFactory:
        """What it has, or begins with."""
        return as_factory(self.resources or {"cpu": 1})

    @property
    def path(self) -> str:
        """The trial's results directory, on the machine of the head."""
        return self.local_path

    logdir = path

    @property
    def metric_analysis(self) -> dict[str, dict[str, float]]:
        """Metric -> its "max", "min", "avg" and "last"."""
        return self._summary.values

    @property
    def metric_n_steps(self) -> dict[str, int]:
        """Metric -> the number of rows that had it."""
        return self._summary.counts

    @property
    def has_checkpoint(self) -> bool:
        """Whether a checkpoint was stored."""
        return self.checkpoint is not None

    def is_finished(self) -> bool:
        """Whether it has ended."""
        return self.status in (TERMINATED, ERROR)

    def update_last_result(self, result: dict[str, Any]) -> None:
        """Records a row, and updates metric_analysis."""
        self.last_result = result
        self.experiment_tag = str(result.get("experiment_tag") or self.experiment_tag)
        self._summary.add(result)

    def reconfigured(self, config: dict[str, Any]) -> None:
        """Records the configuration that its attempts have from now on."""
        self.config = config
        self.evaluated_params = evaluated(config, self._space)
        self.experiment_tag = tag_of(self.number, config, self._space)

    def started(self, attempt: int) -> None:
        """Records that its process runs."""
        self.status, self.attempt, self.released = RUNNING, attempt, False
        self.start_time = self.start_time or time.time()

    def ended(self, failed: bool) -> None:
        """Records its end. As in Ray, its newest row has `done` unless it failed."""
        self.status = ERROR if failed else TERMINATED
        if self.last_result and not failed:
            self.last_result = {**self.last_result, "done": True}

    def __str__(self) -> str:
        return self.trial_name

    __repr__ = __str__


AnyTrial.register(LiveTrial)  # A callback's trial is a tune.Trial as well.


class Controller(Explained):
    """The `tune_controller` of schedulers."""

    _ray_name = "rt.tune.execution.tune_controller.TuneController"

    def __init__(self, search_alg: Any, scheduler: Any) -> None:
        self.search_alg = self.searcher = search_alg
        self.scheduler_alg = scheduler
        self.iteration = 0
        self.trials: dict[int, LiveTrial] = {}
        self.stop: Callable[[LiveTrial], None] = lambda trial: None
        self.pause: Callable[[LiveTrial], None] = lambda trial: None
        self._resource_updater = ClusterResources(dict)  # Ray's name for it.

    def get_trials(self) -> list[LiveTrial]:
        """All trials, by number."""
        return list(self.trials.values())

    def get_live_trials(self) -> list[LiveTrial]:
        """The trials that have not ended."""
        return [trial for trial in self.trials.values() if not trial.is_finished()]

    def get_trial(self, trial_id: str) -> Optional[LiveTrial]:
        """The trial of that id."""
        return next((t for t in self.trials.values() if t.trial_id == trial_id), None)

    def stop_trial(self, trial: LiveTrial) -> None:
        """Ends a trial."""
        self.stop(trial)

    request_stop_trial = stop_trial

    def pause_trial(self, trial: LiveTrial, should_checkpoint: bool = True) -> None:
        """Asks a trial to save and end; choose_trial_to_run decides when it resumes."""
        self.pause(trial)
