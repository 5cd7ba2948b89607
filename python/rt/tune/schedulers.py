"""Schedulers: they decide which trials continue."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Optional, Union

from rt import _algorithms
from rt._encode import encode_space
from rt._missing import explain
from rt._slips import check_min_or_max, number, refuse_class, suggests_arguments
from rt._space import uniform
from rt._values import restore_values
from rt.tune._policies import bounds_of, check_population, mutations_of, read_policy, space_with
from rt.tune._reallocation import (
    DistributeResources,
    DistributeResourcesToTopJob,
    ResourceChangingScheduler,
)
from rt.tune._trial_scheduler import TrialScheduler


class FIFOScheduler(TrialScheduler):
    """Runs every trial to its own end. Subclasses run in the driver."""


@suggests_arguments
class AsyncHyperBandScheduler(TrialScheduler):
    """Asynchronous successive halving (Li et al. 2020), the stopping variant, as in Ray.

    max_t and grace_period are in units of time_attr. At the rungs grace_period, grace_period *
    reduction_factor, ... the worst of the trials that reached the rung are stopped.
    stop_last_trials: end a trial that reaches max_t. rank_check: raise the first rung while it
    ranks trials otherwise than the next one. Raises ValueError for invalid arguments.
    """

    needs_metric = True

    def __init__(
        self,
        time_attr: str = "training_iteration",
        metric: Optional[str] = None,
        mode: Optional[str] = None,
        max_t: float = 100,
        grace_period: float = 1,
        reduction_factor: float = 4,
        brackets: int = 1,
        stop_last_trials: bool = True,
        rank_check: bool = False,
    ) -> None:
        check_min_or_max(mode)
        for name, value in (
            ("max_t", max_t),
            ("grace_period", grace_period),
            ("reduction_factor", reduction_factor),
            ("brackets", brackets),
        ):
            number(name, value)
        for name, value in (("max_t", max_t), ("grace_period", grace_period)):
            if value <= 0:
                raise ValueError(f"{name} must be above 0")
        if max_t < grace_period:
            raise ValueError("max_t must not be below grace_period")
        if reduction_factor <= 1:
            raise ValueError("reduction_factor must be above 1")
        if brackets < 1 or brackets > 64 or brackets != int(brackets):
            raise ValueError("brackets must be a whole number between 1 and 64")
        self.metric, self.mode = metric, mode
        self._arguments = {
            "time_attr": time_attr,
            "max_t": max_t,
            "grace_period": grace_period,
            "reduction_factor": reduction_factor,
            "brackets": int(brackets),
            "stop_last_trials": bool(stop_last_trials),
            **({"rank_check": True} if rank_check else {}),
        }

    def to_spec(self) -> dict[str, Any]:
        """{"asha": {...}}."""
        return {"asha": dict(self._arguments)}


ASHAScheduler = AsyncHyperBandScheduler


@suggests_arguments
class HyperBandScheduler(TrialScheduler):
    """HyperBand (Li et al. 2018), synchronous, in the head, with Ray's arguments.

    The trials of a bracket are paused at each rung until all of them are there; then the best
    1/reduction_factor continue from their checkpoints, and the others are stopped. A bracket that
    is not full waits while more trials may come. max_t is in units of time_attr. Trials report a
    checkpoint with the row of each rung. Raises ValueError for invalid arguments.
    """

    needs_metric = True
    _LARGEST_FIRST = False

    def __init__(
        self,
        time_attr: str = "training_iteration",
        metric: Optional[str] = None,
        mode: Optional[str] = None,
        max_t: int = 81,
        reduction_factor: float = 3,
        stop_last_trials: bool = True,
    ) -> None:
        check_min_or_max(mode)
        if number("max_t", max_t) < 1:
            raise ValueError("max_t must be at least 1")
        if number("reduction_factor", reduction_factor) < 1.1:
            raise ValueError("reduction_factor must be at least 1.1")
        self.metric, self.mode = metric, mode
        self._arguments = {
            "time_attr": time_attr,
            "max_t": max_t,
            "reduction_factor": reduction_factor,
            "largest_first": self._LARGEST_FIRST,
            "stop_last_trials": bool(stop_last_trials),
        }

    def to_spec(self) -> dict[str, Any]:
        """{"hyperband": {...}}."""
        return {"hyperband": dict(self._arguments)}


class HyperBandForBOHB(HyperBandScheduler):
    """HyperBandScheduler whose bands begin with the bracket that has the most trials.

    A search algorithm that learns, such as TPESearch, has results of low fidelity early then.
    """

    _LARGEST_FIRST = True


@suggests_arguments
class MedianStoppingRule(TrialScheduler):
    """The median stopping rule (Golovin et al. 2017) in the head, with Ray's arguments.

    From grace_period on (in units of time_attr), a trial is stopped when its best value is worse
    than the median of the other trials' means since grace_period, over those that have come as far:
    at least min_samples_required. hard_stop=False: it is paused instead, until no other trial waits
    for nodes, and then runs to its end; report checkpoints for that. min_time_slice has no effect:
    a trial continues while too few others have come as far, and is not paused for others. Raises
    ValueError for invalid arguments.
    """

    needs_metric = True

    def __init__(
        self,
        time_attr: str = "time_total_s",
        metric: Optional[str] = None,
        mode: Optional[str] = None,
        grace_period: float = 60.0,
        min_samples_required: int = 3,
        min_time_slice: int = 0,
        hard_stop: bool = True,
    ) -> None:
        check_min_or_max(mode)
        if number("grace_period", grace_period) < 0:
            raise ValueError("grace_period must be at least 0")
        if number("min_time_slice", min_time_slice) < 0:
            raise ValueError("min_time_slice must be at least 0")
        needed = number("min_samples_required", min_samples_required)
        if needed < 0 or needed != int(needed):
            raise ValueError("min_samples_required must be a whole number, at least 0")
        self.metric = metric
        self.mode = mode
        self._arguments = {
            "time_attr": time_attr,
            "grace_period": grace_period,
            "min_samples_required": int(needed),
            "hard_stop": bool(hard_stop),
        }

    def to_spec(self) -> dict[str, Any]:
        """{"median_stopping": {...}}."""
        return {"median_stopping": dict(self._arguments)}


class _PopulationScheduler(TrialScheduler):
    """Changes the configurations of its trials, and adds parameters that the space lacks to it."""

    needs_metric = True
    changes_params = True
    mutations: dict[str, Any]  # Values in order, or a domain, by parameter.

    def complete_space(self, space: Optional[dict[str, Any]]) -> Optional[dict[str, Any]]:
        """The space, with the mutated parameters that it lacks."""
        return space_with(space, self.mutations)


@suggests_arguments
class PopulationBasedTraining(_PopulationScheduler):
    """Population based training (Jaderberg et al. 2017) in the head, with Ray's arguments.

    Once in each perturbation_interval (in units of time_attr), a trial in the lowest quantile takes
    the newest checkpoint of a random trial in the highest, and a mutation of its configuration.
    hyperparam_mutations: for each parameter a list of its values in order, or a domain such as
    tune.uniform(0, 1); parameters that the search space lacks are drawn from it. Report a
    checkpoint with the first row of each interval. Values stay in their domains. When the
    population is larger than the cluster, trials take turns: they pause where they are compared.
    synch: trials wait for each other at their milestones and are compared together.
    pbt_policy_EXP_NUM.txt in the results directory has what each clone did, for
    PopulationBasedTrainingReplay, with any log_config.
    custom_explore_fn gets a copy of each new configuration after the mutation, and returns the one
    that the clone gets; it runs in the script. Where it raises, or returns no dict, the clone has
    the mutation. While the script is away no trial is cloned. Raises ValueError for invalid
    arguments.
    """

    def __init__(
        self,
        time_attr: str = "time_total_s",
        metric: Optional[str] = None,
        mode: Optional[str] = None,
        perturbation_interval: float = 60.0,
        burn_in_period: float = 0.0,
        hyperparam_mutations: Optional[dict[str, Any]] = None,
        quantile_fraction: float = 0.25,
        resample_probability: float = 0.25,
        perturbation_factors: tuple[float, float] = (1.2, 0.8),
        custom_explore_fn: Optional[Callable[[dict[str, Any]], dict[str, Any]]] = None,
        log_config: bool = True,
        require_attrs: bool = True,
        synch: bool = False,
    ) -> None:
        check_min_or_max(mode)
        if custom_explore_fn is not None and not callable(custom_explore_fn):
            raise ValueError(
                "custom_explore_fn must be a function from a configuration to another one, not "
                f"{custom_explore_fn!r}"
            )
        if hyperparam_mutations is None and custom_explore_fn is not None:
            hyperparam_mutations = {}
        is_given = bool(hyperparam_mutations) or custom_explore_fn is not None
        if not is_given or not isinstance(hyperparam_mutations, dict):
            raise ValueError("hyperparam_mutations names the parameters that are mutated")
        pair = isinstance(perturbation_factors, (list, tuple)) and len(perturbation_factors) == 2
        if not pair:
            raise ValueError("perturbation_factors are two numbers, such as (1.2, 0.8)")
        if not 0 <= number("resample_probability", resample_probability) <= 1:
            raise ValueError("resample_probability must be between 0 and 1")
        check_population(perturbation_interval, quantile_fraction)
        if number("burn_in_period", burn_in_period) < 0:
            raise ValueError("burn_in_period must be at least 0")
        if not require_attrs:
            raise ValueError("require_attrs=False is not there: each row has metric and time_attr")
        self.metric = metric
        self.mode = mode
        self.mutations = hyperparam_mutations
        self.custom_explore_fn = custom_explore_fn
        increase, decrease = perturbation_factors
        self._arguments = {
            "time_attr": time_attr,
            "perturbation_interval": perturbation_interval,
            "burn_in_period": burn_in_period,
            "hyperparam_mutations": mutations_of(hyperparam_mutations),
            "quantile_fraction": quantile_fraction,
            "resample_probability": resample_probability,
            "increase_factor": number("perturbation_factors", increase),
            "decrease_factor": number("perturbation_factors", decrease),
            "synch": bool(synch),
        }

    def to_spec(self) -> dict[str, Any]:
        """{"pbt": {...}}."""
        return {"pbt": self._arguments}


@suggests_arguments
class PB2(_PopulationScheduler):
    """Population based bandits (Parker-Holder et al. 2020) in the head, with Ray's arguments.

    As PopulationBasedTraining, but a model of the population's progress chooses the new
    configuration. hyperparam_bounds: for each explored parameter its lower and upper bound, such as
    {"lr": [1e-4, 1e-1]}; parameters that the search space lacks are drawn from them. Raises
    ValueError for invalid arguments, custom_explore_fn and synch.
    """

    def __init__(
        self,
        time_attr: str = "time_total_s",
        metric: Optional[str] = None,
        mode: Optional[str] = None,
        perturbation_interval: float = 60.0,
        hyperparam_bounds: Optional[dict[str, Any]] = None,
        quantile_fraction: float = 0.25,
        log_config: bool = True,
        require_attrs: bool = True,
        synch: bool = False,
        custom_explore_fn: Optional[Callable[[dict[str, Any]], dict[str, Any]]] = None,
    ) -> None:
        check_min_or_max(mode)
        if custom_explore_fn is not None or synch or not require_attrs:
            raise ValueError(
                "custom_explore_fn, synch and require_attrs=False are not there: the head's model "
                "chooses the values as trials come to their milestones; leave them out"
            )
        check_population(perturbation_interval, quantile_fraction)
        self.metric, self.mode = metric, mode
        bounds = bounds_of(hyperparam_bounds)
        self.mutations = {name: uniform(low, high) for name, (low, high) in bounds.items()}
        self._arguments = {
            "time_attr": time_attr,
            "perturbation_interval": perturbation_interval,
            "quantile_fraction": quantile_fraction,
            "hyperparam_bounds": {name: list(pair) for name, pair in bounds.items()},
        }

    def to_spec(self) -> dict[str, Any]:
        """{"pb2": {...}}."""
        return {"pb2": self._arguments}


@suggests_arguments
class PopulationBasedTrainingReplay(TrialScheduler):
    """Replays in one trial what population based training did to it, as in Ray.

    policy_file: a pbt_policy_*.txt of a results directory, of rt or of Ray, or what
    `rt trial show TRIAL -o json` printed. The trial starts with the configuration of its first
    ancestor, and takes the later ones at the recorded iterations, from its own newest checkpoint:
    report one with each of these rows. Values of the space that JSON cannot hold belong into
    param_space again. Raises ValueError for a file that is no policy.
    """

    changes_params = True

    def __init__(self, policy_file: str) -> None:
        self.policy_file = policy_file
        self.config, self.policy = read_policy(policy_file)

    def to_spec(self) -> dict[str, Any]:
        """{"pbt_replay": {...}}."""
        changes = [{"time": time, "config": config} for time, config in self.policy]
        return {"pbt_replay": {"policy": changes}}

    def complete_space(self, space: Optional[dict[str, Any]]) -> Optional[dict[str, Any]]:
        """The space, with the configuration from which the policy starts in place of its own.

        What JSON cannot hold is that value of the space which is shown as the same text.
        """
        table = encode_space(space)[1]
        return {**(space or {}), **restore_values(copy.deepcopy(self.config), table)}


class HeadScheduler(TrialScheduler):
    """A scheduler of the head that has no class of its own: its name and its options.

    Raises ValueError for an option that it does not have.
    """

    def __init__(
        self,
        table: _algorithms.Table,
        metric: Optional[str] = None,
        mode: Optional[str] = None,
        **options: Any,
    ) -> None:
        _algorithms.check(table, options)
        self.metric, self.mode = metric, mode
        self.needs_metric = bool(table["needs_metric"])
        self._spec = {str(table["name"]): options}

    def to_spec(self) -> dict[str, Any]:
        """{name: {option: value}}."""
        return self._spec


# Names that Ray gives to classes of this module.
_CLASSES: dict[str, type[TrialScheduler]] = {
    "fifo": FIFOScheduler,
    "asha": AsyncHyperBandScheduler,
    "async_hyperband": AsyncHyperBandScheduler,
    "asynchyperband": AsyncHyperBandScheduler,
    "hyperband": HyperBandScheduler,
    "hb_bohb": HyperBandForBOHB,
    "median_stopping": MedianStoppingRule,
    "median_stopping_rule": MedianStoppingRule,
    "medianstopping": MedianStoppingRule,
    "pb2": PB2,
    "pbt": PopulationBasedTraining,
    "pbt_replay": PopulationBasedTrainingReplay,
    "resource_changing": ResourceChangingScheduler,
}


def create_scheduler(scheduler: str, **arguments: Any) -> TrialScheduler:
    """The scheduler of that name. Raises ValueError that lists the known names.

    As in Ray, arguments of other schedulers are left out, so that names can be swapped.
    """
    name = str(scheduler).lower()
    if name in _CLASSES:
        taken = _algorithms.arguments_for(_CLASSES[name], _CLASSES.values(), arguments)
        return _CLASSES[name](**taken)
    missing = explain(f"{__name__}.{name}")
    if missing:
        raise ValueError(missing)
    table = _algorithms.find("scheduler", name)
    if table is None:
        known = sorted({*_CLASSES, *_algorithms.names("scheduler")})
        near = _algorithms.meant(name, known)
        raise ValueError(f"unknown scheduler {scheduler!r}{near}; known: {', '.join(known)}")
    return HeadScheduler(table, **arguments)


def runs_in_head(scheduler: TrialScheduler) -> bool:
    """Whether the head runs it; a subclass runs in the driver."""
    return type(scheduler) in {FIFOScheduler, HeadScheduler, *_CLASSES.values()}


def as_scheduler(scheduler: Union[str, TrialScheduler, None]) -> TrialScheduler:
    """The user's value as a scheduler; of a ResourceChangingScheduler, the one that it has.

    Raises ValueError if it is none.
    """
    if scheduler is None:
        return FIFOScheduler()
    if isinstance(scheduler, str):
        scheduler = create_scheduler(scheduler)
    if isinstance(scheduler, ResourceChangingScheduler):
        return as_scheduler(scheduler.base_scheduler)
    if isinstance(scheduler, TrialScheduler):
        return scheduler
    refuse_class("scheduler", scheduler)
    raise ValueError(
        f"{type(scheduler).__name__} is not a scheduler of rt; known: fifo, asha, and subclasses "
        "of tune.schedulers.TrialScheduler"
    )


__all__ = [
    "PB2",
    "ASHAScheduler",
    "AsyncHyperBandScheduler",
    "DistributeResources",
    "DistributeResourcesToTopJob",
    "FIFOScheduler",
    "HyperBandForBOHB",
    "HyperBandScheduler",
    "MedianStoppingRule",
    "PopulationBasedTraining",
    "PopulationBasedTrainingReplay",
    "ResourceChangingScheduler",
    "TrialScheduler",
    "create_scheduler",
]
