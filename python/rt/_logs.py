"""What the trials of an embedded cluster printed, kept in their results directories.

The cluster's own files go with it, so the worker's logs are copied before: <trial>/stdout and
<trial>/stderr, all attempts one after another. On a cluster that stays, `rt logs` shows them.
"""

from __future__ import annotations

import glob
import os
import re
import shutil

_ATTEMPT = re.compile(r"\.a(\d+)\.r\d+")


def save_logs(cluster_dir: str, trial_id: str, results_dir: str) -> None:
    """Writes the streams of trial "1/0" that are not empty. Raises OSError for a full disk."""
    fence = f"t{trial_id.replace('/', '-')}.a*.r0"
    for stream in ("stdout", "stderr"):
        name = f"{stream}.*.log"
        workers = os.path.join(glob.escape(cluster_dir), "worker-*")
        parts = glob.glob(os.path.join(workers, "logs", fence, name))
        parts += glob.glob(os.path.join(workers, "attempts", fence, name))
        parts = [part for part in parts if os.path.getsize(part)]
        if not parts:
            continue
        with open(os.path.join(results_dir, stream), "wb") as whole:
            for part in sorted(parts, key=_order):
                with open(part, "rb") as file:
                    shutil.copyfileobj(file, whole)


def _order(path: str) -> tuple[int, str]:
    """By attempt, then by segment: their names are offsets of equal width."""
    attempt = _ATTEMPT.search(path)
    return int(attempt.group(1)) if attempt else 0, os.path.basename(path)
