"""Tuner and tune.run: the two ways to start a search."""

from __future__ import annotations

import datetime
import warnings
from typing import Any, Optional, Union

from rt._config import CheckpointConfig, FailureConfig, RunConfig
from rt._errors import TuneError
from rt._resources import as_request
from rt.tune._analysis import ExperimentAnalysis
from rt.tune._experiment import Request, TuneConfig, run_search
from rt.tune._results import ResultGrid
from rt.tune._trials import TrialSet
from rt.tune._wrap import lookup


class Tuner:
    """A search that `fit()` runs."""

    def __init__(
        self,
        trainable: Any = None,
        *,
        param_space: Optional[dict[str, Any]] = None,
        tune_config: Optional[TuneConfig] = None,
        run_config: Optional[RunConfig] = None,
    ) -> None:
        self._request = Request(
            trainable=lookup(trainable),
            space=param_space,
            tune=tune_config or TuneConfig(),
            run=run_config or RunConfig(),
        )
        self._results: Optional[ResultGrid] = None

    def fit(self) -> ResultGrid:
        """Runs the search to its end. Failed trials are in the result, not raised.

        Raises ValueError for a space or request that cannot be, and for a metric that a finished
        trial lacks; TuneError for fail_fast="raise"; RtError when the cluster is lost.
        """
        trials = run_search(self._request)
        failure = self._request.run.failure_config
        if failure is not None and failure.fail_fast == "raise":
            _raise_failed(trials)
        self._results = ResultGrid(trials)
        return self._results

    def get_results(self) -> ResultGrid:
        """What fit() returned. Raises RuntimeError before that."""
        if self._results is None:
            raise RuntimeError("there are no results before fit()")
        return self._results


def _raise_failed(trials: TrialSet) -> None:
    failed = [trial for trial in trials if trial.status == "ERROR"]
    if failed:
        names = ", ".join(trial.trial_name for trial in failed[:10])
        more = f" and {len(failed) - 10} more" if len(failed) > 10 else ""
        raise TuneError(f"trials did not complete: {names}{more}") from failed[0].error


_OLD_RESOURCES = {"extra_cpu", "extra_gpu", "custom_resources"}
_IGNORED = {
    "export_formats", "server_port", "log_to_file", "sync_config", "progress_reporter",
    "loggers", "queue_trials", "reuse_actors", "with_server", "global_checkpoint_period",
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
    resources_per_trial: Optional[dict[str, Any]] = None,
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
    raise_on_failed_trial: bool = True,
    callbacks: Optional[list[Any]] = None,
    max_concurrent_trials: Optional[int] = None,
    trial_name_creator: Any = None,
    trial_dirname_creator: Any = None,
    **others: Any,
) -> ExperimentAnalysis:
    """Runs a search to its end, under the arguments of Ray, the older ones included.

    Raises ValueError for a space or request that cannot be, and for a metric that a finished trial
    lacks; TuneError when trials failed and raise_on_failed_trial is set.
    """
    _check_others(others)
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
            trial_name_creator=trial_name_creator,
            trial_dirname_creator=trial_dirname_creator,
        ),
        run=RunConfig(
            name=name,
            storage_path=storage_path or local_dir,
            stop=stop,
            verbose=verbose,
            callbacks=callbacks,
            checkpoint_config=checkpoint_config,
            failure_config=FailureConfig(max_failures, fail_fast),
        ),
        resources=_old_resources(resources_per_trial),
    )
    trials = run_search(request)
    if raise_on_failed_trial:
        _raise_failed(trials)
    return ExperimentAnalysis(trials)


def _check_others(others: dict[str, Any]) -> None:
    for key, value in others.items():
        if key in ("resume", "restore", "resume_config") and value:
            raise ValueError(
                f"{key} is not available in tune.run: on a cluster, an interrupted search is "
                "resumed by `rt exp resume`, and a job's driver that is run again re-attaches"
            )
        if key not in _IGNORED and key not in ("resume", "restore", "resume_config"):
            raise TypeError(f"run() got an unexpected keyword argument {key!r}")
        if key in ("loggers", "upload_dir") and value:
            warnings.warn(f"tune.run: {key} is ignored", stacklevel=3)


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


def _old_resources(resources: Any) -> Optional[dict[str, Any]]:
    if resources is None:
        return None
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
