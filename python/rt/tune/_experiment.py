"""Turns a user's request into the specification of an experiment."""

from __future__ import annotations

import datetime
import functools
import inspect
import math
import os
import sys
from dataclasses import dataclass, field
from typing import Any, Optional, Union

from rt._computed import computed, grids
from rt._config import RunConfig
from rt._encode import constants, encode_space, has_variables, nest_points, nested_point
from rt._json import clean, is_finite, is_number, shown, unboxed
from rt._logs import names_of
from rt._pack import write_payload
from rt._resources import resources_spec
from rt._slips import Place, check_min_or_max, number, suggests_arguments, whole
from rt._trainable import Trainable
from rt._values import Path, ValueTable
from rt.tune._advice import Advice
from rt.tune._native import space_of
from rt.tune._reallocation import allocator_of, reallocation_of
from rt.tune._variants import generate_variants
from rt.tune._wrap import lookup, resources_of
from rt.tune.logger import asked_callbacks
from rt.tune.schedulers import as_scheduler, runs_in_head
from rt.tune.search import ConcurrencyLimiter, HeadSearch, Searcher, as_search
from rt.tune.stopper import (
    ExperimentPlateauStopper,
    MaximumIterationStopper,
    TimeoutStopper,
    TrialPlateauStopper,
    parts,
)


@suggests_arguments
@dataclass
class TuneConfig:
    """The settings of the search.

    metric and mode may be lists: several objectives, which tpe and gp improve together
    (ResultGrid.get_best_results). constraints: {metric: {"<=": number}} or ">="; a trial whose
    newest row breaks one is worse than every trial that keeps them.
    num_samples repeats the whole space (-1: unlimited). max_concurrent_trials None or 0: no
    limit. time_budget_s: seconds or a timedelta, for the whole search. reuse_actors: a class
    trainable that has reset_config is set up once on each node (Trainable.reset_config).
    """

    metric: Union[str, list[str], None] = None
    mode: Union[str, list[str], None] = None
    search_alg: Any = None
    scheduler: Any = None
    num_samples: int = 1
    max_concurrent_trials: Optional[int] = None
    time_budget_s: Any = None
    reuse_actors: bool = False
    trial_name_creator: Any = None
    trial_dirname_creator: Any = None
    constraints: Optional[dict[str, dict[str, float]]] = None

    def __post_init__(self) -> None:
        check_min_or_max(self.mode)
        if not isinstance(self.time_budget_s, (datetime.timedelta, type(None))):
            number("time_budget_s", self.time_budget_s, "seconds or a datetime.timedelta")
            if self.time_budget_s <= 0:
                raise ValueError(f"time_budget_s must be above 0, not {self.time_budget_s!r}")
        if self.max_concurrent_trials is not None:
            whole("max_concurrent_trials", self.max_concurrent_trials)


@dataclass
class Request:
    """One search, as both Tuner and tune.run describe it."""

    trainable: Any
    space: Optional[dict[str, Any]] = None
    tune: TuneConfig = field(default_factory=TuneConfig)
    run: RunConfig = field(default_factory=RunConfig)
    resources: Any = None  # One request, or a function from a configuration to it.
    restore: Optional[str] = None  # Directory of the checkpoint from which every trial starts.
    place: Optional[Place] = None  # The place of the call in the script.
    is_search: bool = True  # Not one training run, whose configuration is no space.

    def __post_init__(self) -> None:
        self.space = space_of(self.tune.search_alg, self.space)


def trainable_name(trainable: Any) -> str:
    """A name for trials and directories, from the name of a function or class."""
    while isinstance(trainable, functools.partial):
        trainable = trainable.func
    name = getattr(trainable, "__name__", type(trainable).__name__)
    return "".join(c if c.isalnum() or c in "_-." else "_" for c in name).strip("_.") or "trainable"


