"""The programs for other machines, packed once for all tests: whoever needs their archive first
takes seconds for it, and every new RT_HOME and every new head would."""

from __future__ import annotations

import fcntl
import os
import pathlib
import shutil
import subprocess

from harness import BIN, ROOT, state_hash

PACK = BIN / "pack_programs"  # Not in an installation.


def put_programs(parent: pathlib.Path) -> None:
    """Into the directory `programs` of an RT_HOME, or of a head's state directory, to be made."""
    if not PACK.exists():
        return
    packed = ROOT / "build/packed" / state_hash(BIN)
    packed.mkdir(parents=True, exist_ok=True)
    folder = parent / "programs"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(packed.with_suffix(".lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # Tests run side by side.
        subprocess.run([str(PACK), str(packed)], check=True)  # At once where nothing has changed.
        for path in packed.iterdir():
            try:
                os.link(path, folder / path.name)
            except OSError:  # Another file system.
                shutil.copy2(path, folder)
