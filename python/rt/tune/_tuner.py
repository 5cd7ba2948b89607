"""Tuner and tune.run: the two ways to start a search."""

from __future__ import annotations

import datetime
import inspect
import os
import sys
import warnings
from typing import Any, Optional, Union

from rt._config import CheckpointConfig, FailureConfig, RunConfig
from rt._errors import MetricError, TuneError
from rt._json import shown
from rt._resources import as_request
from rt._slips import place_of_call, refuse_class, unknown_argument
from rt.tune._analysis import ExperimentAnalysis
from rt.tune._corrected import check_same_space, corrected
from rt.tune._experiment import Request, TuneConfig
from rt.tune._experiments import Experiment, listed
from rt.tune._restore import (
    Resume,
    ResumeConfig,
    can_find,
    find,
    find_ended,
    load_tuner,
    parse_resume,
)
from rt.tune._results import ResultGrid
from rt.tune._run import KEPT_STATE, Fates, known_trials, resume_search, run_search
from rt.tune._trial_base import AnyTrial
from rt.tune._trials import TrialSet
from rt.tune._wrap import lookup

_RENAMED = {
    "config": "param_space={...}",
    "space": "param_space={...}",
    "resources_per_trial": "Tuner(tune.with_resources(trainable, {...}))",
}


class Tuner:
    """A search, which `fit()` runs."""

    def __init__(
        self,
        trainable: Any = None,
        *,
        param_space: Optional[dict[str, Any]] = None,
        tune_config: Optional[TuneConfig] = None,
        run_config: Optional[RunConfig] = None,
        **others: Any,
    ) -> None:
        for name in others:
            known = inspect.signature(Tuner).parameters
            parts = {"tune_config": TuneConfig, "run_config": RunConfig}
            raise unknown_argument("Tuner", name, known, parts, _RENAMED)
        _check_kind("tune_config", tune_config, TuneConfig)
        _check_kind("run_config", run_config, RunConfig)
        if run_config is None:
            run_config = getattr(trainable, "run_config", None)  # A trainer's.
        runs = lookup(trainable)
        if hasattr(runs, "take_space"):  # A trainer's.
            param_space = runs.take_space(param_space)
        self._request = Request(
            trainable=runs,
            space=param_space,
            tune=tune_config or TuneConfig(),
            run=run_config or RunConfig(),
            place=place_of_call(),
        )
        self._results: Optional[ResultGrid] = None
        self._known: Optional[dict[str, Any]] = None  # The experiment to resume.
        self._ended: Optional[TrialSet] = None  # A search with nothing left to run.
        self._fates = Fates()

    @classmethod
    def restore(
        cls,
        path: str,
        trainable: Any,
        resume_unfinished: bool = True,
        resume_errored: bool = False,
        restart_errored: bool = False,
        param_space: Optional[dict[str, Any]] = None,
        storage_filesystem: Any = None,
        *,
        tune_config: Optional[TuneConfig] = None,
        run_config: Optional[RunConfig] = None,
    ) -> Tuner:
        """A tuner whose fit() resumes a search that was interrupted.

        path: its results directory or its name. Trials that have ended are kept. The others resume
        from their newest checkpoints, or end unchanged if resume_unfinished is False.
        resume_errored: failed trials resume too; restart_errored: failed trials restart without a
        checkpoint. If all trials have ended, nothing is run. Only load a search that you trust: its
        configuration is unpickled. param_space: that of the first run, in which functions of
        sample_from may be corrected.
        tune_config, run_config: corrected functions and classes of the script (stop, callbacks,
        search_alg, scheduler), which replace the pickled ones. Settings that the head has stay.
        Raises ValueError when there is no such search, and when these would change a setting or
        the space.
        """
        _check_kind("tune_config", tune_config, TuneConfig)
        _check_kind("run_config", run_config, RunConfig)
        known = find(path)
        if known is None:
            tuner = cls(trainable, param_space=param_space)
            tuner._ended = find_ended(path)
            if tuner._ended is None:
                raise ValueError(f"there is no search in {path!r} that could be restored")
            if (resume_errored or restart_errored) and not tuner._ended.all_done():
                raise ValueError(
                    f"{path!r} holds results, and nothing to run failed trials again with: that "
                    f"({KEPT_STATE}) is in the directory where the search ran"
                )
            return tuner
        kept = load_tuner(known)
        space = kept["space"] if param_space is None else param_space
        if param_space is not None:
            check_same_space(kept["space"], space)
        tuner = cls(trainable, param_space=space, tune_config=kept["tune"], run_config=kept["run"])
        if tune_config is not None or run_config is not None:
            tuner._request = corrected(tuner._request, tune_config, run_config)
        tuner._known = known
        tuner._fates = Fates(
            failed="restart" if restart_errored else ("retry" if resume_errored else "keep"),
            unfinished="retry" if resume_unfinished else "keep",
        )
        return tuner

    @classmethod
    def can_restore(cls, path: str, storage_filesystem: Any = None) -> bool:
        """Whether restore would find a search of that name or in that directory."""
        return can_find(path)

    def fit(self) -> ResultGrid:
        """Runs the search to its end. Failed trials are in the result, and raise no exception.

        Raises ValueError for an invalid space, for a request that no node can satisfy, and for a
        metric that a finished trial lacks; TuneError for fail_fast="raise"; RtError when the
        cluster is lost.
        """
        if self._ended is not None:
            trials = _as_it_ended(self._ended, self._request.run.verbose)
        elif self._known is not None:
            trials = resume_search(self._request, self._known, self._fates)
        else:
            trials = run_search(self._request)
        failure = self._request.run.failure_config
        if failure is not None and failure.fail_fast == "raise":
            _raise_failed(trials)
        self._results = ResultGrid(trials)
        return self._results

    def get_results(self) -> ResultGrid:
        """The result of fit(), or, for a restored tuner, the results so far.

        Raises RuntimeError when there are no results yet.
        """
        if self._results is None:
            if self._ended is not None:
                return ResultGrid(self._ended)
            if self._known is None:
                raise RuntimeError("there are no results before fit()")
            return ResultGrid(known_trials(self._known, self._request.space))
        return self._results


