"""What the wheel brings along: the programs, and rt-probe where it was built."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

SETUP = Path(__file__).resolve().parents[2] / "python/setup.py"
PROGRAMS = ("rt", "rt-cli", "rt-head", "rt-shim", "rt-worker")
# Without the words that make a wheel setup.py only defines what it would do.
GATHER = """
import json, runpy, sys
sys.argv = ["setup.py", "--name"]
print(json.dumps(runpy.run_path("setup.py")["gather"]()))
"""


def gathered(folder: Path, programs: tuple[str, ...]) -> tuple[list[str], str]:
    """The programs of a wheel that is made where these are built, and what is said of it."""
    binaries = folder / "bin"
    binaries.mkdir(parents=True)
    for name in programs:
        shutil.copy("/bin/true", binaries / name)  # Any program will do.
    shutil.copy(SETUP, folder)
    done = subprocess.run(
        [sys.executable, "-c", GATHER],
        cwd=folder,
        env={**os.environ, "RT_BIN": str(binaries)},
        capture_output=True,
        text=True,
        check=True,
    )
    listed = dict(json.loads(done.stdout.splitlines()[-1]))
    return [Path(path).name for path in listed["bin"]], done.stderr


def test_the_programs_for_gpus_come_along_where_they_were_built(tmp_path: Path) -> None:
    for_gpus = ("rt-gpu-suspend", "rt-probe")
    files, said = gathered(tmp_path / "with", (*PROGRAMS, *for_gpus))
    assert files == sorted((*PROGRAMS, *for_gpus))
    assert "rt-probe" not in said
    files, said = gathered(tmp_path / "without", PROGRAMS)
    assert files == list(PROGRAMS)
    assert "rt: the wheel has no rt-probe: it was not built (no nvcc)" in said
