"""From what a user asked for to an experiment's specification, and to its end."""

from __future__ import annotations

import datetime
import functools
import hashlib
import inspect
import json
import os
import shutil
import sys
import warnings
from dataclasses import dataclass, field
from typing import Any, Optional

from rt import _driver, _runtime
from rt._config import RunConfig
from rt._errors import hide_own_frames
from rt._json import clean, unboxed
from rt._pack import import_path, write_payload
from rt._resources import resources_spec, threads_of
from rt._space import encode_space
from rt._values import ValueTable
from rt.tune._progress import Progress, wait_for_end
from rt.tune._trials import TrialSet
from rt.tune._wrap import lookup, resources_of
from rt.tune.logger import check_callbacks
from rt.tune.schedulers import as_scheduler
from rt.tune.search import as_search


@dataclass
class TuneConfig:
    """What is searched for, and how.

    num_samples repeats the whole space (-1: without end). max_concurrent_trials None or 0: no
    limit. time_budget_s: seconds or a timedelta, for the whole search. reuse_actors is accepted and
    changes nothing.
    """

    metric: Optional[str] = None
    mode: Optional[str] = None
    search_alg: Any = None
    scheduler: Any = None
    num_samples: int = 1
    max_concurrent_trials: Optional[int] = None
    time_budget_s: Any = None
    reuse_actors: bool = False
    trial_name_creator: Any = None
    trial_dirname_creator: Any = None

    def __post_init__(self) -> None:
        if self.mode not in (None, "min", "max"):
            raise ValueError(f"mode must be 'min' or 'max', not {self.mode!r}")
        if self.trial_name_creator or self.trial_dirname_creator:
            warnings.warn(
                "trial_name_creator and trial_dirname_creator change nothing: a trial is called "
                "<trainable>_<experiment>_<number>",
                stacklevel=3,
            )


@dataclass
class Request:
    """One search, as Tuner and tune.run both describe it."""

    trainable: Any
    space: Optional[dict[str, Any]] = None
    tune: TuneConfig = field(default_factory=TuneConfig)
    run: RunConfig = field(default_factory=RunConfig)
    resources: Optional[dict[str, Any]] = None


def trainable_name(trainable: Any) -> str:
    """A name for trials and directories, from a function's or class's own."""
    while isinstance(trainable, functools.partial):
        trainable = trainable.func
    name = getattr(trainable, "__name__", type(trainable).__name__)
    return "".join(c if c.isalnum() or c in "_-." else "_" for c in name).strip("_.") or "trainable"


def _metric_and_mode(tune: TuneConfig) -> tuple[Optional[str], Optional[str]]:
    scheduler = as_scheduler(tune.scheduler)
    for name in ("metric", "mode"):
        ours, theirs = getattr(tune, name), getattr(scheduler, name)
        if ours and theirs and ours != theirs:
            raise ValueError(f"the scheduler has {name} {theirs!r}, the search has {ours!r}")
    metric, mode = tune.metric or scheduler.metric, tune.mode or scheduler.mode
    if "asha" in scheduler.to_spec() and not metric:
        raise ValueError("ASHA compares trials by a metric: give metric and mode")
    return metric, mode


def _stop_rules(stop: Any) -> dict[str, Any]:
    """The `stop` of a specification. Raises ValueError for what is no number."""
    if stop is None or callable(stop):
        return {}
    if not isinstance(stop, dict):
        raise ValueError("stop must be a dict {metric: threshold} or a function of (id, result)")
    rules: dict[str, Any] = {}
    for key, value in stop.items():
        bound = unboxed(value)
        inner = next(iter(bound.values())) if isinstance(bound, dict) and len(bound) == 1 else bound
        if isinstance(inner, bool) or not isinstance(inner, (int, float)) or inner != inner:
            raise ValueError(f"stop: the threshold of {key!r} must be a number, not {value!r}")
        if isinstance(bound, dict) and next(iter(bound)) not in ("<=", ">="):
            raise ValueError(f"stop: the comparison of {key!r} must be '<=' or '>='")
        rules[str(key)] = clean(bound)
    return rules


def _resources(request: Request) -> dict[str, Any]:
    chosen = request.resources or resources_of(request.trainable) or {"cpu": 1}
    return resources_spec(chosen)


def _check_counts(tune: TuneConfig) -> None:
    if not isinstance(tune.num_samples, int) or tune.num_samples == 0 or tune.num_samples < -1:
        raise ValueError(f"num_samples must be -1 or at least 1, not {tune.num_samples!r}")
    if (tune.max_concurrent_trials or 0) < 0:
        raise ValueError("max_concurrent_trials must be 0 (no limit) or more")


def build_spec(request: Request) -> tuple[dict[str, Any], ValueTable, bool]:
    """(specification without inputs, table of values, whether its name holds today's date).

    Raises ValueError for everything that can be known to be wrong here.
    """
    tune, run = request.tune, request.run
    _check_counts(tune)
    check_callbacks(run.callbacks)
    space, table = encode_space(request.space)
    metric, mode = _metric_and_mode(tune)
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
        "search": {"basic": {}},
        "scheduler": as_scheduler(tune.scheduler).to_spec(),
        "stop": _stop_rules(run.stop),
        "resources": _resources(request),
        "max_concurrent": tune.max_concurrent_trials or search.max_concurrent or 0,
    }
    if metric:
        spec["metric"] = metric
    if mode:
        spec["mode"] = mode
    if tune.time_budget_s is not None:
        budget = tune.time_budget_s
        is_delta = isinstance(budget, datetime.timedelta)
        spec["time_budget"] = budget.total_seconds() if is_delta else float(budget)
    if search.seed is not None:
        spec["seed"] = search.seed
    _add_run(spec, run)
    return spec, table, dated


