"""Where this code runs: in the driver, in a task, or in an actor (`rt.get_runtime_context()`)."""

from __future__ import annotations

import contextvars
import os
import socket
from typing import Any, Optional

from rt.core._current import find_client

_node: dict[str, Any] = {}
_session = ""
_namespace = ""
_task: contextvars.ContextVar[int] = contextvars.ContextVar("rt_task", default=0)
_actor: Optional[int] = None


def begin(session: str, namespace: str, node: dict[str, Any]) -> None:
    """This process belongs to a session."""
    global _session, _namespace
    _session, _namespace = session, namespace
    _node.update(node)


def enter(task: int, actor: Optional[int]) -> None:
    """A task, or a call of an actor, begins."""
    global _actor
    _task.set(task)
    _actor = actor


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

    def get_actor_id(self) -> Optional[str]:
        """The actor; None outside of one."""
        return f"{_actor:032x}" if _actor is not None else None

    def get_actor_name(self) -> Optional[str]:
        """The name that the actor was given."""
        return _names.get("name")

    def get_worker_id(self) -> str:
        """The process."""
        return f"{os.getpid():056x}"

    def get_assigned_resources(self) -> dict[str, float]:
        """What the executor of this process has."""
        import json

        try:
            given = json.loads(os.environ.get("RT_RESOURCES") or "{}")
        except ValueError:
            return {}
        names = {"cpu": "CPU", "gpu": "GPU"}
        return {names.get(name, name): float(amount) for name, amount in given.items() if amount}

    def get_accelerator_ids(self) -> dict[str, list[str]]:
        """The gpus of this process."""
        return {"GPU": gpu_ids()}

    def get_runtime_env_string(self) -> str:
        """An empty environment, as JSON."""
        return "{}"

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


def begin_actor(name: Optional[str]) -> None:
    """This process is an actor."""
    if name:
        _names["name"] = name


def gpu_ids() -> list[str]:
    """What CUDA_VISIBLE_DEVICES lists."""
    shown = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    return [each for each in shown.split(",") if each and each != "NoDevFiles"]
