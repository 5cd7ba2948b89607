"""The package as users have it: `pip install ./python` in an environment of its own.

Kept in build/installed for as long as its sources and the programs stay as they are; tests that run
side by side share it. What else the environment has (numpy, scikit-learn) is build/venv's.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys

from harness import BIN, ROOT

FOLDER = ROOT / "build/installed"
PROGRAMS = ("rt", "rt-cli", "rt-head", "rt-worker", "rt-shim")
FOR_GPUS = ("rt-probe", "rt-gpu-suspend")


def _state() -> str:
    """Changes with every file that the wheel is made of."""
    sources = [path for path in sorted((ROOT / "python").glob("**/*"))
               if path.suffix in (".py", ".toml", ".typed") and "build" not in path.parts]
    digest = hashlib.sha256(sys.version.encode())
    for_gpus = [path for path in (BIN / name for name in FOR_GPUS) if path.exists()]
    for path in [*sources, *(BIN / name for name in PROGRAMS), *for_gpus]:
        known = path.stat()
        digest.update(f"{path} {known.st_size} {known.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def _run(*argv: str | pathlib.Path) -> None:
    env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run([str(each) for each in argv], env={**env, "RT_BIN": str(BIN)},
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{argv}\n{done.stdout}{done.stderr}")


def _make(libraries: pathlib.Path) -> None:
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    pip = (libraries / "bin/python", "-m", "pip", "--quiet", "--disable-pip-version-check")
    _run(*pip, "wheel", "--no-deps", ROOT / "python", "-w", FOLDER)
    _run(libraries / "bin/python", "-m", "venv", "--without-pip", FOLDER / "venv")
    _run(*pip, "--python", FOLDER / "venv/bin/python", "install", "--no-deps",
         *FOLDER.glob("rt-*.whl"))
    (place,) = (libraries / "lib").glob("python*/site-packages")
    (own,) = (FOLDER / "venv/lib").glob("python*/site-packages")
    (own / "libraries.pth").write_text(f"{place}\n")


def _ensure(libraries: pathlib.Path) -> None:
    (ROOT / "build").mkdir(exist_ok=True)
    with open(ROOT / "build/installed.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        note = FOLDER / "state"
        state = f"{libraries} {_state()}"
        if not note.exists() or note.read_text() != state:
            _make(libraries)
            note.write_text(state)


def wheel(libraries: pathlib.Path = ROOT / "build/venv") -> pathlib.Path:
    """The wheel of this tree."""
    _ensure(libraries)
    (found,) = FOLDER.glob("rt-*.whl")
    return found


def python(libraries: pathlib.Path = ROOT / "build/venv") -> pathlib.Path:
    """The interpreter of an environment with the wheel, and what the environment `libraries` has.

    A process that uses it sets neither PYTHONPATH nor RT_BIN.
    """
    _ensure(libraries)
    return FOLDER / "venv/bin/python"
