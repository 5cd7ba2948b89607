"""init, shutdown, is_initialized, for scripts written for Ray."""

from __future__ import annotations

import os
import re
import sys
import time
from typing import Any, Optional

from rt import _driver, _runtime_env

_IGNORED = {
    "labels", "local_mode", "include_dashboard", "dashboard_host", "dashboard_port",
    "configure_logging", "logging_level", "logging_format", "logging_config", "log_to_driver",
    "storage", "object_store_memory", "job_config", "enable_object_reconstruction",
    "redis_password", "redis_max_memory", "temp_dir", "memory", "webui_host", "plasma_directory",
    "num_redis_shards", "allow_multiple", "driver_mode",
}  # fmt: skip
_initialized = False
_NAME = re.compile("[A-Za-z_][A-Za-z0-9_-]*")  # Of a resource.
_JOINS_WITHIN_S = 10.0  # The time that an embedded worker has to join.
namespace = ""  # Of named actors.
env_vars: dict[str, str] = {}  # The variables of runtime_env, for every trial's environment.
code = _runtime_env.Code()  # The directories of runtime_env, for every executor.


class ClientContext(dict):  # type: ignore[type-arg]
    """The result of init(): usable in a with statement, and as a dict of addresses."""

    @property
    def address_info(self) -> dict[str, Any]:
        """The dict itself."""
        return dict(self)

    @property
    def dashboard_url(self) -> str:
        """Empty: `rt dashboard` serves it."""
        return ""

    def disconnect(self) -> None:
        """The same as shutdown()."""
        shutdown()

    def __enter__(self) -> ClientContext:
        return self

    def __exit__(self, *_: object) -> None:
        shutdown()


def init(
    address: Optional[str] = None,
    *,
    num_cpus: Optional[float] = None,
    num_gpus: Optional[float] = None,
    resources: Optional[dict[str, float]] = None,
    ignore_reinit_error: bool = False,
    runtime_env: Optional[dict[str, Any]] = None,
    namespace: Optional[str] = None,
    **others: Any,
) -> ClientContext:
    """Prepares for searches; the first search connects. Scripts written for rt need not call it.

    address: the name of a cluster; with None, "auto" and "local", RT_CLUSTER decides. num_cpus and
    num_gpus: of the embedded cluster (default: all of the machine); with num_cpus=0 it runs actors
    and tasks with num_cpus=0. resources: more of it, by name.
    Ray's other arguments are accepted and ignored.
    Raises RuntimeError when called twice without ignore_reinit_error, TypeError for an argument
    that Ray does not have, and ValueError for an address that is not the name of a cluster.
    """
    global _initialized
    unknown = [key for key in others if key not in _IGNORED and not key.startswith("_")]
    if unknown:
        from rt._slips import unknown_argument  # Not while the package is imported: it is large.

        known = ("address", "num_cpus", "num_gpus", "resources", "runtime_env", *_IGNORED)
        raise unknown_argument("init", unknown[0], known)
    if _initialized and not ignore_reinit_error:
        raise RuntimeError("init() was called twice; pass ignore_reinit_error=True to allow it")
    if not _initialized and not _driver.is_open():  # What an earlier init() said is over.
        _driver.settings.cpus = _driver.settings.gpus = _driver.settings.resources = None
        _driver.settings.cluster = None
        globals()["code"] = _runtime_env.Code()
        env_vars.clear()
    if address not in (None, "", "auto", "local"):
        if "/" in str(address) or ":" in str(address):
            raise ValueError(f"address {address!r} is not the name of a cluster (rt context list)")
        _driver.settings.cluster = str(address)
    if num_cpus is not None:
        if num_cpus < 0 or num_cpus != int(num_cpus):
            raise ValueError("num_cpus must be a whole number, 0 or more")
        _driver.settings.cpus = int(num_cpus)
    if num_gpus is not None:
        if num_gpus < 0 or num_gpus != int(num_gpus):
            raise ValueError("num_gpus must be a whole number, 0 or more")
        _driver.settings.gpus = int(num_gpus)
    if resources:
        _driver.settings.resources = _checked_resources(resources)
    variables, directories = _runtime_env.read(runtime_env)
    if runtime_env is not None:
        env_vars.update(variables)
        globals()["code"] = _code_for(directories)
    globals()["namespace"] = namespace or ""
    _initialized = True
    cluster = _driver.settings.cluster or os.environ.get("RT_CLUSTER") or "local"
    return ClientContext(address=cluster, node_ip_address="127.0.0.1")


