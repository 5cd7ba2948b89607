"""What the head is asked for: the specification of an executor."""

from __future__ import annotations

import os
import sys
from typing import Any

from rt import _driver, _runtime
from rt._pack import import_path
from rt._runtime_env import Code, split
from rt.core._code import StoredCode
from rt.core._places import Shape
from rt.core._preload import modules_of_main


def executor_spec(
    driver: _driver.Driver, shape: Shape, params: dict[str, Any], stored: StoredCode
) -> dict[str, Any]:
    """An executor for tasks of this shape. params: what its process is told. Raises what storing
    its code raises."""
    resources, pairs = shape
    env_vars, _ = split(pairs)
    env = {**_runtime.env_vars, **env_vars}
    path = import_path(outside_job=not driver.inside_job)
    if path:
        env.setdefault("PYTHONPATH", path)
    preload = ",".join(modules_of_main())
    if preload:
        env["RT_PRELOAD"] = preload
    if "RT_WARM_START" in os.environ:
        env.setdefault("RT_WARM_START", os.environ["RT_WARM_START"])
    threads = os.environ.get("OMP_NUM_THREADS", str(max(1, int(dict(resources).get("cpu", 1)))))
    env.setdefault("OMP_NUM_THREADS", threads)
    spec: dict[str, Any] = {
        "name": os.path.basename(sys.argv[0] or "python") or "python",
        "argv": [sys.executable, "-m", "rt._executor"],
        "env": env,
        "resources": _request(resources),
        "params": params,
    }
    if driver.embedded:
        spec["cwd"] = os.getcwd()
    elif os.environ.get("RT_BUNDLE"):
        spec["bundle"] = os.environ["RT_BUNDLE"]
    stored.add_to(spec, code_of(shape))
    return spec


def _request(resources: tuple[tuple[str, float], ...]) -> dict[str, Any]:
    """What the head is asked for. A resource of the user's own may have any name, also "custom"."""
    known = {name: amount for name, amount in resources if name in ("cpu", "gpu", "memory")}
    own = {name: amount for name, amount in resources if name not in known}
    return {**known, "custom": own} if own else known


def code_of(shape: Shape) -> Code:
    """The code of a task's own runtime_env, and what it does not say, of rt.init."""
    _, own = split(shape[1])
    given = _runtime.code
    return Code(own.working_dir or given.working_dir, own.py_modules or given.py_modules)