def metric_and_mode(tune: TuneConfig) -> tuple[Any, Any]:
    """The metric and mode of the search: its own settings, its scheduler's or its algorithm's.

    Both are lists where there are several objectives.
    """
    scheduler, algorithm = as_scheduler(tune.scheduler), as_search(tune.search_alg)
    found = {"metric": tune.metric, "mode": tune.mode}
    # A searcher in the driver is told these, and may have others of its own.
    given_by: list[tuple[str, Any]] = [("scheduler", scheduler)]
    if isinstance(algorithm, ConcurrencyLimiter):
        algorithm = algorithm.searcher
    if isinstance(algorithm, HeadSearch):
        given_by.append(("search algorithm", algorithm))
    for name in found:
        for kind, source in given_by:
            theirs = getattr(source, name, None)
            if found[name] and theirs and found[name] != theirs:
                raise ValueError(
                    f"the {kind} has {name} {theirs!r}, the search has {found[name]!r}"
                )
            found[name] = found[name] or theirs
    metric, mode = found["metric"], found["mode"]
    if scheduler.needs_metric and not metric:
        name = next(iter(scheduler.to_spec()))
        raise ValueError(f"{name} compares trials by a metric: give metric and mode")
    return metric, mode


def check_mode(tune: TuneConfig) -> None:
    """Raises ValueError, as Ray does, when trials are to be compared and nothing says how."""
    metric, mode = metric_and_mode(tune)
    for part in (as_scheduler(tune.scheduler), as_search(tune.search_alg)):
        if metric and not mode and part.needs_metric:
            name = next(iter(part.to_spec()))
            raise ValueError(
                f"{name} compares trials by {metric!r}, and no mode says whether less or more is "
                "better; give mode='min' or mode='max' as well"
            )


def is_strict() -> bool:
    """Whether a row without the metric makes its trial fail, as in Ray."""
    names = ("RT_DISABLE_STRICT_METRIC_CHECKING", "TUNE_DISABLE_STRICT_METRIC_CHECKING")
    return not any(os.environ.get(name) == "1" for name in names)


def _stop_rules(stop: Any) -> Union[dict[str, Any], str]:
    """The `stop` of a specification. Raises ValueError for a threshold that is not a number."""
    if isinstance(stop, str):
        return stop
    rules: dict[str, Any] = {}
    for stopper in parts(stop):
        if type(stopper) is MaximumIterationStopper:
            known = rules.get("training_iteration", stopper.max_iter)
            rules["training_iteration"] = min(known, stopper.max_iter)
    rules.update({key: each.to_spec() for key, each in _plateaus_in_head(stop).items()})
    given = dict(stop) if isinstance(stop, dict) else {}
    for key in _PLATEAUS:
        if isinstance(given.get(key), dict) and not {"<=", ">="} & set(given[key]):
            rules[key] = clean(given.pop(key))  # The head checks it.
    for key, value in _flat_rules(given).items():
        bound = unboxed(value)
        inner = next(iter(bound.values())) if isinstance(bound, dict) and len(bound) == 1 else bound
        if bound is True:  # For a metric that is true or false.
            bound = inner = 1
        too_large = isinstance(inner, int) and not is_finite(inner)
        if not is_number(inner) or inner != inner or too_large:
            raise ValueError(f"stop: the threshold of {key!r} must be a number, not {shown(value)}")
        if isinstance(bound, dict) and next(iter(bound)) not in ("<=", ">="):
            raise ValueError(f"stop: the comparison of {key!r} must be '<=' or '>='")
        rules[str(key)] = clean(bound)
    return rules


_PLATEAUS = {"plateau": TrialPlateauStopper, "experiment_plateau": ExperimentPlateauStopper}


def _plateaus_in_head(stop: Any) -> dict[str, Any]:
    """The stoppers whose rules the head has: one of each kind, and not for every argument."""
    found: dict[str, Any] = {}
    for key, kind in _PLATEAUS.items():
        for stopper in parts(stop):
            if type(stopper) is kind and stopper.to_spec():
                found.setdefault(key, stopper)
    return found


