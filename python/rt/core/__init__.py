"""Tasks and actors under Ray's names, reached as `rt.remote`, `rt.get` and so on.

docs/adr/0041-tasks-run-on-leased-executors.md has the design. The driver's side is `_hub.py`, with
`_schedule.py`, `_actors.py` and `_serve.py`. The side of the processes is `_process.py` and
`_borrower.py`. `_session.py` requests executors.
"""

from __future__ import annotations

from typing import Any, Optional, Union

from rt.core import _current
from rt.core._actor_process import exit_actor
from rt.core._context import RuntimeContext, gpu_ids
from rt.core._current import get_client
from rt.core._refs import DynamicObjectRefGenerator, ObjectRef, ObjectRefGenerator
from rt.core._remote import (
    ActorClass,
    ActorHandle,
    ActorMethod,
    RemoteFunction,
    get_actor,
    method,
    remote,
)
from rt.core._values import pack

__all__ = [
    "ActorClass",
    "ActorHandle",
    "ActorMethod",
    "DynamicObjectRefGenerator",
    "ObjectRef",
    "ObjectRefGenerator",
    "RemoteFunction",
    "cancel",
    "exit_actor",
    "get",
    "get_actor",
    "get_gpu_ids",
    "get_runtime_context",
    "kill",
    "method",
    "nodes",
    "put",
    "remote",
    "wait",
]

Timeout = Optional[float]


def _open() -> Any:
    from rt.core._session import open_session

    return open_session()


_current.opener = _open


def get(refs: Union[ObjectRef, list[ObjectRef]], *, timeout: Timeout = None) -> Any:
    """The value of a reference, or the values of a list of them, in its order.

    Waits for them, for at most `timeout` seconds, and then raises GetTimeoutError. Raises the error
    of the first task that failed as soon as it is known: an rt.exceptions.TaskError, which is also
    of the user's class.
    """
    if timeout is not None and timeout < 0:
        raise ValueError("timeout must be 0 or more seconds, or None")
    if type(refs) is ObjectRef:
        return refs._client.take([refs._id], timeout)[0]
    if isinstance(refs, ObjectRefGenerator):
        return refs
    if not isinstance(refs, (list, tuple)):
        raise ValueError(f"get() takes an ObjectRef or a list of them, not {type(refs).__name__}")
    if not refs:
        return []
    numbers = []
    for each in refs:
        if type(each) is not ObjectRef:
            raise ValueError(f"get() takes ObjectRefs; the list contains {type(each).__name__}")
        numbers.append(each._id)
    return refs[0]._client.take(numbers, timeout)


def put(value: Any, *, _owner: Any = None, _tensor_transport: Any = None) -> ObjectRef:
    """Stores a value once; tasks that get the reference share it. Raises TypeError for a
    reference."""
    if isinstance(value, ObjectRef):
        raise TypeError("put() takes a value, not a reference: pass the reference itself")
    client = get_client()
    return client.put(*pack(value))


def wait(
    refs: list[ObjectRef],
    *,
    num_returns: int = 1,
    timeout: Timeout = None,
    fetch_local: bool = True,
) -> tuple[list[ObjectRef], list[ObjectRef]]:
    """(ready, not ready): at most num_returns references whose values are there, and all others.

    Waits until there are num_returns, for at most `timeout` seconds. Both lists keep the order
    of `refs`. A generator among them is ready when its next item was yielded, or at its end.
    """
    if isinstance(refs, ObjectRef):
        raise TypeError("wait() takes a list of ObjectRefs, not a single one")
    if not isinstance(refs, list):
        raise TypeError(f"wait() takes a list of ObjectRefs, not {type(refs).__name__}")
    if timeout is not None and timeout < 0:
        raise ValueError("timeout must be 0 or more seconds, or None")
    if not refs:
        return [], []
    if num_returns <= 0:
        raise ValueError("num_returns must be 1 or more")
    if num_returns > len(refs):
        raise ValueError(f"num_returns is {num_returns}, but there are {len(refs)} references")
    first = refs[0]
    if not isinstance(first, (ObjectRef, ObjectRefGenerator)):
        raise TypeError(f"wait() takes ObjectRefs; the list contains {type(first).__name__}")
    client = first._client if isinstance(first, ObjectRef) else first._stream._client
    return client.wait(refs, num_returns, timeout)


def cancel(ref: Any, *, force: bool = False, recursive: bool = True) -> None:
    """Cancels the task of a reference: one that waits does not start; one that runs gets
    KeyboardInterrupt, or is killed with `force`. `recursive`: the tasks that it submitted, too."""
    if isinstance(ref, ObjectRefGenerator):
        ref = ref._stream
    if not isinstance(ref, ObjectRef):
        raise TypeError(f"cancel() takes an ObjectRef, not {type(ref).__name__}")
    ref._client.cancel(ref._id, force, recursive)


def kill(actor: ActorHandle, *, no_restart: bool = True) -> None:
    """Ends the process of an actor at once. Without `no_restart` it restarts as its
    max_restarts allows."""
    if not isinstance(actor, ActorHandle):
        raise ValueError(
            f"kill() takes the handle of an actor, not {type(actor).__name__}; "
            "cancel() is for tasks"
        )
    actor._client.kill_actor(actor._id, no_restart)


def nodes() -> list[dict[str, Any]]:
    """The nodes of the cluster, as Ray lists them."""
    found: list[dict[str, Any]] = get_client().ask("nodes")
    return found


def get_runtime_context() -> RuntimeContext:
    """Where this code runs."""
    return RuntimeContext()


def get_gpu_ids() -> list[Union[int, str]]:
    """The gpus of this task or actor."""
    return gpu_ids()
