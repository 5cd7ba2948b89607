"""Weights & Biases: a callback for the script, and setup_wandb() for the trainable.

`pip install wandb`. WANDB_MODE=offline keeps all runs in files, without an account.
"""

from __future__ import annotations

import hashlib
import os
import re
from typing import Any, Optional

from rt import _api
from rt._json import flatten
from rt.air.integrations._rows import (
    Nothing,
    is_repeated,
    metrics_of,
    own_key,
    plain,
    rank_is_zero,
    trial_key,
)
from rt.tune.logger import LoggerCallback

_PROJECT, _GROUP = "WANDB_PROJECT_NAME", "WANDB_GROUP_NAME"  # Ray's variables.
_NEVER_LOGGED = {"done", "should_checkpoint"}


def _load() -> Any:
    try:
        import wandb
    except ImportError as error:
        raise ImportError("wandb is not installed here: pip install wandb") from error
    return wandb


def _run_id(key: str) -> str:
    """The id of a trial's run: the same after a restart of the trial or of the script."""
    last = re.sub(r"[^A-Za-z0-9_-]+", "-", os.path.basename(key.rstrip("/")))[-40:].strip("-")
    return f"{last}-{hashlib.sha256(key.encode()).hexdigest()[:12]}"


def _use_key(api_key: Optional[str], api_key_file: Optional[str]) -> None:
    """Puts the key of the account where wandb looks for it. Raises ValueError for both."""
    if api_key and api_key_file:
        raise ValueError("give api_key or api_key_file, not both")
    if api_key_file:
        with open(os.path.expanduser(api_key_file), encoding="utf-8") as file:
            api_key = file.readline().strip()
    if api_key:
        os.environ["WANDB_API_KEY"] = api_key


def _project(given: Optional[str]) -> str:
    found = given or os.environ.get(_PROJECT) or os.environ.get("WANDB_PROJECT")
    if not found:
        raise ValueError(
            "no project of Weights & Biases: pass project=..., or set WANDB_PROJECT_NAME"
        )
    return found