def _is_comparison(key: Any) -> bool:
    return bool(key) and not str(key).strip("<>=!")


def _flat_rules(stop: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"a": {"b": 1}} -> {"a/b": 1}; {"loss": {"<=": 1}} is a rule of its own."""
    flat = {}
    for key, value in stop.items():
        nested = isinstance(value, dict) and value and not any(map(_is_comparison, value))
        below = _flat_rules(value, f"{prefix}{key}/") if nested else {f"{prefix}{key}": value}
        flat.update(below)
    return flat


def _budget(request: Request) -> Optional[float]:
    """Seconds for the search: the minimum of time_budget_s and the TimeoutStoppers."""
    given = request.tune.time_budget_s
    is_delta = isinstance(given, datetime.timedelta)
    limits = [] if given is None else [given.total_seconds() if is_delta else float(given)]
    limits += [s.timeout_s for s in parts(request.run.stop) if type(s) is TimeoutStopper]
    return min(limits) if limits else None


def advice_of(request: Request, spec: dict[str, Any]) -> Advice:
    """The questions that only Python code can answer, which the head asks this driver."""
    scheduler = as_scheduler(request.tune.scheduler)
    search = as_search(request.tune.search_alg)
    in_head = (MaximumIterationStopper, TimeoutStopper)
    plateaus = list(_plateaus_in_head(request.run.stop).values())
    stoppers = [
        each
        for each in parts(request.run.stop)
        if type(each) not in in_head and not any(each is one for one in plateaus)
    ]
    chosen = _chosen_resources(request)
    advice = Advice(
        searcher=search if isinstance(search, Searcher) else None,
        scheduler=None if runs_in_head(scheduler) else scheduler,
        explore=getattr(scheduler, "custom_explore_fn", None) if runs_in_head(scheduler) else None,
        allocator=allocator_of(request.tune.scheduler),
        resources=spec["resources"],
        stoppers=stoppers,
        callbacks=asked_callbacks(request.run.callbacks),
        seed=spec.get("seed"),
        name_of=request.tune.trial_name_creator,
        directory_of=request.tune.trial_dirname_creator,
        resources_of=chosen if callable(chosen) else None,
        info={
            "stop": request.run.stop,
            "num_samples": request.tune.num_samples,
            "total_num_samples": _trials_total(request),
            "trainable": spec["trainable"],
        },
        space=spec["space"],
    )
    if isinstance(search, ConcurrencyLimiter) and not search.batch:
        # The head enforces the limit; the wrapped searcher is asked directly.
        inner = search.searcher
        advice.searcher = inner if isinstance(inner, Searcher) else None
    advice.computed = computed(request.space or {}, head_draws=advice.searcher is None)
    return advice


def _trials_total(request: Request) -> int:
    """The number of trials of the search; sys.maxsize when it is unbounded."""
    samples, space = request.tune.num_samples, request.space or {}
    if samples < 0:
        return sys.maxsize
    points = getattr(as_search(request.tune.search_alg), "points", [])[:samples]
    points = [nested_point(point, space) for point in points]
    found = grids(space)
    free = (samples - len(points)) * _grid_points(found, {})
    return free + sum(_grid_points(found, point) for point in points)


def _grid_points(found: list[tuple[Path, list[Any]]], point: Any) -> int:
    """The product of the grids' sizes, without those that `point` fixes."""
    return math.prod(len(values) for path, values in found if not _fixes(point, path))


def _fixes(point: Any, path: Path) -> bool:
    for step in path:
        point = point.get(step) if isinstance(point, dict) else None
    return point is not None