def _check_kind(name: str, value: Any, kind: type) -> None:
    refuse_class(name, value)
    if value is not None and not isinstance(value, kind):
        raise ValueError(f"{name} is a {kind.__name__}, not {shown(value)}")


def _as_it_ended(trials: TrialSet, verbose: Optional[int]) -> TrialSet:
    if verbose != 0:
        print(f"rt: all of {trials.path} had ended; nothing is left to run", file=sys.stderr)
    return trials


def _raise_failed(trials: TrialSet) -> None:
    failed = [trial for trial in trials if trial.status == "ERROR"]
    if failed:
        names = ", ".join(trial.trial_name for trial in failed[:10])
        more = f" and {len(failed) - 10} more" if len(failed) > 10 else ""
        reason = str(trials.experiment.get("reason") or "")  # For example the breaker's.
        why = f"; {reason}" if reason else ""
        error = failed[0].error
        kind: type[TuneError] = TuneError
        if error is not None and error.kind == "MetricError":
            kind = MetricError
            why += "" if error.message in why else f"; {error.message}"
        raise kind(f"trials did not complete: {names}{more}{why}") from error


_OLD_RESOURCES = {"extra_cpu", "extra_gpu", "custom_resources"}
_IGNORED = {
    "export_formats", "server_port", "sync_config", "progress_reporter",
    "loggers", "queue_trials", "with_server", "global_checkpoint_period",
    "keep_checkpoints_num", "checkpoint_score_attr", "ray_auto_init", "raise_on_failed_trial",
    "storage_filesystem", "trial_executor", "sync_to_cloud", "sync_to_driver", "upload_dir",
    "verbose", "_experiment_checkpoint_dir", "chdir_to_trial_dir", "checkpoint_keep_all_ranks",
    "_remote", "_entrypoint", "_tuner_api",
}  # fmt: skip


