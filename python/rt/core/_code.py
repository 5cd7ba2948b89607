"""The code of runtime_env on its way to executors: directories are stored once for a session, by
digest, as `rt submit` stores a working directory. All here may take long."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from typing import Any

from rt import _driver
from rt._runtime_env import MODULES_VARIABLE, Code


class StoredCode:
    """The manifests of the directories that a session has stored."""

    def __init__(self, driver: _driver.Driver) -> None:
        self._driver = driver
        self._manifests: dict[tuple[str, ...], str] = {}
        self._storing = threading.Lock()

    def add_to(self, spec: dict[str, Any], code: Code) -> None:
        """What an executor needs to have the code. Raises RtError, ValueError and OSError."""
        if code.working_dir:
            spec.pop("cwd", None)
            spec["bundle"] = self._stored(("working_dir", code.working_dir))
        if code.py_modules:
            manifest = self._stored(("py_modules", *code.py_modules))
            spec["inputs"] = [
                *spec.get("inputs", []),
                {"manifest": manifest, "env": MODULES_VARIABLE},
            ]

    def _stored(self, what: tuple[str, ...]) -> str:
        with self._storing:
            if what not in self._manifests:
                kind, *paths = what
                is_tree = kind == "working_dir"
                self._manifests[what] = self._push(paths[0]) if is_tree else self._gather(paths)
            return self._manifests[what]

    def _push(self, path: str) -> str:
        reply = self._driver.call("blob_push_dir", path=path, honour_ignore_files=True)
        return str(reply["manifest"])

    def _gather(self, paths: list[str]) -> str:
        """All modules in one directory, which becomes a part of sys.path."""
        directory = tempfile.mkdtemp(prefix="rt-modules-")
        try:
            for path in paths:
                name = os.path.basename(path)
                to = os.path.join(directory, name)
                if os.path.exists(to):
                    raise ValueError(f"runtime_env: two py_modules are called {name!r}")
                if os.path.isdir(path):
                    ignored = shutil.ignore_patterns("__pycache__", ".git")
                    shutil.copytree(path, to, symlinks=True, ignore=ignored)
                else:
                    shutil.copy2(path, to)
            return self._driver.push_dir(directory)
        finally:
            shutil.rmtree(directory, ignore_errors=True)