def tell_properties(
    request: Request, advice: Advice, spec: dict[str, Any], resumed: bool = False
) -> None:
    """Passes metric and space to searcher and scheduler. ValueError: only part of a space.

    resumed: the searcher was saved when it had taken the space, and need not take it again.
    """
    metric, mode = metric_and_mode(request.tune)
    if advice.scheduler is not None:
        advice.scheduler.set_search_properties(metric, mode)
    if advice.searcher is None:
        return
    space = dict(request.space or {})
    takes = advice.searcher.set_search_properties(metric, mode, space)
    if not takes and not resumed and spec["space"] and has_variables(space):
        raise ValueError(
            f"{type(advice.searcher).__name__} did not take the search space (its "
            "set_search_properties returned False); define the space in the searcher, and leave "
            "only constants in the configuration"
        )
    spec["space"] = advice.space = constants(spec["space"])


def _resources(request: Request) -> dict[str, Any]:
    chosen = _chosen_resources(request)
    return resources_spec({"cpu": 1} if callable(chosen) else chosen)


def _chosen_resources(request: Request) -> Any:
    """One request for all trials, or a function from a trial's configuration to its own."""
    return request.resources or resources_of(request.trainable) or {"cpu": 1}


def _max_concurrent(tune: TuneConfig, search: Any) -> int:
    wanted, limited = tune.max_concurrent_trials or 0, search.max_concurrent or 0
    if isinstance(search, ConcurrencyLimiter) and wanted not in (0, limited):
        raise ValueError(
            f"max_concurrent_trials is {wanted}, but the ConcurrencyLimiter says {limited}"
        )
    if isinstance(search, ConcurrencyLimiter) and search.batch:
        return 0  # A batch may be larger than its running part.
    return int(wanted or limited)


def _check_counts(tune: TuneConfig) -> None:
    if whole("num_samples", tune.num_samples) == 0 or tune.num_samples < -1:
        raise ValueError(f"num_samples must be -1 or at least 1, not {tune.num_samples!r}")
    if (tune.max_concurrent_trials or 0) < 0:
        raise ValueError("max_concurrent_trials must be 0 (no limit) or more")


def _space_of(request: Request) -> Optional[dict[str, Any]]:
    """The search space, with the parameters that its scheduler mutates."""
    scheduler = as_scheduler(request.tune.scheduler)
    if not scheduler.changes_params or not runs_in_head(scheduler):
        return request.space
    search = as_search(request.tune.search_alg)
    if isinstance(search, Searcher) or "basic" not in search.to_spec():
        raise ValueError(
            f"{type(scheduler).__name__} changes the configurations of its trials itself, so that "
            "a search algorithm would learn nothing; leave search_alg out"
        )
    return scheduler.complete_space(request.space)


def _reallocation(request: Request) -> dict[str, Any]:
    """{}: none. Raises ValueError where trials cannot be given other resources."""
    found = reallocation_of(request.tune.scheduler)
    if not found and allocator_of(request.tune.scheduler) is None:
        return {}
    if request.tune.reuse_actors:
        raise ValueError("ResourceChangingScheduler starts trials again: leave reuse_actors out")
    if callable(_chosen_resources(request)):
        raise ValueError(
            "ResourceChangingScheduler begins with the same resources for all trials: give them "
            "as a dict, not as a function of the configuration"
        )
    return found


def build_spec(request: Request) -> tuple[dict[str, Any], ValueTable, bool]:
    """(specification without inputs, table of values, whether its name contains today's date).

    Raises ValueError for every mistake that can be detected here.
    """
    tune, run = request.tune, request.run
    _check_counts(tune)
    names_of(run.log_to_file)  # Refuses an invalid value before anything is started.
    space, table = encode_space(_space_of(request))
    metric, mode = metric_and_mode(tune)
    search = as_search(tune.search_alg)
    name = trainable_name(request.trainable)
    dated = run.name is None
    today = datetime.datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
    spec: dict[str, Any] = {
        "experiment": f"{name}_{today}" if dated else run.name,
        "trainable": name,
        "command": [sys.executable, "-m", "rt._trial"],
        "space": space,
        "num_samples": tune.num_samples,
        "search": nest_points(search.to_spec(), request.space),
        "scheduler": as_scheduler(tune.scheduler).to_spec(),
        "stop": _stop_rules(run.stop),
        "resources": _resources(request),
        "max_concurrent": _max_concurrent(tune, search),
    }
    if metric:
        spec["metric"] = metric
    if metric and not is_strict():
        spec["strict_metric"] = False
    if mode:
        spec["mode"] = mode
    if tune.constraints:
        spec["constraints"] = tune.constraints
    reallocation = _reallocation(request)
    if reallocation:
        spec["reallocation"] = reallocation
    budget = _budget(request)
    if budget is not None:
        spec["time_budget"] = budget
    if search.seed is not None:
        spec["seed"] = search.seed
    _add_run(spec, run)
    return spec, table, dated


