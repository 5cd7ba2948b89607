"""DataParallelTrainer: what all trainers share. fit() is an experiment of one trial with ranks."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Any, Callable, Optional

from rt import _driver
from rt._checkpoint import Checkpoint
from rt._config import RunConfig
from rt._errors import RtError
from rt._json import shown
from rt._resources import ScalingConfig, as_request
from rt._slips import nearest, place_of_call, refuse_class
from rt.train._loop import LOOP_CONFIG, Backend, TrainLoop, check_loop
from rt.tune._experiment import Request, TuneConfig
from rt.tune._progress import TERMINAL
from rt.tune._restore import find, find_ended, results_root
from rt.tune._results import Result
from rt.tune._run import Fates, known_trials, resume_search, run_search
from rt.tune._trial_base import AnyTrial
from rt.tune._trials import TrialSet

_LATER = {
    "dataset_config": "every data set is split among the ranks",
    "metadata": "put it into the checkpoint: Checkpoint.set_metadata",
    "validation_config": "validate in the training function",
}


class TrainingFailedError(RtError):
    """A training run failed, and its restarts are used up; `__cause__` is the first error."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code="TRIAL_FAILED")


class DataParallelTrainer:
    """Runs a training function on scaling_config.num_workers ranks, which start and end together.

    train_loop_per_worker: a function of the configuration, or of nothing. train_loop_config: that
    configuration. datasets: {name: rt.data.Dataset}, for get_dataset_shard(name).
    resume_from_checkpoint: what get_checkpoint() returns in the first attempt. Raises ValueError
    for arguments of the wrong kind.
    """

    _name = "DataParallelTrainer"

    def __init__(
        self,
        train_loop_per_worker: Callable[..., Any],
        *,
        train_loop_config: Optional[dict[str, Any]] = None,
        scaling_config: Optional[ScalingConfig] = None,
        run_config: Optional[RunConfig] = None,
        datasets: Optional[dict[str, Any]] = None,
        resume_from_checkpoint: Optional[Checkpoint] = None,
        **others: Any,
    ) -> None:
        _refuse(type(self).__name__, others)
        check_loop(train_loop_per_worker)
        _check_kind("train_loop_config", train_loop_config, dict)
        _check_kind("scaling_config", scaling_config, ScalingConfig)
        _check_kind("run_config", run_config, RunConfig)
        _check_kind("datasets", datasets, dict)
        _check_kind("resume_from_checkpoint", resume_from_checkpoint, Checkpoint)
        self._function = train_loop_per_worker
        self._loop_config = train_loop_config
        self._scaling = scaling_config or ScalingConfig()
        self.run_config = run_config
        self._datasets = dict(datasets or {})
        self._from = resume_from_checkpoint

    def _backend(self) -> Backend:
        """What surrounds the training function on each rank; it is pickled."""
        return contextlib.nullcontext

    def as_trainable(self) -> TrainLoop:
        """The trainable of a trial, also for Tuner(trainer)."""
        return TrainLoop(
            self._function,
            self._loop_config,
            self._backend(),
            as_request(self._scaling),
            self._datasets,
            self._name,
        )

    def fit(self) -> Result:
        """Trains to the end, and returns the result.

        With a name in RunConfig, an earlier run of that name in the same storage_path is continued:
        one that still runs is followed, one that failed or was interrupted resumes from its newest
        checkpoint, and of one that has completed the result is returned. Raises TrainingFailedError
        when the training fails, ValueError for invalid input and for resources that no node has,
        and RtError when the cluster is lost.
        """
        run = self.run_config or RunConfig()
        config = self._loop_config
        request = Request(
            trainable=self.as_trainable(),
            space={} if config is None else {LOOP_CONFIG: config},
            tune=TuneConfig(),
            run=run,
            restore=self._from.path if self._from is not None else None,
            place=place_of_call(),
            is_search=False,
        )
        trials = list(_trained(request))
        if len(trials) != 1:
            raise ValueError(
                f"{run.name!r} is the name of a search of {len(trials)} trials; choose another name"
            )
        trial = trials[0]
        if trial.status == "ERROR":
            _raise_failure(trial)
        return Result(trial)


def _trained(request: Request) -> TrialSet:
    known, ended = _earlier(request.run)
    if ended is not None:
        return _as_it_ended(ended, request.run)
    if known is None:
        return run_search(request)
    if known.get("state") == "COMPLETED":
        return _as_it_ended(known_trials(known, request.space), request.run)
    if request.run.verbose != 0:
        word = "continues" if known.get("state") in TERMINAL else "is followed"
        print(f"rt: the run {request.run.name!r} {word}", file=sys.stderr)
    return resume_search(request, known, Fates(failed="retry"))


def _earlier(run: RunConfig) -> tuple[Optional[dict[str, Any]], Optional[TrialSet]]:
    """The run of that name and storage path: as its cluster knows it, or as it has ended."""
    if not run.name:
        return None, None
    where = run.storage_path or run.local_dir
    path = run.name if where is None else os.path.join(results_root(where), run.name)
    if where is None and _driver.is_embedded():
        path = os.path.join(results_root(None), run.name)
    known = find(path)
    return known, None if known is not None else find_ended(path)


def _as_it_ended(trials: TrialSet, run: RunConfig) -> TrialSet:
    if run.verbose != 0:
        print(
            f"rt: the run {run.name!r} has completed, and its result is returned; choose another "
            "name to train again",
            file=sys.stderr,
        )
    return trials


def _raise_failure(trial: AnyTrial) -> None:
    error = trial.error
    text = str(error) if error is not None else "it gave no reason"
    raise TrainingFailedError(f"the training failed; results: {trial.path}\n{text}") from error


def _refuse(name: str, others: dict[str, Any]) -> None:
    for key, value in others.items():
        if key in _LATER and value is None:
            continue
        if key in _LATER:
            raise ValueError(f"{name} has no {key} yet; {_LATER[key]}")
        known = [LOOP_CONFIG, "scaling_config", "run_config", "datasets", "resume_from_checkpoint"]
        near = nearest(key, known)
        hint = f"; did you mean {near!r}?" if near else ""
        raise TypeError(f"{name} takes no argument {key!r}{hint}")


def _check_kind(name: str, value: Any, kind: type) -> None:
    refuse_class(name, value)
    if value is not None and not isinstance(value, kind):
        raise ValueError(f"{name} is a {kind.__name__}, not {shown(value)}")
