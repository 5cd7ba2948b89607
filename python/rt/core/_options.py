"""The options of tasks, actors and methods: which there are, and what they may be."""

from __future__ import annotations

import inspect
from typing import Any, Union

import cloudpickle

from rt import _runtime_env
from rt.core._records import AHEAD_MAX, STREAM, Options

_SHARED_OPTIONS = (
    "num_cpus", "num_gpus", "resources", "memory", "name", "runtime_env", "accelerator_type",
    "scheduling_strategy", "label_selector", "fallback_strategy", "_metadata",
    "object_store_memory", "enable_task_events", "_labels", "placement_group",
    "placement_group_bundle_index", "placement_group_capture_child_tasks",
)  # fmt: skip
TASK_OPTIONS = (
    *_SHARED_OPTIONS, "num_returns", "max_retries", "retry_exceptions", "max_calls",
    "_generator_backpressure_num_objects",
)  # fmt: skip
ACTOR_OPTIONS = (
    *_SHARED_OPTIONS, "lifetime", "max_restarts", "max_task_retries", "max_concurrency",
    "max_pending_calls", "namespace", "get_if_exists", "concurrency_groups",
    "allow_out_of_order_execution",
)  # fmt: skip
METHOD_OPTIONS = (
    "num_returns", "name", "max_task_retries", "retry_exceptions", "concurrency_group",
    "_generator_backpressure_num_objects", "enable_task_events", "tensor_transport",
)  # fmt: skip
_OWN_RESOURCE = "resources={...} with a resource that only those nodes have"
_NOT_YET = {
    "placement_group": "executors, which the head places one by one",
    "concurrency_groups": "max_concurrency, for the whole actor",
    "label_selector": _OWN_RESOURCE,
    "fallback_strategy": _OWN_RESOURCE,
}
_STRATEGIES = (None, "DEFAULT", "SPREAD")  # The head places executors: both are the same.


def check(options: dict[str, Any], known: tuple[str, ...], what: str) -> None:
    """Raises what is wrong with names and with values that rt does not have."""
    for key, value in options.items():
        if key not in known:
            from rt._slips import unknown_argument  # Not before: it is large.

            raise unknown_argument(what, key, known)
        if key in _NOT_YET and value not in (None, "default"):
            raise NotImplementedError(f"{what}({key}=…): rt has {_NOT_YET[key]}")
    strategy = options.get("scheduling_strategy")
    if strategy is not None and strategy not in _STRATEGIES:
        raise NotImplementedError(
            f"{what}(scheduling_strategy={strategy!r}): rt has {_OWN_RESOURCE}"
        )


def resources_of(options: dict[str, Any], cpus: float) -> tuple[tuple[str, float], ...]:
    """The resources that the options ask for. Raises ValueError."""
    found: dict[str, float] = {}
    given = options.get("num_cpus")
    amounts = {
        "cpu": cpus if given is None else given,
        "gpu": options.get("num_gpus") or 0,
        "memory": options.get("memory") or 0,
        **(options.get("resources") or {}),
    }
    if options.get("accelerator_type") is not None:
        amounts.setdefault(f"accelerator_type:{options['accelerator_type']}", 0.0001)
    for name, amount in amounts.items():
        if name in ("CPU", "GPU"):
            raise ValueError(f"resources={{{name!r}: …}}: use num_cpus and num_gpus")
        if not isinstance(amount, (int, float)) or isinstance(amount, bool) or amount < 0:
            raise ValueError(f"the amount of {name!r} must be a number, 0 or more, not {amount!r}")
        if amount:
            found[name] = amount
    return tuple(sorted(found.items()))


def env_vars_of(options: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """The variables of runtime_env, sorted, and its code. Raises what is wrong with it."""
    given = options.get("runtime_env")
    if not given:
        return ()
    env, code = _runtime_env.read(given)
    return tuple(sorted((*env.items(), *code.of_task())))


def count_of(options: dict[str, Any], key: str, default: int, least: int) -> int:
    """A whole number, `least` or more. Raises ValueError."""
    value = options.get(key)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"{key} must be a whole number, {least} or more, not {value!r}")
    return value


def returns_of(value: Any, function: Any) -> int:
    """num_returns as a number; STREAM of a generator. Raises ValueError."""
    if value is None:
        is_stream = inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)
        return STREAM if is_stream else 1
    if value in ("streaming", "dynamic"):
        return STREAM
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"num_returns must be a number, 0 or more, or 'streaming', not {value!r}")
    return value


def retry_on_of(value: Any) -> Union[bool, bytes]:
    """retry_exceptions: all, none, or a pickled tuple of classes. Raises ValueError."""
    if value in (None, False, True):
        return bool(value)
    if not isinstance(value, (list, tuple)):
        raise ValueError("retry_exceptions is True, False or a list of exception classes")
    for each in value:
        if not (isinstance(each, type) and issubclass(each, Exception)):
            raise ValueError(f"retry_exceptions: {each!r} is not an exception class")
    return cloudpickle.dumps(tuple(value))  # type: ignore[no-any-return]


def ahead_of(options: dict[str, Any]) -> int:
    """_generator_backpressure_num_objects; -1: without a bound. Raises ValueError."""
    key = "_generator_backpressure_num_objects"
    found = count_of(options, key, AHEAD_MAX, -1)
    if found == 0:
        raise ValueError(f"{key} must be 1 or more, or -1 for no bound")
    return found


def task_options(options: dict[str, Any], function: Any, name: str = "") -> Options:
    """The options of a task. Raises ValueError."""
    return Options(
        resources_of(options, 1),
        returns_of(options.get("num_returns"), function),
        count_of(options, "max_retries", 3, -1),
        retry_on_of(options.get("retry_exceptions")),
        options.get("name") or name,
        env_vars_of(options),
        count_of(options, "max_calls", 0, 0),
        ahead_of(options),
    )
