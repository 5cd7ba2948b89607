"""The errors of tasks and actors, also under the names that Ray has for them.

An exception that a task raised is raised again by `rt.get` as an object of two classes: `TaskError`
and the class of the user's own exception, so that `except ValueError` catches it. Its text is the
traceback of the task.
"""

from __future__ import annotations

from typing import Any, Optional

from rt._errors import RtError

__all__ = [
    "ActorDiedError",
    "ActorError",
    "ActorUnavailableError",
    "ActorUnschedulableError",
    "GetTimeoutError",
    "NodeDiedError",
    "ObjectLostError",
    "ObjectStoreFullError",
    "OutOfMemoryError",
    "OwnerDiedError",
    "PendingCallsLimitExceeded",
    "RayActorError",
    "RayError",
    "RaySystemError",
    "RayTaskError",
    "RuntimeEnvSetupError",
    "TaskCancelledError",
    "TaskError",
    "TaskUnschedulableError",
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
        error = _blank(type(cause), kind)
        error.__dict__.update(getattr(cause, "__dict__", {}))
        error.args = cause.args
        error.code, error.hint = self.code, self.hint
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


def _blank(layout: Any, kind: type[TaskError]) -> TaskError:
    """An object of `kind`, made as its base class `layout` makes objects."""
    made: TaskError = layout.__new__(kind)
    return made


_dual_classes: dict[type, Optional[type[TaskError]]] = {}


def _dual_class(cause: type) -> Optional[type[TaskError]]:
    if cause not in _dual_classes:
        made: Optional[type[TaskError]] = None
        try:
            name = f"TaskError({cause.__name__})"
            made = type(name, (TaskError, cause), {"__module__": __name__, "__qualname__": name})
            _blank(cause, made)
        except TypeError:  # Another layout, or a class that cannot be derived from.
            made = None
        _dual_classes[cause] = made
    return _dual_classes[cause]


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


RayTaskError = TaskError
RayActorError = ActorError
