"""Helpers of ray.tune.utils: dicts, a wait for a free GPU, and checks of a trainable."""

from __future__ import annotations

import copy
import datetime
import inspect
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping, MutableMapping, Sequence
from types import TracebackType
from typing import Any, Optional, Union

from rt._json import shown

_SMI = ("--query-gpu=index,uuid,memory.used,memory.total", "--format=csv,noheader,nounits")


def flatten_dict(
    dt: Mapping[str, Any],
    delimiter: str = "/",
    prevent_delimiter: bool = False,
    flatten_list: bool = False,
) -> dict[str, Any]:
    """{"a": {"b": 1}} -> {"a/b": 1}; with flatten_list lists as well, by their indices.

    prevent_delimiter: raises ValueError for a key that contains the delimiter.
    """
    flat: dict[str, Any] = {}

    def add(prefix: str, value: Any) -> None:
        items: Any = None
        if isinstance(value, Mapping) and value:
            items = value.items()
        elif flatten_list and isinstance(value, list) and value:
            items = enumerate(value)
        if items is None:
            flat[prefix] = value
            return
        for key, item in items:
            if prevent_delimiter and delimiter in str(key):
                raise ValueError(f"the key {key!r} contains the delimiter {delimiter!r}")
            add(f"{prefix}{delimiter}{key}" if prefix else str(key), item)

    add("", dt)
    return flat if dt else {}


def unflatten_dict(dt: Mapping[str, Any], delimiter: str = "/") -> dict[str, Any]:
    """{"a/b": 1} -> {"a": {"b": 1}}. Raises TypeError when "a" has a value of its own."""
    tree: dict[str, Any] = {}
    for key, value in dt.items():
        *steps, last = str(key).split(delimiter)
        inner = tree
        for step in steps:
            inner = inner.setdefault(step, {})
            if not isinstance(inner, dict):
                raise TypeError(f"{key!r}: {step!r} has a value of its own")
        inner[last] = value
    return tree


