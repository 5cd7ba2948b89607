"""Packs a trainable, with the sources of its modules, for rt/_attempt.py to unpack."""

from __future__ import annotations

import glob
import os
import shutil
import site
import sys
import sysconfig
from types import ModuleType
from typing import Any, Optional

import cloudpickle

from rt import _pickle
from rt._checkpoint import RESTORE_DIR, scratch_dir
from rt._sources import Sources

PAYLOAD_FILE = "trainable.pkl"
TUNER_FILE = "tuner.pkl"
TUNER_BYTES_MAX = 64 << 20  # The tuner is stored once per search.
PACKAGE_PARENT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def _installed_roots() -> list[str]:
    """The directories in which every machine has its packages."""
    paths = sysconfig.get_paths()
    roots = [paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    roots += [*site.getsitepackages(), site.getusersitepackages()]
    return [os.path.realpath(root) + os.sep for root in roots]


def _real_path(path: str, folders: dict[str, str]) -> str:
    """As os.path.realpath, but it resolves each folder once. PyTorch alone has 2 000 modules."""
    if os.path.islink(path):
        return os.path.realpath(path)
    folder, name = os.path.split(path)
    if folder not in folders:
        folders[folder] = os.path.realpath(folder)
    return os.path.join(folders[folder], name)


def _user_modules() -> list[ModuleType]:
    """The imported modules that a trial's machine may lack: neither installed nor rt's."""
    roots = tuple(_installed_roots())
    own = os.path.join(PACKAGE_PARENT, "rt") + os.sep
    targets: dict[str, bool] = {}
    folders: dict[str, str] = {}
    found = []
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if name == "__main__" or not isinstance(path, str) or not isinstance(module, ModuleType):
            continue
        real = _real_path(path, folders)
        if path.startswith(own) or not real.endswith(".py"):
            continue
        if real.startswith(roots) or "-packages" + os.sep in real:
            continue
        if getattr(module, "__name__", None) == name and not _is_target(name, path, targets):
            found.append(module)
    return found


def _is_target(name: str, path: str, known: dict[str, bool]) -> bool:
    """Whether `pip install --target` installed the module."""
    levels = name.count(".") + (os.path.basename(path) == "__init__.py")
    root = os.path.dirname(path)
    for _ in range(levels):
        root = os.path.dirname(root)
    if root not in known:
        known[root] = bool(glob.glob(os.path.join(glob.escape(root), "*.dist-info")))
    return known[root]


def read_sources() -> Sources:
    """The sources of the user's modules; unreadable ones are left to the trial's import path."""
    found: Sources = {}
    for module in _user_modules():
        path = os.path.abspath(str(module.__file__))
        try:
            with open(path, "rb") as file:
                found[module.__name__] = (path, file.read().decode("utf-8-sig"))
        except (OSError, UnicodeDecodeError):
            continue
    for name, (path, _) in list(found.items()):
        folder = os.path.dirname(path)
        if os.path.basename(path) == "__init__.py":
            folder = os.path.dirname(folder)
        while "." in name:  # Packages without a file of their own.
            name = name.rpartition(".")[0]
            if getattr(sys.modules.get(name), "__file__", None) is None:
                found.setdefault(name, (folder, None))
            folder = os.path.dirname(folder)
    return found


def dumps_by_value(value: Any) -> bytes:
    """Pickles `value` with the code of the user's own modules. ValueError gives the reason."""
    registered = []
    for module in _user_modules():
        try:
            cloudpickle.register_pickle_by_value(module)
            registered.append(module)
        except (ValueError, KeyError):
            continue
    try:
        return dumps(value)
    finally:
        for module in registered:
            cloudpickle.unregister_pickle_by_value(module)


def dumps(value: Any) -> bytes:
    """Pickles `value`. Raises ValueError with the reason when it cannot."""
    try:
        return _pickle.dumps(value)
    except Exception as error:
        name = getattr(value, "__name__", type(value).__name__)
        raise ValueError(
            f"{name} cannot be sent to the trials: {error} (open what cannot be pickled - files, "
            "locks, connections - inside the trainable)"
        ) from error


def write_payload(
    payload: dict[str, Any],
    tuner: Optional[dict[str, Any]] = None,
    restore: Optional[str] = None,
) -> str:
    """Writes `payload` into a fresh directory, and returns the directory.

    The directory also contains `tuner`, which Tuner.restore needs, unless it cannot be pickled, and
    a copy of the checkpoint `restore`, if any.
    """
    packed = dict(payload)
    for key in (
        "trainable",
        "values",
        "kept_config",
    ):  # Unpickled once their sources are installed.
        if packed.get(key) is not None:
            packed[key] = dumps(packed[key])
    packed["sources"] = read_sources()
    directory = scratch_dir("rt-trainable-")
    with open(os.path.join(directory, PAYLOAD_FILE), "wb") as file:
        file.write(_pickle.dumps(packed))
    if restore is not None:
        shutil.copytree(restore, os.path.join(directory, RESTORE_DIR))
    try:
        kept = dumps_by_value(tuner)
    except ValueError:
        return directory  # Tuner.restore reports that when it is called.
    if len(kept) <= TUNER_BYTES_MAX:
        with open(os.path.join(directory, TUNER_FILE), "wb") as file:
            file.write(kept)
    return directory


def import_path(outside_job: bool) -> str:
    """PYTHONPATH for the trials: rt's directory unless rt is installed, and the driver's path."""
    parts = []
    if not any((PACKAGE_PARENT + os.sep).startswith(root) for root in _installed_roots()):
        parts.append(PACKAGE_PARENT)
    if outside_job and sys.path:
        parts.append(os.path.abspath(sys.path[0] or os.getcwd()))
    parts += [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    return os.pathsep.join(dict.fromkeys(parts))