class WandbLoggerCallback(LoggerCallback):
    """A run of Weights & Biases for each trial, in the process of the script.

    A search that is resumed, and a trial that is run again, continue their runs. project, group: by
    default of the environment, and the search's name. excludes: keys of rows that are not logged.
    log_config: also the configuration in each row. upload_checkpoints: as artifacts. kwargs: of
    wandb.init, such as entity and tags.
    """

    AUTO_CONFIG_KEYS = (
        "trial_id", "experiment_tag", "node_ip", "experiment_id", "hostname", "pid", "date",
    )  # fmt: skip

    def __init__(
        self,
        project: Optional[str] = None,
        group: Optional[str] = None,
        api_key_file: Optional[str] = None,
        api_key: Optional[str] = None,
        excludes: Optional[list[str]] = None,
        log_config: bool = False,
        upload_checkpoints: bool = False,
        save_checkpoints: bool = False,
        upload_timeout: int = 1800,
        video_kwargs: Optional[dict[str, Any]] = None,
        image_kwargs: Optional[dict[str, Any]] = None,
        **kwargs: Any,
    ) -> None:
        if video_kwargs or image_kwargs:
            raise ValueError(
                "video_kwargs, image_kwargs: rows hold numbers and texts; in the trainable, "
                "setup_wandb(...).log takes images and videos"
            )
        self.project, self.group = project, group
        self.api_key_file, self.api_key = api_key_file, api_key
        self.excludes = list(excludes or [])
        self.log_config = log_config
        self.upload_checkpoints = upload_checkpoints or save_checkpoints
        self.upload_timeout = upload_timeout
        self.kwargs = kwargs
        self._runs: dict[str, Any] = {}

    def setup(self, *args: Any, **kwargs: Any) -> None:
        """Finds the key and the project. Raises ValueError without a project."""
        _load()
        self.project = _project(self.project)
        self.group = self.group or os.environ.get(_GROUP)
        if not self.api_key_file:
            self.api_key_file = os.environ.get("WANDB_API_KEY_FILE")
        _use_key(self.api_key, self.api_key_file)

    def log_trial_start(self, trial: Any) -> None:
        """Starts or continues the run of the trial."""
        self._run(trial)

    def log_trial_result(self, iteration: int, trial: Any, result: dict[str, Any]) -> None:
        """Logs the numbers of a row; what tells the trial from others becomes its configuration."""
        left_out = {*_NEVER_LOGGED, *self.excludes}
        kept = {key: value for key, value in result.items() if key not in left_out}
        facts = {key: kept.pop(key) for key in self.AUTO_CONFIG_KEYS if key in kept}
        row: dict[str, Any] = dict(metrics_of(kept))
        if self.log_config:
            row.update({f"config/{k}": v for k, v in flatten(plain(trial.config)).items()})
        run = self._run(trial)
        run.config.update(facts, allow_val_change=True)
        run.log({key: value for key, value in row.items() if key not in left_out})

    def log_trial_save(self, trial: Any) -> None:
        """Uploads a checkpoint, if that is asked for."""
        if self.upload_checkpoints and trial.checkpoint is not None:
            name = re.sub(r"[^A-Za-z0-9_.-]+", "-", f"checkpoint_{trial.trial_name}")
            artifact = _load().Artifact(name=name, type="model")
            with trial.checkpoint.as_directory() as directory:
                artifact.add_dir(directory)
                self._run(trial).log_artifact(artifact)

    def log_trial_end(self, trial: Any, failed: bool = False) -> None:
        """Ends the run."""
        self._run(trial).finish(exit_code=1 if failed else 0)
        self._runs.pop(trial_key(trial), None)

    def on_experiment_end(self, trials: list[Any], **info: Any) -> None:
        """Ends the runs of trials that did not end by themselves."""
        for run in self._runs.values():
            run.finish()
        self._runs.clear()

    def _run(self, trial: Any) -> Any:
        key = trial_key(trial)
        if key not in self._runs:
            parent = os.path.basename(os.path.dirname(key))
            options = {
                "id": _run_id(key),
                "name": str(trial),
                "resume": "allow",
                "reinit": "create_new",  # One process has the runs of all trials.
                "project": self.project,
                "group": self.group or parent or None,
                "config": plain(trial.config),
                "allow_val_change": True,
            }
            self._runs[key] = _load().init(**{**options, **self.kwargs})
        return self._runs[key]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_runs": {}, "api_key": None}


def setup_wandb(
    config: Optional[dict[str, Any]] = None,
    api_key: Optional[str] = None,
    api_key_file: Optional[str] = None,
    rank_zero_only: bool = True,
    **kwargs: Any,
) -> Any:
    """Starts a run of Weights & Biases for this trial, and returns it.

    An attempt after the first continues the run of the trial. On ranks above 0 it returns an object
    whose calls do nothing, unless rank_zero_only is False. kwargs: of wandb.init.
    """
    if rank_zero_only and not rank_is_zero():
        return Nothing()
    wandb = _load()
    _use_key(api_key, api_key_file or os.environ.get("WANDB_API_KEY_FILE"))
    context = _api.get_context()
    key, name = own_key(), context.get_trial_name()
    options: dict[str, Any] = {
        "resume": "allow" if is_repeated() else None,
        "config": plain(config or {}),
        "allow_val_change": True,
        "project": _project(kwargs.pop("project", None)),
        "group": os.environ.get(_GROUP) or context.get_experiment_name() or None,
    }
    if context.get_trial_id():
        options.update(id=_run_id(key), name=name)
        if not rank_zero_only and context.get_world_size() > 1:
            options["id"] += f"-rank{context.get_world_rank()}"
    return wandb.init(**{**options, **kwargs})


__all__ = ["WandbLoggerCallback", "setup_wandb"]
