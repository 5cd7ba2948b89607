"""Experiment: the oldest way to describe one or several searches."""

from __future__ import annotations

from typing import Any

_IGNORED = {"env", "upload_dir", "sync_config", "export_formats", "sync_to_driver"}


class Experiment:
    """A named search: a trainable and the arguments of tune.run()."""

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
        """Makes one from {"run": trainable, "config": {...}, ...}. ValueError without "run"."""
        if "run" not in spec:
            raise ValueError(f"the experiment {name!r} has no 'run': its trainable")
        left = {key: value for key, value in spec.items() if key != "run"}
        return cls(name, spec["run"], **left)


def listed(experiments: Any) -> list[Experiment]:
    """Makes a list from an Experiment, a list, or {name: spec}. Raises ValueError otherwise."""
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
