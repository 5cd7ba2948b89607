"""runtime_env: what rt has of it, and errors by name for the rest."""

from __future__ import annotations

import os
from types import ModuleType
from typing import Any, NamedTuple, Optional

# Of a task's environment that is no variable: it tells apart the executors of different code.
WORKING_DIR, PY_MODULES = "rt:working_dir", "rt:py_modules"
MODULES_VARIABLE = "RT_PY_MODULES"  # In an executor: the directory that has all py_modules.
_HARMLESS = ("config", "eager_install", "worker_process_setup_hook_timeout")
_PACKAGES = "executors use the packages of their node: install them there, or pass py_modules"
_CONTAINER = "executors run in the environment of their node's worker"
_NOT_THERE = {
    "pip": _PACKAGES,
    "uv": _PACKAGES,
    "conda": _PACKAGES,
    "container": _CONTAINER,
    "image_uri": _CONTAINER,
    "docker": _CONTAINER,
    "excludes": "name what is left out in .rtignore or .gitignore of the directory",
    "worker_process_setup_hook": "call the function in the task",
    "nsight": "start the profiler in the task",
    "rocprof_sys": "start the profiler in the task",
    "mpi": "rt.train runs ranks that meet",
}


class Code(NamedTuple):
    """The directories of runtime_env on this machine."""

    working_dir: str = ""
    py_modules: tuple[str, ...] = ()

    def of_task(self) -> tuple[tuple[str, str], ...]:
        """The same among the variables of a task."""
        found = []
        if self.py_modules:
            found.append((PY_MODULES, "\n".join(self.py_modules)))
        if self.working_dir:
            found.append((WORKING_DIR, self.working_dir))
        return tuple(found)


def split(pairs: tuple[tuple[str, str], ...]) -> tuple[dict[str, str], Code]:
    """The variables of a task, and its code."""
    env = dict(pairs)
    modules = env.pop(PY_MODULES, "")
    return env, Code(env.pop(WORKING_DIR, ""), tuple(modules.split("\n")) if modules else ())


def read(given: Optional[dict[str, Any]]) -> tuple[dict[str, str], Code]:
    """The variables and the code of a runtime_env. Raises NotImplementedError for what rt does not
    have, ValueError and TypeError for what cannot be."""
    if given is not None and not isinstance(given, dict):
        raise TypeError(f"runtime_env must be a dict, not {type(given).__name__}")
    left = dict(given or {})
    env = left.pop("env_vars", None) or {}
    if not isinstance(env, dict):
        raise TypeError(f"runtime_env={{'env_vars': …}} must be a dict, not {type(env).__name__}")
    working_dir = left.pop("working_dir", None)
    modules = left.pop("py_modules", None) or []
    for key in left:
        if key in _NOT_THERE:
            raise NotImplementedError(f"runtime_env={{{key!r}: …}}: {_NOT_THERE[key]}")
        if key not in _HARMLESS:
            from rt._slips import unknown_argument  # Not before: it is large.

            known = ("env_vars", "working_dir", "py_modules", *_HARMLESS)
            raise unknown_argument("runtime_env", key, known)
    if (working_dir or modules) and "RT_EXECUTOR_ID" in os.environ:
        raise NotImplementedError(
            "runtime_env: working_dir and py_modules are of the script: they name directories of "
            "its machine. Give them to rt.init, or to the options of a task that the script starts"
        )
    if isinstance(modules, (str, bytes)) or not hasattr(modules, "__iter__"):
        raise TypeError("runtime_env={'py_modules': …} must be a list of directories and modules")
    code = Code(
        _directory("working_dir", working_dir) if working_dir else "",
        tuple(_module(each) for each in modules),
    )
    return {str(name): str(value) for name, value in env.items()}, code


def _directory(key: str, value: Any) -> str:
    path = _local(key, value)
    if not os.path.isdir(path):
        raise ValueError(f"runtime_env={{{key!r}: {value!r}}}: there is no such directory")
    return path


def _module(value: Any) -> str:
    """The directory of a package, or the file of a module."""
    if isinstance(value, ModuleType):
        file = getattr(value, "__file__", None)
        if file is None:
            raise ValueError(f"runtime_env={{'py_modules': …}}: {value!r} has no file")
        value = os.path.dirname(file) if os.path.basename(file) == "__init__.py" else file
    path = _local("py_modules", value)
    if os.path.isdir(path) or (os.path.isfile(path) and path.endswith(".py")):
        return path
    if os.path.exists(path):
        raise NotImplementedError(
            f"runtime_env={{'py_modules': [{value!r}]}}: rt takes directories and .py files"
        )
    raise ValueError(f"runtime_env={{'py_modules': [{value!r}]}}: there is no such directory")


def _local(key: str, value: Any) -> str:
    """An absolute path on this machine."""
    if not isinstance(value, (str, os.PathLike)):
        raise TypeError(f"runtime_env={{{key!r}: …}}: a path is a text, not {value!r}")
    text = os.fspath(value)
    if "://" in text or text.endswith((".zip", ".whl")):
        raise NotImplementedError(
            f"runtime_env={{{key!r}: {text!r}}}: rt takes directories of this machine"
        )
    return os.path.realpath(os.path.expanduser(text))
