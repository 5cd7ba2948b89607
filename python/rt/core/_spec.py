"""What the head is asked for: the specification of an executor."""

from __future__ import annotations

import os
import sys
from typing import Any

from rt import _driver, _runtime
from rt._pack import import_path
from rt.core._places import Shape
from rt.core._preload import modules_of_main


def executor_spec(driver: _driver.Driver, shape: Shape, params: dict[str, Any]) -> dict[str, Any]:
    """An executor for tasks of this shape. params: what its process is told."""
    resources, env_vars = shape
    env = {**_runtime.env_vars, **dict(env_vars)}
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
        "resources": dict(resources),
        "params": params,
    }
    if driver.embedded:
        spec["cwd"] = os.getcwd()
    elif os.environ.get("RT_BUNDLE"):
        spec["bundle"] = os.environ["RT_BUNDLE"]
    return spec