def _add_run(spec: dict[str, Any], run: RunConfig) -> None:
    if run.priority:
        spec["priority"] = run.priority
    if run.short_trials:
        spec["short_trials"] = True
    if run.limit_cpu:
        spec["limit_cpu"] = True
    if run.suspend:
        spec["suspend"] = True
    if run.preflight:
        spec["preflight"] = run.preflight
    if run.failure_config is not None:
        spec["max_failures"] = int(run.failure_config.max_failures)
        spec["fail_fast"] = bool(run.failure_config.fail_fast)
        for key in ("retry", "breaker", "watchdog"):
            value = getattr(run.failure_config, key)
            if value is not None:
                spec[key] = value
    if run.checkpoint_config is not None:
        policy = run.checkpoint_config.to_spec()
        if policy:
            spec["checkpoints"] = policy
    where = run.storage_path or run.local_dir
    if where:
        if "://" in str(where):
            raise ValueError(f"storage_path {where!r}: results are written to a local directory")
        spec["results_dir"] = os.path.abspath(os.path.expanduser(os.fspath(where)))


def _wants_trial_dir() -> bool:
    """Whether trials change into their directories. Ray's variable is used where it is set."""
    names = ("RT_CHDIR_TO_TRIAL_DIR", "RAY_CHDIR_TO_TRIAL_DIR")
    given = next((os.environ[name] for name in names if os.environ.get(name)), "0")
    if given not in ("0", "1"):
        raise ValueError(f"RT_CHDIR_TO_TRIAL_DIR must be 0 or 1, not {given!r}")
    return given == "1"


def _kept_config(request: Request, trainable: Any) -> Optional[dict[str, Any]]:
    """For reuse_actors: a configuration of the space, if the trainable is a class that can reset.

    Drawn from a seed of its own, so that the script's generators are not touched.
    """
    own = getattr(trainable, "reset_config", None)
    can_reset = inspect.isclass(trainable) and own is not Trainable.reset_config
    if not request.tune.reuse_actors or not can_reset:
        return None
    return next(generate_variants(request.space or {}, random_state=0))[1]


def pack(request: Request, spec: dict[str, Any], table: ValueTable) -> str:
    """Writes the pickles for the trials and for Tuner.restore into a new directory."""
    checkpoints = request.run.checkpoint_config
    trainable = lookup(request.trainable)
    at_end = bool(checkpoints and checkpoints.checkpoint_at_end)
    frequency = checkpoints.checkpoint_frequency if checkpoints else 0
    if (at_end or frequency) and not inspect.isclass(trainable):
        raise ValueError(
            "checkpoint_frequency and checkpoint_at_end are for class trainables; a function "
            "calls report(..., checkpoint=...)"
        )
    return write_payload(
        {
            "trainable": trainable,
            "values": table,
            "experiment": spec["experiment"] if request.run.name else spec["trainable"],
            "resources": spec["resources"],
            "checkpoint_frequency": frequency,
            "checkpoint_at_end": at_end,
            "checkpoint_at_milestones": as_scheduler(request.tune.scheduler).changes_params,
            "chdir": _wants_trial_dir(),
            "cwd": os.getcwd(),
            "kept_config": _kept_config(request, trainable),
        },
        {"space": request.space, "tune": request.tune, "run": request.run},
        request.restore,
    )
