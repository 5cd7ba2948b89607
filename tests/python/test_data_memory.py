"""The memory of a pass is bounded; measured as resident memory of a process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
LIMIT_MB = 48


@pytest.mark.parametrize("work", ["read", "map", "shuffle"])
def test_ten_times_the_limit_streams_through(work: str, tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(HERE.parents[1] / "python"),
           "RT_DATA_SPILL_DIR": str(tmp_path)}  # fmt: skip
    argv = [sys.executable, str(HERE / "data_memory.py"), work, str(tmp_path), str(LIMIT_MB)]
    done = subprocess.run(argv, env=env, check=False, capture_output=True, text=True,
                          timeout=240)  # fmt: skip
    assert done.returncode == 0, done.stderr
    print(f"{work}: {done.stdout.strip()} MB of {LIMIT_MB}")
    assert int(done.stdout) <= LIMIT_MB
    assert [each.name for each in tmp_path.iterdir()] == ["t.parquet"]  # No spill is left.
