"""ResourceChangingScheduler: trials get other resources while the search runs.

The head decides it, as `reallocation` of an experiment says, or a function of the user's, which
runs in the driver. A trial that reports a checkpoint is paused, and resumes from it with the new
resources.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Optional, Union

from rt._json import shown
from rt._slips import check_min_or_max, number, refuse_class, suggests_arguments
from rt.tune._trial_scheduler import TrialScheduler


def _amounts(name: str, given: Optional[dict[str, float]]) -> dict[str, float]:
    """Cpus and gpus, without those of which there is nothing. Raises ValueError for others."""
    found: dict[str, float] = {}
    for key, value in (given or {}).items():
        if str(key).lower() not in ("cpu", "gpu"):
            raise ValueError(f"{name} has CPU and GPU only, not {key!r}")
        if number(f"{name}[{key!r}]", value) < 0:
            raise ValueError(f"{name}[{key!r}] must not be below 0")
        if value:
            found[str(key).lower()] = value
    return found


@suggests_arguments
class DistributeResources:
    """Shares free cpus and gpus evenly among the trials that run, with Ray's arguments.

    add_bundles: a trial grows by bundles like its last one, not within its only one. increase_by:
    {"CPU": 1, "GPU": 1}, by which a trial grows or shrinks at once; without it one GPU for a trial
    that has whole GPUs, otherwise one CPU. increase_by_times: at most so often, where increase_by
    is given; below 1 there is no limit. reserve_resources: what stays free. Raises ValueError for
    invalid arguments.
    """

    _NAME = "distribute"

    def __init__(
        self,
        add_bundles: bool = False,
        increase_by: Optional[dict[str, float]] = None,
        increase_by_times: int = -1,
        reserve_resources: Optional[dict[str, float]] = None,
    ) -> None:
        by = _amounts("increase_by", increase_by)
        reserve = _amounts("reserve_resources", reserve_resources)
        times = number("increase_by_times", increase_by_times)
        if times != int(times):
            raise ValueError("increase_by_times must be a whole number")
        self._options: dict[str, Any] = {}
        if add_bundles:
            self._options["add_bundles"] = True
        if by:
            self._options["increase_by"] = {"cpu": 0, **by}
            if times > 0:
                self._options["increase_by_times"] = int(times)
        if reserve:
            self._options["reserve"] = {"cpu": 0, **reserve}

    def to_spec(self) -> dict[str, Any]:
        """The `reallocation` of an experiment's specification."""
        return {self._NAME: dict(self._options)}


@suggests_arguments
class DistributeResourcesToTopJob(DistributeResources):
    """Gives free cpus and gpus to the trial with the best newest value, with Ray's arguments.

    metric and mode: of that value; None: those of the search. Trials that were the best keep what
    they have until others lack it.
    """

    _NAME = "distribute_to_top"

    def __init__(
        self,
        add_bundles: bool = False,
        increase_by: Optional[dict[str, float]] = None,
        increase_by_times: int = -1,
        reserve_resources: Optional[dict[str, float]] = None,
        metric: Optional[str] = None,
        mode: Optional[str] = None,
    ) -> None:
        super().__init__(add_bundles, increase_by, increase_by_times, reserve_resources)
        check_min_or_max(mode)
        if (metric is None) != (mode is None):
            raise ValueError("metric and mode belong together: give both, or those of the search")
        if metric is not None:
            self._options.update({"metric": metric, "mode": mode})


_EVENLY = DistributeResources()


@suggests_arguments
class ResourceChangingScheduler(TrialScheduler):
    """Changes the resources of running trials, beside the decisions of base_scheduler.

    base_scheduler: any scheduler, by its name or as an object; None: FIFOScheduler.
    resources_allocation_function: DistributeResources or DistributeResourcesToTopJob, which run in
    the head; None: trials keep their resources; or a function of your own, which runs in the script
    after each result: function(tune_controller, trial, result, scheduler) returns a dict such as
    {"CPU": 2}, a PlacementGroupFactory, or None: the trial keeps what it has. As in Ray, it finds
    scheduler.base_trial_resources, trial.placement_group_factory, tune_controller.get_live_trials()
    and the cluster's cpus, tune_controller._resource_updater.get_num_cpus().

    A trial is given other resources where it reports a checkpoint: it ends there, and resumes from
    it. Until they are free it goes on with what it has, as it does while the script is away. Trials
    that report no checkpoint keep what they have. A function reads its resources from
    tune.get_context().get_trial_resources(), a class from self.trial_resources. Raises ValueError
    for invalid arguments.
    """

    def __init__(
        self,
        base_scheduler: Union[str, TrialScheduler, None] = None,
        resources_allocation_function: Union[
            DistributeResources, Callable[..., Any], None
        ] = _EVENLY,
    ) -> None:
        given = resources_allocation_function
        refuse_class("resources_allocation_function", given)
        is_ours = type(given) in (DistributeResources, DistributeResourcesToTopJob, type(None))
        if not is_ours and not callable(given):
            raise ValueError(
                "resources_allocation_function is DistributeResources(...), "
                "DistributeResourcesToTopJob(...) or a function from (tune_controller, trial, "
                f"result, scheduler) to resources, not {shown(given)}"
            )
        if isinstance(base_scheduler, ResourceChangingScheduler):
            raise ValueError("base_scheduler is a ResourceChangingScheduler itself")
        self.base_scheduler = base_scheduler
        self.allocation = given if isinstance(given, DistributeResources) and is_ours else None
        self.allocate: Any = None if is_ours else given  # The user's function.
        self._base_trial_resources: Any = None

    @property
    def base_trial_resources(self) -> Any:
        """The PlacementGroupFactory with which each trial begins; None before the search runs."""
        return self._base_trial_resources

    def to_spec(self) -> dict[str, Any]:
        """The `reallocation` of an experiment's specification; {}: none."""
        return {} if self.allocation is None else self.allocation.to_spec()


def reallocation_of(scheduler: Any) -> dict[str, Any]:
    """The `reallocation` that the user's scheduler asks for; {}: none."""
    if isinstance(scheduler, str) and scheduler.lower() == "resource_changing":
        scheduler = ResourceChangingScheduler()
    return scheduler.to_spec() if isinstance(scheduler, ResourceChangingScheduler) else {}


def allocator_of(scheduler: Any) -> Optional[ResourceChangingScheduler]:
    """The user's scheduler, if a function of the user's allocates; else None."""
    is_changing = isinstance(scheduler, ResourceChangingScheduler)
    return scheduler if is_changing and scheduler.allocate is not None else None
