"""Trainable: the class API, in the new spelling and in the older one.

    new:   setup(config)    step()     save_checkpoint(dir)    load_checkpoint(x)   cleanup()
    old:   _setup(config)   _train()   _save(dir)              _restore(x)          _stop()

A subclass defines one spelling; the base class makes the new names call the old ones.
"""

from __future__ import annotations

import inspect
import json
import os
import pickle
import shutil
import tempfile
from typing import Any, Callable, Optional, Union

from rt._checkpoint import DICT_FILE, pickled

_NOTES_FILE = ".rt_trainable.json"


class Trainable:
    """A trainable that runs step by step. Subclasses get `self.config` and need no __init__."""

    def __init__(
        self,
        config: Optional[dict[str, Any]] = None,
        logger_creator: Any = None,
        storage: Any = None,
    ) -> None:
        self.config: dict[str, Any] = config or {}
        self._iteration = 0
        self.setup(self.config)

    def setup(self, config: dict[str, Any]) -> None:
        """Called once before the first step."""
        self._setup(config)

    @classmethod
    def default_resource_request(cls, config: dict[str, Any]) -> Any:
        """The resource request of a trial with this configuration: a dict or PlacementGroupFactory.

        Called in the driver, once per trial, unless with_resources sets the request. None means the
        request of the experiment.
        """
        return None

    def step(self) -> dict[str, Any]:
        """One iteration; returns its metrics. `done: True` in them ends the trial."""
        return self._train()

    def save_checkpoint(self, checkpoint_dir: str) -> Union[str, dict[str, Any], None]:
        """Writes files into the directory, or returns a dict (pickled) or a path in it."""
        return self._save(checkpoint_dir)

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Restores the result of save_checkpoint: the dict or path, or else the directory."""
        self._restore(checkpoint)

    def cleanup(self) -> None:
        """Called once after the last step."""
        self._stop()

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Takes another configuration in place of the one of setup(); returns whether it could.

        With reuse_actors a node calls setup() once, with some configuration of the space. Each
        trial begins in a process of its own with a copy of that object, and resets it; where the
        result is False, it calls setup() itself.
        """
        return False

    def log_result(self, result: dict[str, Any]) -> None:
        """Called with every result before it is reported."""
        self._log_result(result)

    def _setup(self, config: dict[str, Any]) -> None:
        """The older name of setup."""

    def _train(self) -> dict[str, Any]:
        """The older name of step. Raises TypeError when a subclass has neither."""
        raise TypeError(f"{type(self).__name__} must define step() or _train()")

    def _save(self, checkpoint_dir: str) -> Union[str, dict[str, Any], None]:
        """The older name of save_checkpoint. Raises TypeError when a subclass has neither."""
        raise TypeError(f"{type(self).__name__} must define save_checkpoint() or _save()")

    def _restore(self, checkpoint: Any) -> None:
        """The older name of load_checkpoint. Raises TypeError when a subclass has neither."""
        raise TypeError(f"{type(self).__name__} must define load_checkpoint() or _restore()")

    def _stop(self) -> None:
        """The older name of cleanup."""

    def _log_result(self, result: dict[str, Any]) -> None:
        """The older name of log_result."""

    def get_config(self) -> dict[str, Any]:
        """The configuration of the trial."""
        return self.config

    @property
    def iteration(self) -> int:
        """The number of completed steps, including those before a restore."""
        return self._iteration

    @property
    def training_iteration(self) -> int:
        """The same as iteration."""
        return self._iteration

    @property
    def trial_id(self) -> str:
        """The trial's id, such as "3/17"; empty outside a trial."""
        return os.environ.get("RT_TRIAL_ID", "")

    @property
    def trial_name(self) -> str:
        """The trial's name; empty outside a trial."""
        from rt._api import get_context

        return get_context().get_trial_name()

    @property
    def trial_resources(self) -> dict[str, Any]:
        """The resources that the trial asked for."""
        from rt._api import get_context

        return get_context().get_trial_resources()

    @property
    def logdir(self) -> str:
        """The trial's directory; a new one outside a trial."""
        known = os.environ.get("RT_TRIAL_DIR") or self.__dict__.get("_own_logdir")
        if not known:
            known = self.__dict__["_own_logdir"] = tempfile.mkdtemp(prefix="rt-trainable-")
        return known

    def train(self) -> dict[str, Any]:
        """One step, with its counter added. Raises TypeError when step returns no dict."""
        result = self.step()
        if not isinstance(result, dict):
            name = type(self).__name__
            raise TypeError(f"{name}: a step must return a dict, not {type(result).__name__}")
        self._iteration += 1
        result = dict(result)
        result.setdefault("training_iteration", self._iteration)
        self.log_result(result)
        return result

    @property
    def can_save(self) -> bool:
        """Whether the subclass defines save_checkpoint, in either spelling."""
        own = type(self)
        new = own.save_checkpoint is not Trainable.save_checkpoint
        return new or own._save is not Trainable._save

    def save(self, checkpoint_dir: Optional[str] = None) -> str:
        """Makes a checkpoint in the directory (by default a new one) and returns its path."""
        target = checkpoint_dir or tempfile.mkdtemp(prefix="rt-checkpoint-")
        os.makedirs(target, exist_ok=True)
        saved = self.save_checkpoint(target)
        notes: dict[str, Any] = {"iteration": self._iteration, "kind": "directory"}
        if isinstance(saved, dict):
            notes["kind"] = "dict"
            with open(os.path.join(target, DICT_FILE), "wb") as file:
                file.write(pickled(saved))
        elif saved is not None:
            notes["kind"] = "path"
            notes["path"] = _path_inside(os.fspath(saved), target)
        with open(os.path.join(target, _NOTES_FILE), "w", encoding="utf-8") as file:
            json.dump(notes, file)
        return target

    def restore(self, checkpoint_dir: Any) -> None:
        """Resumes from a directory, or Checkpoint, that save() wrote."""
        root = os.fspath(getattr(checkpoint_dir, "path", checkpoint_dir))
        try:
            with open(os.path.join(root, _NOTES_FILE), encoding="utf-8") as file:
                notes = json.load(file)
        except FileNotFoundError:
            notes = {"kind": "directory"}
        self._iteration = int(notes.get("iteration", 0))
        if notes["kind"] == "dict":
            with open(os.path.join(root, DICT_FILE), "rb") as file:
                self.load_checkpoint(pickle.load(file))
        elif notes["kind"] == "path":
            self.load_checkpoint(os.path.normpath(os.path.join(root, notes["path"])))
        else:
            self.load_checkpoint(root)

    def stop(self) -> None:
        """Cleans up."""
        self.cleanup()


def takes_checkpoint_dir(function: Callable[..., Any]) -> bool:
    """Whether a function trainable is of the older kind: `def train(config, checkpoint_dir=None)`.

    It gets the directory of the checkpoint to resume from, or None.
    """
    try:
        return "checkpoint_dir" in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


def _path_inside(path: str, root: str) -> str:
    """`path` relative to `root`; files outside `root` are copied into it first."""
    real, real_root = os.path.realpath(path), os.path.realpath(root)
    if real == real_root or real.startswith(real_root + os.sep):
        return os.path.relpath(real, real_root)
    name = os.path.basename(path.rstrip("/"))
    if os.path.isdir(path):
        shutil.copytree(path, os.path.join(root, name), dirs_exist_ok=True)
    else:
        shutil.copy2(path, os.path.join(root, name))
    return name
