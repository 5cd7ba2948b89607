"""DataParallelTrainer: what all trainers share. fit() is an experiment of one trial with ranks."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from typing import Any, Callable, Optional

from rt import _driver
from rt._checkpoint import Checkpoint
from rt._config import RunConfig
from rt._errors import RtError
from rt._json import shown
from rt._resources import ScalingConfig
from rt._slips import place_of_call, refuse_class, unknown_argument
from rt.train._loop import LOOP_CONFIG, SCALING, Backend, TrainLoop, check_loop
from rt.tune._experiment import Request, TuneConfig
from rt.tune._progress import TERMINAL
from rt.tune._restore import can_find, find, find_ended, load_tuner, results_root
from rt.tune._results import Result
from rt.tune._run import Fates, known_trials, resume_search, run_search
from rt.tune._trial_base import AnyTrial
from rt.tune._trials import TrialSet

_LATER = {
    "dataset_config": "every data set is split among the ranks",
    "metadata": "put it into the checkpoint: Checkpoint.set_metadata",
    "validation_config": "validate in the training function",
    "backend_config": "TorchTrainer(torch_config=...) for PyTorch; else start it in the function",
}
_PARTS = {SCALING: ScalingConfig, "run_config": RunConfig}
_ARGUMENTS = (
    "train_loop_per_worker", LOOP_CONFIG, SCALING, "run_config", "datasets",
    "resume_from_checkpoint",
)  # fmt: skip


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
    _more_arguments: tuple[str, ...] = ()  # Of a subclass.

    def __init__(
        self,
        train_loop_per_worker: Optional[Callable[..., Any]] = None,
        *,
        train_loop_config: Optional[dict[str, Any]] = None,
        scaling_config: Optional[ScalingConfig] = None,
        run_config: Optional[RunConfig] = None,
        datasets: Optional[dict[str, Any]] = None,
        resume_from_checkpoint: Optional[Checkpoint] = None,
        **others: Any,
    ) -> None:
        _refuse(self, others)
        if train_loop_per_worker is None:
            raise TypeError(f"{type(self).__name__}() needs the argument train_loop_per_worker")
        check_loop(train_loop_per_worker)
        _check_kind("train_loop_config", train_loop_config, dict)
        _check_kind("scaling_config", scaling_config, ScalingConfig)
        _check_kind("run_config", run_config, RunConfig)
        _check_kind("datasets", datasets, dict)
        _check_kind("resume_from_checkpoint", resume_from_checkpoint, Checkpoint)
        self._function: Any = train_loop_per_worker
        self._loop_config = train_loop_config
        self._scaling = scaling_config or ScalingConfig()
        self.run_config = run_config
        self._datasets = dict(datasets or {})
        self._from = resume_from_checkpoint
        self._restores = False

    @classmethod
    def restore(
        cls,
        path: str,
        train_loop_per_worker: Optional[Callable[..., Any]] = None,
        storage_filesystem: Any = None,
        **arguments: Any,
    ) -> DataParallelTrainer:
        """A trainer whose fit() continues the run of that results directory or name.

        Unlike fit() with that name and storage_path, it raises ValueError when no such run exists.
        The caller gives the function, the datasets and the torch_config again. train_loop_config is
        that of the run unless it is given; it is unpickled, so restore only a run that you trust.
        The number of ranks and their resources do not change.
        """
        if train_loop_per_worker is None:
            raise ValueError(
                "restore() needs the training function again: "
                f"{cls.__name__}.restore(path, train_loop_per_worker)"
            )
        if not can_find(path):
            raise ValueError(f"there is no run in {path!r} that could be restored")
        if arguments.get(SCALING) is not None:
            warnings.warn("restore: a run keeps its ranks; scaling_config is ignored", stacklevel=2)
        given = os.path.expanduser(os.fspath(path)).rstrip(os.sep)
        place, name = os.path.split(os.path.abspath(given) if os.sep in given else given)
        run = RunConfig(name=name, storage_path=place or None)
        trainer = cls(train_loop_per_worker, **{"run_config": run, **arguments})
        trainer._restores = True
        return trainer

    @classmethod
    def can_restore(cls, path: str, storage_filesystem: Any = None) -> bool:
        """Whether restore would find a run of that name or in that directory."""
        return can_find(path)

    def _backend(self) -> Backend:
        """What surrounds the training function on each rank; it is pickled."""
        return contextlib.nullcontext

    def as_trainable(self) -> TrainLoop:
        """The trainable of a trial, also for Tuner(trainer)."""
        return TrainLoop(
            self._function,
            self._loop_config,
            self._backend(),
            self._scaling,
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
        trials = list(_trained(request, self._restores))
        if len(trials) != 1:
            raise ValueError(
                f"{run.name!r} is the name of a search of {len(trials)} trials; choose another name"
            )
        trial = trials[0]
        if trial.status == "ERROR":
            _raise_failure(trial)
        return Result(trial)


def _trained(request: Request, restores: bool) -> TrialSet:
    known, ended = _earlier(request.run)
    if ended is not None:
        return _as_it_ended(ended, request.run)
    if known is None and restores:
        raise ValueError(f"there is no run {request.run.name!r} any more that could be restored")
    if known is None:
        return run_search(request)
    if restores and not request.space:
        request.space = load_tuner(known)["space"]
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


def _refuse(trainer: DataParallelTrainer, others: dict[str, Any]) -> None:
    """Raises for arguments that a trainer does not take: ValueError for those that Ray has."""
    name = type(trainer).__name__
    for key, value in others.items():
        if key not in _LATER:
            known = (*_ARGUMENTS, *trainer._more_arguments)
            raise unknown_argument(name, key, known, _PARTS, {"config": f"{LOOP_CONFIG}={{...}}"})
        if value is not None:
            raise ValueError(f"{name} has no {key} yet; {_LATER[key]}")


def _check_kind(name: str, value: Any, kind: type) -> None:
    refuse_class(name, value)
    if value is not None and not isinstance(value, kind):
        raise ValueError(f"{name} is a {kind.__name__}, not {shown(value)}")
