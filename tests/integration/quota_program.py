"""A trial that saves checkpoints of random bytes, and reports until it is told to end.

    quota_program.py NOTES CHECKPOINTS BYTES

Only the trial with k = 0 saves. The file NOTES/end ends them all.
"""

from __future__ import annotations

import json
import os
import pathlib
import sys
import time
from typing import Any

from trial_program import Wire


def main() -> None:
    notes, checkpoints, size = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    wire = Wire()
    params = json.loads(pathlib.Path(os.environ["RT_CONFIG"]).read_text())
    step = 0
    while not (notes / "end").exists():
        step += 1
        message: dict[str, Any] = {"op": "report", "seq": step, "metrics": {"i": step}}
        if params["k"] == 0 and step <= checkpoints:
            folder = pathlib.Path(os.environ["RT_TRIAL_DIR"]) / f"checkpoint-{step}"
            folder.mkdir()
            (folder / "step").write_text(str(step))
            (folder / "weights").write_bytes(os.urandom(size))
            message["checkpoint"] = str(folder)
        wire.report(message)
        time.sleep(0.05)


if __name__ == "__main__":
    main()