def _add_run(spec: dict[str, Any], run: RunConfig) -> None:
    if run.failure_config is not None:
        spec["max_failures"] = int(run.failure_config.max_failures)
        spec["fail_fast"] = bool(run.failure_config.fail_fast)
    if run.checkpoint_config is not None:
        policy = run.checkpoint_config.to_spec()
        if policy:
            spec["checkpoints"] = policy
    where = run.storage_path or run.local_dir
    if where:
        if "://" in str(where):
            raise ValueError(f"storage_path {where!r}: results are written to a local directory")
        spec["results_dir"] = os.path.abspath(os.path.expanduser(os.fspath(where)))


def _write_payload(request: Request, spec: dict[str, Any], table: ValueTable) -> str:
    checkpoints = request.run.checkpoint_config
    trainable = lookup(request.trainable)
    at_end = bool(checkpoints and checkpoints.checkpoint_at_end)
    frequency = checkpoints.checkpoint_frequency if checkpoints else 0
    if (at_end or frequency) and not inspect.isclass(trainable):
        raise ValueError(
            "checkpoint_frequency and checkpoint_at_end are for class trainables; a function "
            "calls report(..., checkpoint=...)"
        )
    stop = request.run.stop
    return write_payload(
        {
            "trainable": trainable,
            "values": table,
            "stop_function": stop if callable(stop) else None,
            "experiment": spec["experiment"] if request.run.name else spec["trainable"],
            "resources": spec["resources"],
            "checkpoint_frequency": frequency,
            "checkpoint_at_end": at_end,
        }
    )


def request_key(driver_id: str, ordinal: int, spec: dict[str, Any], dated: bool) -> str:
    """The same for the same call of a driver that is run again: it re-attaches."""
    left_out = {"inputs", "env", "cwd"} | ({"experiment"} if dated else set())
    kept = {key: value for key, value in spec.items() if key not in left_out}
    digest = hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()[:32]
    return f"{driver_id}:{ordinal}:{digest}"


def run_search(request: Request) -> TrialSet:
    """Runs the search to its end. Raises ValueError for bad input and impossible requests."""
    hide_own_frames()
    request.trainable = lookup(request.trainable)
    spec, table, dated = build_spec(request)
    payload = _write_payload(request, spec, table)
    driver = _driver.get()
    try:
        manifest = driver.push_dir(payload)
    finally:
        shutil.rmtree(payload, ignore_errors=True)
    spec["inputs"] = [{"manifest": manifest, "env": "RT_TRAINABLE"}]
    spec["env"] = dict(_runtime.env_vars)
    # As in Ray: trials that run side by side would otherwise each start a thread per core.
    threads = os.environ.get("OMP_NUM_THREADS") or str(threads_of(spec["resources"]))
    spec["env"].setdefault("OMP_NUM_THREADS", threads)
    if "RT_WARM_START" in os.environ:
        spec["env"].setdefault("RT_WARM_START", os.environ["RT_WARM_START"])
    path = import_path(outside_job=not driver.inside_job)
    if path:
        spec["env"].setdefault("PYTHONPATH", path)
    if driver.embedded:
        spec["cwd"] = os.getcwd()
    elif os.environ.get("RT_BUNDLE"):
        spec["bundle"] = os.environ["RT_BUNDLE"]
    key = request_key(driver.id, _driver.next_ordinal(), spec, dated)
    created = driver.call("experiment_create", spec=spec, key=key)
    progress = Progress(request.run.verbose, created, driver.embedded)
    experiment = wait_for_end(driver, int(created["experiment_id"]), progress)
    items = _all_trials(driver, int(created["experiment_id"]))
    experiment.setdefault("results_dir", created.get("results_dir"))
    metric, mode = _metric_and_mode(request.tune)
    trials = TrialSet(experiment, items, table, metric, mode)
    progress.failures(trials)
    if driver.embedded:
        trials.save_files(driver.embedded_dir)
    _check_outcome(trials)
    return trials


def _all_trials(driver: _driver.Driver, experiment_id: int) -> list[dict[str, Any]]:
    """The trials of an experiment, whose list comes in parts when it is long."""
    items: list[dict[str, Any]] = []
    reply = driver.call("trial_list", experiment_id=experiment_id)
    items += reply["items"]
    while reply.get("next"):
        reply = driver.call("trial_list", experiment_id=experiment_id, **{"from": reply["next"]})
        items += reply["items"]
    return items


def _check_outcome(trials: TrialSet) -> None:
    experiment = trials.experiment
    never_ran = all(trial._item.get("started_at") is None for trial in trials)
    if experiment.get("state") == "FAILED" and never_ran:
        raise ValueError(str(experiment.get("reason") or "the search could not run"))
    metric = trials.metric
    if not metric or os.environ.get("TUNE_DISABLE_STRICT_METRIC_CHECKING") == "1":
        return
    for trial in trials:
        if trial.state == "COMPLETED" and trial.value(metric, "max", "last", False) is None:
            known = trials.reported_text()
            raise ValueError(
                f"trial {trial.trial_id} ended without the metric {metric!r}; reported: {known}"
            )