def _code_for(given: _runtime_env.Code) -> _runtime_env.Code:
    """The executors of an embedded cluster are in the script's directory in any case."""
    if _driver.is_embedded() and given.working_dir == os.path.realpath(os.getcwd()):
        return given._replace(working_dir="")
    return given


def _checked_resources(resources: dict[str, float]) -> dict[str, float]:
    for name, amount in resources.items():
        if name in ("CPU", "GPU", "cpu", "gpu"):
            raise ValueError(f"resources={{{name!r}: ...}}: use num_cpus and num_gpus")
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name of a resource: letters, digits, _ and -")
        is_number = isinstance(amount, (int, float)) and not isinstance(amount, bool)
        if not is_number or not 0 <= amount < float("inf"):
            raise ValueError(f"the amount of {name!r} must be a number, 0 or more, not {amount!r}")
    return {name: amount for name, amount in resources.items() if amount}


def shutdown(*_: Any, **__: Any) -> None:
    """Disconnects, and ends an embedded cluster. Results stay readable. Safe to repeat."""
    global _initialized
    _initialized = False
    if "rt.core._session" in sys.modules:
        sys.modules["rt.core._session"].close_session()
    _driver.close()


def cluster_resources() -> dict[str, float]:
    """The cluster's total resources, such as {"CPU": 4.0, "memory": ...}; connects if needed."""
    return _ask("cluster_resources")


def available_resources() -> dict[str, float]:
    """The total resources less those that trials and jobs use now."""
    return _ask("available_resources")


def _ask(what: str) -> dict[str, float]:
    if "RT_EXECUTOR_ID" in os.environ:  # In a task: the driver knows.
        from rt.core._current import get_client

        found: dict[str, float] = get_client().ask(what)
        return found
    return read_resources("total" if what == "cluster_resources" else "free")


def list_nodes(driver: _driver.Driver) -> list[dict[str, Any]]:
    """The nodes of the cluster, with Ray's keys."""
    found = []
    for node in driver.call("node_list").get("items") or []:
        found.append(
            {
                "NodeID": str(node["id"]),
                "Alive": node["state"] in ("READY", "DRAINING", "SUSPECT"),
                "NodeManagerAddress": str(node.get("address") or ""),
                "NodeManagerHostname": str(node.get("name") or ""),
                "NodeName": str(node.get("name") or ""),
                "Resources": _named(node.get("resources_total") or {}),
                "Labels": dict(node.get("labels") or {}),
            }
        )
    return found


def _named(amounts: dict[str, Any]) -> dict[str, float]:
    listed = {**amounts, **(amounts.get("custom") or {})}
    listed.pop("custom", None)
    names = {"cpu": "CPU", "gpu": "GPU", "memory_bytes": "memory"}
    return {names.get(name, name): float(amount) for name, amount in listed.items() if amount}


def read_resources(which: str, driver: Optional[_driver.Driver] = None) -> dict[str, float]:
    """The "total" or the "free" resources of the cluster."""
    driver = driver or _driver.get()
    end = time.monotonic() + _JOINS_WITHIN_S
    while True:
        found = _amounts(dict(driver.call("cluster_status").get("resources") or {}), which)
        # An embedded cluster is up shortly before its worker.
        if found or not driver.embedded or time.monotonic() >= end:
            return found
        time.sleep(0.02)


def _amounts(listed: dict[str, Any], which: str) -> dict[str, float]:
    listed.update(listed.pop("custom", None) or {})
    found: dict[str, float] = {}
    for name, amount in listed.items():
        total, used = float(amount["total"]), float(amount["used"])
        ray_name = {"cpu": "CPU", "gpu": "GPU", "memory_bytes": "memory"}.get(name) or name
        if total and not (ray_name == "CPU" and _driver.has_no_cpus()):
            found[ray_name] = total if which == "total" else total - used
    return found


def is_initialized() -> bool:
    """Whether init() was called, or a search has connected."""
    return _initialized or _driver.is_open()