def unflatten_list_dict(dt: Mapping[str, Any], delimiter: str = "/") -> Any:
    """The inverse of flatten_dict(flatten_list=True): keys 0, 1, 2, ... become a list."""

    def listed(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        inner = {key: listed(item) for key, item in value.items()}
        if inner and list(inner) == [str(i) for i in range(len(inner))]:
            return list(inner.values())
        return inner

    return listed(unflatten_dict(dt, delimiter))


def unflattened_lookup(
    flat_key: str, lookup: Union[Mapping[str, Any], Sequence[Any]], delimiter: str = "/"
) -> Any:
    """The value of "a/b" in {"a": {"b": value}}, also through lists. Raises KeyError."""
    value: Any = lookup
    if isinstance(lookup, Mapping) and flat_key in lookup:
        return lookup[flat_key]
    for step in flat_key.split(delimiter):
        try:
            value = value[step] if isinstance(value, Mapping) else value[int(step)]
        except (KeyError, IndexError, ValueError, TypeError):
            raise KeyError(f"{flat_key!r} is not there; {step!r} was looked for") from None
    return value


def merge_dicts(d1: Mapping[str, Any], d2: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of d1 with the values of d2, also inside nested dicts."""
    merged: dict[str, Any] = copy.deepcopy(dict(d1))
    deep_update(merged, d2, True, [])
    return merged


def deep_update(
    original: MutableMapping[str, Any],
    new_dict: Mapping[str, Any],
    new_keys_allowed: bool = False,
    allow_new_subkey_list: Optional[list[str]] = None,
    override_all_if_type_changes: Optional[list[str]] = None,
    override_all_key_list: Optional[list[str]] = None,
) -> MutableMapping[str, Any]:
    """Puts the values of new_dict into `original`, also inside nested dicts; returns `original`.

    new_keys_allowed: whether keys that `original` does not have may be added; below the keys of
    allow_new_subkey_list they may. override_all_key_list: keys whose dicts are replaced as a whole;
    override_all_if_type_changes: those whose dicts are, if their "type" changes. Raises ValueError
    for a key that may not be added.
    """
    whole, typed = override_all_key_list or [], override_all_if_type_changes or []
    for key, value in new_dict.items():
        if key not in original and not new_keys_allowed:
            raise ValueError(f"unknown key {key!r}; known: {', '.join(map(str, original))}")
        known: Any = original.get(key)
        dicts = isinstance(known, MutableMapping) and isinstance(value, Mapping)
        other = key in typed and dicts and "type" in value and value["type"] != known.get("type")
        if not dicts or other or key in whole:
            original[key] = value
        else:
            below = new_keys_allowed or key in (allow_new_subkey_list or [])
            deep_update(known, value, below, allow_new_subkey_list)
    return original


def date_str() -> str:
    """The time now: "2026-01-31_12-00-00"."""
    return datetime.datetime.now().strftime("%Y-%m-%d_%H-%M-%S")


class warn_if_slow:
    """Prints a line if the block takes longer than `threshold` seconds (0.5)."""

    DEFAULT_THRESHOLD = 0.5

    def __init__(
        self,
        name: str,
        threshold: Optional[float] = None,
        message: Optional[str] = None,
        disable: bool = False,
    ) -> None:
        self.name = name
        self.threshold = self.DEFAULT_THRESHOLD if threshold is None else threshold
        self.message = message or "{name} took {duration:.3f} s, more than {threshold:.3f} s"
        self.too_slow = False
        self.disable = disable

    def __enter__(self) -> warn_if_slow:
        self.start = time.monotonic()
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        duration = time.monotonic() - self.start
        self.too_slow = duration > self.threshold
        if self.too_slow and not self.disable:
            known = {"name": self.name, "duration": duration, "threshold": self.threshold}
            print(self.message.format(**known), flush=True)


def wait_for_gpu(
    gpu_id: Union[int, str, None] = None,
    target_util: float = 0.01,
    retry: int = 20,
    delay_s: float = 5,
    gpu_memory_limit: Optional[float] = None,
) -> bool:
    """Waits until the part of the GPU's memory that is used is at most target_util.

    gpu_id: an index or a UUID, or None for the first of the trial's GPUs. rt gives a GPU to a trial
    only once the previous one has ended, so few trials need this. gpu_memory_limit: the older
    name of target_util. Raises RuntimeError when it is still used after `retry` looks, or when
    nvidia-smi does not answer, and ValueError for a GPU that is not there.
    """
    limit = target_util if gpu_memory_limit is None else gpu_memory_limit
    used = 1.0
    for attempt in range(retry):
        if attempt:
            time.sleep(delay_s)
        used = _used_fraction(gpu_id)
        if used <= limit:
            return True
    raise RuntimeError(
        f"the GPU {gpu_id if gpu_id is not None else 0} still has {used:.0%} of its memory in use"
    )


def _used_fraction(gpu_id: Union[int, str, None]) -> float:
    if gpu_id is None:
        gpu_id = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0] or "0"
    try:
        reply = subprocess.run(
            ["nvidia-smi", *_SMI], capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise RuntimeError(f"nvidia-smi does not answer: {error}") from None
    known = []
    for line in reply.stdout.splitlines():
        index, uuid, used, total = (part.strip() for part in line.split(","))
        known += [index, uuid]
        if str(gpu_id) in (index, uuid):
            return float(used) / float(total)
    raise ValueError(f"there is no GPU {gpu_id!r}; known: {', '.join(known) or 'none'}")


def validate_save_restore(
    trainable_cls: Any, config: Optional[dict[str, Any]] = None, num_gpus: int = 0
) -> bool:
    """Whether a class trainable continues from its checkpoint as one that was not interrupted.

    It runs here, without a cluster: six steps in one object, three of them again in another one
    that was restored after the third. num_gpus is not needed. Raises ValueError for a function, and
    AssertionError when the counts of steps differ; returns True.
    """
    from rt._trainable import Trainable
    from rt.tune._wrap import lookup

    kind = lookup(trainable_cls)
    if not isinstance(kind, type) or not issubclass(kind, Trainable):
        raise ValueError(f"validate_save_restore takes a class trainable, not {shown(kind)}")
    first, directory = kind(copy.deepcopy(config or {})), tempfile.mkdtemp(prefix="rt-validate-")
    second = kind(copy.deepcopy(config or {}))
    try:
        for _ in range(3):
            first.train()
        second.restore(first.save(directory))
        for _ in range(3):
            expected, found = first.train(), second.train()
            steps = expected["training_iteration"], found["training_iteration"]
            assert steps[0] == steps[1], f"{kind.__name__} is at step {steps[1]}, not {steps[0]}"
    finally:
        first.stop()
        second.stop()
        shutil.rmtree(directory, ignore_errors=True)
    return True


def diagnose_serialization(trainable: Any) -> Union[bool, set[Any]]:
    """True if the trainable can be pickled; else the objects in its closure that cannot."""
    from rt._pack import dumps

    try:
        dumps(trainable)
        return True
    except Exception as error:
        print(f"{shown(trainable)} cannot be pickled: {error}", flush=True)
    if not inspect.isfunction(trainable):
        return {trainable}
    names = inspect.getclosurevars(trainable)
    failed = set()
    for name, value in {**names.globals, **names.nonlocals}.items():
        try:
            dumps(value)
        except Exception as error:
            print(f"  {name} = {shown(value)}: {error}", flush=True)
            failed.add(name)
    return failed or {trainable}


def validate_warmstart(
    parameter_names: list[str],
    points_to_evaluate: Sequence[Union[Sequence[Any], Mapping[str, Any]]],
    evaluated_rewards: Optional[Sequence[Any]],
    validate_point_name_lengths: bool = True,
) -> None:
    """Raises ValueError or TypeError for points that do not fit the parameters or the rewards."""
    if points_to_evaluate and not isinstance(points_to_evaluate, list):
        raise TypeError(f"points_to_evaluate must be a list, not {type(points_to_evaluate)}")
    for point in points_to_evaluate or ():
        if not isinstance(point, (dict, list)):
            raise TypeError(f"a point must be a dict or a list, not {type(point)}")
        if validate_point_name_lengths and len(point) != len(parameter_names):
            raise ValueError(f"{point} does not fit the parameters {parameter_names}")
    if evaluated_rewards and not isinstance(evaluated_rewards, list):
        raise TypeError(f"evaluated_rewards must be a list, not {type(evaluated_rewards)}")
    points, rewards = len(points_to_evaluate or ()), len(evaluated_rewards or ())
    if points and rewards and points != rewards:
        raise ValueError(f"{points} points have {rewards} rewards")


__all__ = [
    "date_str",
    "deep_update",
    "diagnose_serialization",
    "flatten_dict",
    "merge_dicts",
    "unflatten_dict",
    "unflatten_list_dict",
    "unflattened_lookup",
    "validate_save_restore",
    "validate_warmstart",
    "wait_for_gpu",
    "warn_if_slow",
]
