"""The errors of tasks and actors, also under the names that Ray has for them.

An exception that a task raised is raised again by `rt.get` as an object of two classes: `TaskError`
and the class of the user's own exception, so that `except ValueError` catches it. Its text is the
traceback of the task.
"""

from __future__ import annotations

import contextlib
import types
from typing import Any, Optional

from rt._errors import RtError

__all__ = [
    "ActorDiedError",
    "ActorError",
    "ActorPlacementGroupRemoved",
    "ActorUnavailableError",
    "ActorUnschedulableError",
    "AsyncioActorExit",
    "CrossLanguageError",
    "GetTimeoutError",
    "LocalRayletDiedError",
    "NodeDiedError",
    "ObjectFetchTimedOutError",
    "ObjectFreedError",
    "ObjectLostError",
    "ObjectReconstructionFailedError",
    "ObjectReconstructionFailedLineageEvictedError",
    "ObjectReconstructionFailedMaxAttemptsExceededError",
    "ObjectStoreFullError",
    "OutOfDiskError",
    "OutOfMemoryError",
    "OwnerDiedError",
    "PendingCallsLimitExceeded",
    "PlasmaObjectNotAvailable",
    "RayActorError",
    "RayError",
    "RaySystemError",
    "RayTaskError",
    "ReferenceCountingAssertionError",
    "RpcError",
    "RuntimeEnvSetupError",
    "TaskCancelledError",
    "TaskError",
    "TaskPlacementGroupRemoved",
    "TaskUnschedulableError",
    "UserCodeException",
    "WorkerCrashedError",
]


class RayError(RtError):
    """The base of all errors of tasks, actors and objects."""

    def __init__(self, message: str = "", code: str = "TASK", hint: str = "") -> None:
        super().__init__(message, code, hint)

    def __reduce__(self) -> Any:
        return (_restored, (type(self), self.args, dict(self.__dict__)))


def _restored(kind: type[RayError], args: tuple[Any, ...], state: dict[str, Any]) -> RayError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(state)
    return error


class TaskError(RayError):
    """A task or a method of an actor raised. `cause` is the exception, `traceback_str` the text of
    its traceback where it was raised."""

    cause: Optional[BaseException]
    traceback_str: str
    function_name: str
    by_state = False  # The cause is pickled as its class, its args and its attributes.

    def __init__(
        self, function_name: str, traceback_str: str, cause: Optional[BaseException] = None
    ) -> None:
        RuntimeError.__init__(self, function_name, traceback_str)
        self.code, self.hint = "TASK_FAILED", ""
        self.function_name = function_name
        self.traceback_str = traceback_str
        self.cause = cause

    def __str__(self) -> str:
        return f"{self.function_name} raised:\n{self.traceback_str.rstrip()}"

    def __reduce__(self) -> Any:
        cause = self.cause
        if self.by_state and cause is not None:
            state = (type(cause), cause.args, dict(cause.__dict__))
            return (_restored_by_state, (self.function_name, self.traceback_str, *state))
        return (_restored_task_error, (self.function_name, self.traceback_str, cause))

    def as_user_error(self) -> TaskError:
        """The same error as an object of the user's class, too, if that can be derived from."""
        cause = self.cause
        if cause is None or isinstance(cause, TaskError):
            return self
        if not isinstance(cause, Exception):  # SystemExit and such must not end the caller.
            return self
        kind = _dual_class(type(cause))
        if kind is None:
            return self
        try:
            error = _blank(kind, cause)
        except Exception:  # It needs more than the exception has kept.
            return self
        error.__dict__.update(getattr(cause, "__dict__", {}))
        error.args = cause.args
        _copy_fields(cause, error)
        for name, own in (("code", self.code), ("hint", self.hint)):
            if not hasattr(cause, name):  # The user's exception may have its own.
                setattr(error, name, own)
        error.function_name, error.traceback_str = self.function_name, self.traceback_str
        error.cause, error.by_state = cause, self.by_state
        return error


def _restored_task_error(
    function_name: str, traceback_str: str, cause: Optional[BaseException]
) -> TaskError:
    return TaskError(function_name, traceback_str, cause).as_user_error()


def _restored_by_state(
    function_name: str,
    traceback_str: str,
    kind: type[BaseException],
    args: tuple[Any, ...],
    state: dict[str, Any],
) -> TaskError:
    cause = kind.__new__(kind)
    cause.args = args
    cause.__dict__.update(state)
    error = TaskError(function_name, traceback_str, cause)
    error.by_state = True
    return error.as_user_error()


