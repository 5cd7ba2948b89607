"""Experiment: the oldest way to describe a search, and several at once."""

from __future__ import annotations

from typing import Any, Optional

from rt.tune._trial_base import AnyTrial

_IGNORED = {"env", "upload_dir", "sync_config", "export_formats", "sync_to_driver"}


class Experiment:
    """A search under a name: a trainable and the arguments of tune.run()."""

    def __init__(self, name: str, run: Any, **arguments: Any) -> None:
        self.name = name
        self.run = run
        self.arguments = {
            key: value
            for key, value in arguments.items()
            if key not in _IGNORED and value is not None
        }

    @classmethod
    def from_json(cls, name: str, spec: dict[str, Any]) -> Experiment:
        """From {"run": trainable, "config": {...}, ...}. Raises ValueError without "run"."""
        if "run" not in spec:
            raise ValueError(f"the experiment {name!r} has no 'run': its trainable")
        left = {key: value for key, value in spec.items() if key != "run"}
        return cls(name, spec["run"], **left)


def listed(experiments: Any) -> list[Experiment]:
    """Of an Experiment, a list of them, or {name: spec}. Raises ValueError for what is none."""
    if isinstance(experiments, dict):
        return [Experiment.from_json(name, spec) for name, spec in experiments.items()]
    found = [experiments] if isinstance(experiments, Experiment) else list(experiments)
    for experiment in found:
        if not isinstance(experiment, Experiment):
            kind = type(experiment).__name__
            raise ValueError(f"experiments are Experiments or {{name: spec}}, not {kind}")
    if not found:
        raise ValueError("there is no experiment in the list")
    return found


def run_experiments(
    experiments: Any,
    scheduler: Any = None,
    verbose: Optional[int] = None,
    progress_reporter: Any = None,
    resume: Any = None,
    reuse_actors: bool = False,
    raise_on_failed_trial: bool = True,
    concurrent: bool = True,
    callbacks: Optional[list[Any]] = None,
) -> list[AnyTrial]:
    """Runs an Experiment, several, or {name: spec}, one after another; returns all their trials.

    Raises TuneError when trials failed and raise_on_failed_trial is set, ValueError for what is
    no experiment.
    """
    from rt.tune._tuner import run  # It runs experiments as well.

    analysis = run(
        listed(experiments),
        scheduler=scheduler,
        verbose=verbose,
        resume=resume,
        raise_on_failed_trial=raise_on_failed_trial,
        callbacks=callbacks,
    )
    return analysis.trials