def run(
    run_or_experiment: Any,
    *,
    name: Optional[str] = None,
    metric: Optional[str] = None,
    mode: Optional[str] = None,
    stop: Any = None,
    time_budget_s: Union[float, datetime.timedelta, None] = None,
    config: Optional[dict[str, Any]] = None,
    resources_per_trial: Any = None,
    num_samples: int = 1,
    storage_path: Optional[str] = None,
    local_dir: Optional[str] = None,
    search_alg: Any = None,
    scheduler: Any = None,
    checkpoint_config: Optional[CheckpointConfig] = None,
    checkpoint_freq: int = 0,
    checkpoint_at_end: bool = False,
    keep_checkpoints_num: Optional[int] = None,
    checkpoint_score_attr: Optional[str] = None,
    verbose: Optional[int] = None,
    max_failures: int = 0,
    fail_fast: Union[bool, str] = False,
    reuse_actors: bool = False,
    raise_on_failed_trial: bool = True,
    callbacks: Optional[list[Any]] = None,
    max_concurrent_trials: Optional[int] = None,
    trial_name_creator: Any = None,
    trial_dirname_creator: Any = None,
    log_to_file: Any = False,
    priority: int = 0,
    short_trials: bool = False,
    limit_cpu: bool = False,
    suspend: bool = False,
    preflight: Union[bool, dict[str, float]] = False,
    restore: Any = None,
    resume: Any = None,
    resume_config: Optional[ResumeConfig] = None,
    **others: Any,
) -> ExperimentAnalysis:
    """Runs a search to its end, with the arguments of Ray, including the older ones.

    With an Experiment, or a list of them that run one after another, only the arguments that
    concern all of them are used; the analysis has the trials of all.
    restore: a Checkpoint, or the path of one, from which all trials start.
    Raises ValueError for an invalid space, for a request that no node can satisfy, and for a metric
    that a finished trial lacks; TuneError when trials failed and raise_on_failed_trial is set.
    """
    _check_others(others)
    if isinstance(run_or_experiment, (Experiment, list, tuple)):
        shared = {
            "metric": metric,
            "mode": mode,
            "time_budget_s": time_budget_s,
            "search_alg": search_alg,
            "scheduler": scheduler,
            "verbose": verbose,
            "fail_fast": fail_fast,
            "callbacks": callbacks,
            "max_concurrent_trials": max_concurrent_trials,
            "reuse_actors": reuse_actors,
            "resume": resume,
            "resume_config": resume_config,
        }
        return _run_each(listed(run_or_experiment), shared, raise_on_failed_trial)
    if checkpoint_config is None:
        checkpoint_config = _old_checkpoints(
            checkpoint_freq, checkpoint_at_end, keep_checkpoints_num, checkpoint_score_attr
        )
    request = Request(
        trainable=run_or_experiment,
        space=config,
        tune=TuneConfig(
            metric=metric,
            mode=mode,
            search_alg=search_alg,
            scheduler=scheduler,
            num_samples=num_samples,
            max_concurrent_trials=max_concurrent_trials,
            time_budget_s=time_budget_s,
            reuse_actors=reuse_actors,
            trial_name_creator=trial_name_creator,
            trial_dirname_creator=trial_dirname_creator,
        ),
        run=RunConfig(
            name=name,
            storage_path=storage_path or local_dir,
            stop=stop,
            verbose=verbose,
            callbacks=callbacks,
            log_to_file=log_to_file,
            priority=priority,
            short_trials=short_trials,
            limit_cpu=limit_cpu,
            suspend=suspend,
            preflight=preflight,
            checkpoint_config=checkpoint_config,
            failure_config=FailureConfig(max_failures, fail_fast),
        ),
        resources=_old_resources(resources_per_trial),
        restore=_restored_from(restore),
        place=place_of_call(),
    )
    trials = _run_or_resume(request, parse_resume(resume, resume_config))
    if raise_on_failed_trial:
        _raise_failed(trials)
    return ExperimentAnalysis(trials)


