"""Where this code runs: in the driver, in a task, or in an actor (`rt.get_runtime_context()`)."""

from __future__ import annotations

import contextvars
import os
import socket
from typing import Any, Optional, Union

from rt.core._assigned import assigned
from rt.core._current import find_client, get_client

_node: dict[str, Any] = {}
_session = ""
_namespace = ""
_task: contextvars.ContextVar[int] = contextvars.ContextVar("rt_task", default=0)
_name: contextvars.ContextVar[tuple[str, str]] = contextvars.ContextVar(
    "rt_task_name", default=("", "")
)
_cancelled: set[int] = set()  # Tasks that run, and were cancelled.
_actor: Optional[int] = None
_restarts = 0


def begin(session: str, namespace: str, node: dict[str, Any]) -> None:
    """This process belongs to a session."""
    global _session, _namespace
    _session, _namespace = session, namespace
    _node.update(node)


def enter(task: int, actor: Optional[int], name: str = "", function: str = "") -> None:
    """A task, or a call of an actor, begins. `name`: for people; `function`: what is called."""
    global _actor
    _task.set(task)
    _name.set((name, function))
    _actor = actor


def cancel(task: int) -> None:
    """The task, which runs, was cancelled."""
    _cancelled.add(task)


def leave(task: int) -> None:
    """The task has ended."""
    _cancelled.discard(task)


class RuntimeContext:
    """The numbers of what runs here, as hexadecimal digits; None where there is none."""

    def get_job_id(self) -> str:
        """The session of the driver."""
        client = find_client()
        return _session or (client.session if client is not None else "")

    def get_node_id(self) -> str:
        """The node's number; of a driver outside the cluster the name of its machine."""
        return str(_node.get("id") or os.environ.get("RT_NODE_ID") or socket.gethostname())

    def get_task_id(self) -> Optional[str]:
        """The task that runs; None in the driver."""
        number = _task.get()
        return f"{number:048x}" if number else None

    def get_task_name(self) -> Optional[str]:
        """The name of the task; None in the driver."""
        return _name.get()[0] or None

    def get_task_function_name(self) -> Optional[str]:
        """The function of the task, whatever its name is; None in the driver."""
        return _name.get()[1] or None

    def is_canceled(self) -> bool:
        """Whether rt.cancel was called for what runs here."""
        return _task.get() in _cancelled

    def get_actor_id(self) -> Optional[str]:
        """The actor; None outside of one."""
        return f"{_actor:032x}" if _actor is not None else None

    def get_actor_name(self) -> Optional[str]:
        """The name that the actor was given."""
        return _names.get("name")

    @property
    def was_current_actor_reconstructed(self) -> bool:
        """Whether the actor has been restarted. Raises RuntimeError outside of an actor."""
        self._check_actor("was_current_actor_reconstructed")
        return _restarts > 0

    @property
    def current_actor(self) -> Any:
        """A handle of the actor that runs this. Raises RuntimeError outside of an actor."""
        from rt.core._remote import ActorHandle

        self._check_actor("current_actor")
        client = get_client()
        if not hasattr(client, "find_self"):
            raise RuntimeError("a detached actor has no handle of itself: use rt.get_actor(name)")
        found = client.find_self()
        return ActorHandle(found["id"], client, found["class"], found["methods"])

    def _check_actor(self, what: str) -> None:
        if _actor is None:
            raise RuntimeError(f"{what} is for code in an actor")

    def get_placement_group_id(self) -> None:
        """None: rt has no placement groups."""

    @property
    def should_capture_child_tasks_in_placement_group(self) -> bool:
        """False: rt has no placement groups."""
        return False

    def get_node_labels(self) -> dict[str, str]:
        """The labels of the node, where they are known."""
        return {str(key): str(value) for key, value in (_node.get("labels") or {}).items()}

    def get(self) -> dict[str, Any]:
        """The numbers by their names, as older scripts want them."""
        found = {"job_id": self.get_job_id(), "node_id": self.get_node_id(),
                 "namespace": self.namespace}  # fmt: skip
        more = {"task_id": self.get_task_id(), "actor_id": self.get_actor_id()}
        return {**found, **{key: value for key, value in more.items() if value is not None}}

    def get_worker_id(self) -> str:
        """The process."""
        return f"{os.getpid():056x}"

    def get_assigned_resources(self) -> dict[str, float]:
        """What the executor of this process has."""
        names = {"cpu": "CPU", "gpu": "GPU"}
        return {names.get(name, name): amount for name, amount in assigned().items()}

    def get_accelerator_ids(self) -> dict[str, list[str]]:
        """The gpus of this process."""
        return {"GPU": [str(each) for each in gpu_ids()]}

    def get_runtime_env_string(self) -> str:
        """The runtime_env of the script, as JSON."""
        import json

        return json.dumps(dict(self.runtime_env))

    @property
    def runtime_env(self) -> dict[str, Any]:
        """The runtime_env of the script: what rt.init got of it."""
        from rt import _runtime

        found: dict[str, Any] = {}
        if _runtime.env_vars:
            found["env_vars"] = dict(_runtime.env_vars)
        if _runtime.code.working_dir:
            found["working_dir"] = _runtime.code.working_dir
        if _runtime.code.py_modules:
            found["py_modules"] = list(_runtime.code.py_modules)
        return found

    @property
    def namespace(self) -> str:
        """The namespace of named actors."""
        return _namespace

    @property
    def gcs_address(self) -> str:
        """The name of the cluster."""
        return os.environ.get("RT_CLUSTER") or "local"

    # Older names.
    @property
    def job_id(self) -> str:
        """get_job_id()."""
        return self.get_job_id()

    @property
    def node_id(self) -> str:
        """get_node_id()."""
        return self.get_node_id()

    @property
    def task_id(self) -> Optional[str]:
        """get_task_id()."""
        return self.get_task_id()

    @property
    def actor_id(self) -> Optional[str]:
        """get_actor_id()."""
        return self.get_actor_id()


_names: dict[str, str] = {}


def begin_actor(name: Optional[str], restarts: int = 0) -> None:
    """This process is an actor, which was restarted that often."""
    global _restarts
    _restarts = restarts
    if name:
        _names["name"] = name


def gpu_ids() -> list[Union[int, str]]:
    """What CUDA_VISIBLE_DEVICES lists: indexes as numbers, as Ray has them, and other names."""
    shown = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    names = [each for each in shown.split(",") if each and each != "NoDevFiles"]
    return [int(each) if each.isdecimal() else each for each in names]