def _blank(kind: type[TaskError], cause: BaseException) -> TaskError:
    """An object of `kind`, made as the class of the cause makes objects."""
    if isinstance(cause, MemoryError):  # Its own way is for MemoryError alone.
        return BaseException.__new__(kind)
    make: Any = type(cause).__new__
    try:
        made: TaskError = make(kind, *cause.args)
    except TypeError:  # It takes others than the exception has kept.
        made = make(kind)
    return made


def _copy_fields(cause: BaseException, error: TaskError) -> None:
    """Copies what is not in `__dict__`, such as `errno` and slots."""
    for made in type(cause).__mro__:
        if made in (BaseException, object):
            return
        for name, each in vars(made).items():
            if isinstance(each, (types.MemberDescriptorType, types.GetSetDescriptorType)):
                with contextlib.suppress(AttributeError, TypeError):  # Unset, or read-only.
                    setattr(error, name, getattr(cause, name))


_dual_classes: dict[type, Optional[type[TaskError]]] = {}


def _dual_class(base: type[BaseException]) -> Optional[type[TaskError]]:
    if base not in _dual_classes:
        made: Optional[type[TaskError]] = None
        try:
            name = f"TaskError({base.__name__})"
            made = type(name, (TaskError, base), {"__module__": __name__, "__qualname__": name})
        except Exception:  # Another layout, or a class that cannot be derived from.
            made = None
        _dual_classes[base] = made
    return _dual_classes[base]


class TaskCancelledError(RayError):
    """The task was cancelled."""


class GetTimeoutError(RayError, TimeoutError):
    """A value was not there within the timeout."""


class WorkerCrashedError(RayError):
    """The process of a task ended before the task did."""


class NodeDiedError(WorkerCrashedError):
    """The node of a task was lost."""


class OutOfMemoryError(WorkerCrashedError):
    """The process of a task was ended because its memory ran out."""


class ObjectLostError(RayError):
    """A value is lost and cannot be computed again."""


class OwnerDiedError(ObjectLostError):
    """A value is lost because the driver that owned it ended."""


class ObjectStoreFullError(RayError):
    """There is no room for a value, neither in memory nor on the disk."""


class RaySystemError(RayError):
    """An error of rt itself."""


class RuntimeEnvSetupError(RayError):
    """A runtime_env that cannot be set up."""


class TaskUnschedulableError(RayError, ValueError):
    """No node of the cluster could ever run the task."""


class ActorUnschedulableError(RayError, ValueError):
    """No node of the cluster could ever run the actor."""


class PendingCallsLimitExceeded(RayError):
    """The actor has as many calls waiting as its max_pending_calls allows."""


class ActorError(RayError):
    """The base of the errors of actors."""


class ActorDiedError(ActorError):
    """The actor has ended, and does not come back."""


class ActorUnavailableError(ActorError):
    """The actor's process ended during the call, which may or may not have run. The actor may be
    back soon."""


class ActorPlacementGroupRemoved(RayError):
    """Never raised: rt has no placement groups."""


class TaskPlacementGroupRemoved(RayError):
    """Never raised: rt has no placement groups."""


class AsyncioActorExit(RayError):
    """Never raised: exit_actor() ends the process."""


class CrossLanguageError(RayError):
    """Never raised: tasks are Python."""


class LocalRayletDiedError(RayError):
    """Never raised: a driver does not end with the daemon of its node."""


class ObjectFetchTimedOutError(ObjectLostError):
    """Never raised: the driver has every value."""


class ObjectFreedError(ObjectLostError):
    """Never raised: a value lives as long as its references."""


class ObjectReconstructionFailedError(ObjectLostError):
    """Never raised: a value that was computed is not lost with its node."""


class ObjectReconstructionFailedMaxAttemptsExceededError(ObjectReconstructionFailedError):
    """Never raised."""


class ObjectReconstructionFailedLineageEvictedError(ObjectReconstructionFailedError):
    """Never raised."""


class OutOfDiskError(RayError):
    """Never raised: ObjectStoreFullError says that a value fits nowhere."""


class PlasmaObjectNotAvailable(RayError):
    """Never raised: rt has no store of that kind."""


class ReferenceCountingAssertionError(ObjectLostError):
    """Never raised."""


class RpcError(RayError):
    """Never raised: what the head answers comes as RtError."""


RayTaskError = TaskError
UserCodeException = TaskError
RayActorError = ActorError