def _run_each(
    experiments: list[Experiment], shared: dict[str, Any], raise_on_failed_trial: bool
) -> ExperimentAnalysis:
    """Runs all of them, even after one whose trials failed."""
    done = []
    for each in experiments:
        arguments = {**shared, **each.arguments, "name": each.name, "raise_on_failed_trial": False}
        done.append(run(each.run, **arguments))
    everything = {"results_dir": done[0].experiment_path}
    found = [trial for analysis in done for trial in analysis.trials]
    trials = TrialSet(everything, found, done[0].default_metric, done[0].default_mode)
    if raise_on_failed_trial:
        _raise_failed(trials)
    return ExperimentAnalysis(trials)


def _run_or_resume(request: Request, resume: Optional[Resume]) -> TrialSet:
    if resume is None:
        return run_search(request)
    name = request.run.name
    if not name:
        raise ValueError("resume needs the name of the search: tune.run(..., name=...)")
    known = find(name, request.run.storage_path)
    if known is not None:
        return resume_search(request, known, resume.fates)
    ended = find_ended(name, request.run.storage_path)
    if ended is not None:
        return _as_it_ended(ended, request.run.verbose)
    if resume.required:
        raise ValueError(f"there is no search called {name!r} that could be resumed")
    return run_search(request)


_OLDER = {
    "param_space": "config={...}",
    "tune_config": "its settings as arguments of tune.run, or use tune.Tuner",
    "run_config": "its settings as arguments of tune.run, or use tune.Tuner",
}


def _check_others(others: dict[str, Any]) -> None:
    for key, value in others.items():
        if key not in _IGNORED:
            raise unknown_argument("run", key, inspect.signature(run).parameters, renamed=_OLDER)
        if key in ("loggers", "upload_dir") and value:
            warnings.warn(f"tune.run: {key} is ignored", stacklevel=3)


def _restored_from(restore: Any) -> Optional[str]:
    """The directory of a checkpoint, or of a file in it, which the oldest scripts name."""
    if not restore:
        return None
    path = os.path.abspath(os.path.expanduser(os.fspath(getattr(restore, "path", restore))))
    if os.path.isfile(path):
        path = os.path.dirname(path)
    if not os.path.isdir(path):
        raise ValueError(f"restore: there is no checkpoint in {path!r}")
    return path


def _old_checkpoints(
    frequency: int, at_end: bool, keep: Optional[int], score: Optional[str]
) -> CheckpointConfig:
    order = "max"
    if score and score.startswith("min-"):
        score, order = score[len("min-") :], "min"
    return CheckpointConfig(
        num_to_keep=keep,
        checkpoint_score_attribute=score,
        checkpoint_score_order=order,
        checkpoint_frequency=frequency,
        checkpoint_at_end=at_end,
    )


def _old_resources(resources: Any) -> Any:
    if resources is None:
        return None
    if callable(resources):
        return resources
    resources = as_request(resources)
    if "bundles" in resources:
        return dict(resources)
    merged = {key: value for key, value in resources.items() if key not in _OLD_RESOURCES}
    for name in ("cpu", "gpu"):
        extra = resources.get(f"extra_{name}") or 0
        if extra:
            merged[name] = (merged.get(name) or 0) + extra
    merged.update(resources.get("custom_resources") or {})
    return merged


def run_experiments(
    experiments: Any,
    scheduler: Any = None,
    verbose: Optional[int] = None,
    progress_reporter: Any = None,
    resume: Any = None,
    resume_config: Optional[ResumeConfig] = None,
    reuse_actors: bool = False,
    raise_on_failed_trial: bool = True,
    concurrent: bool = True,
    callbacks: Optional[list[Any]] = None,
) -> list[AnyTrial]:
    """Runs an Experiment, several, or {name: spec}, one after another; returns all their trials.

    Raises TuneError when trials failed and raise_on_failed_trial is set, and ValueError for a value
    that is not an experiment.
    """
    analysis = run(
        listed(experiments),
        scheduler=scheduler,
        verbose=verbose,
        resume=resume,
        resume_config=resume_config,
        reuse_actors=reuse_actors,
        raise_on_failed_trial=raise_on_failed_trial,
        callbacks=callbacks,
    )
    return analysis.trials
