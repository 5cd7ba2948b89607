"""Copies the logs of an embedded cluster's trials into their results directories.

The cluster's own files are removed with it, so the worker's logs are copied first: to
<trial>/stdout and <trial>/stderr, all attempts in order. On a permanent cluster, `rt logs` shows
them.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
from typing import Any

_ATTEMPT = re.compile(r"\.a(\d+)\.r\d+")


def names_of(log_to_file: Any) -> tuple[str, str]:
    """The files of standard output and error that log_to_file asks for, and by default.

    Raises ValueError unless it is a bool, a name, or two names.
    """
    if log_to_file in (True, False, None):
        return "stdout", "stderr"
    if isinstance(log_to_file, str):
        log_to_file = (log_to_file, log_to_file)
    two = isinstance(log_to_file, (list, tuple)) and len(log_to_file) == 2
    if not two or not all(isinstance(name, str) and name for name in log_to_file):
        raise ValueError("log_to_file must be True, False, a file's name or two of them")
    if any(os.path.basename(name) != name or name in (".", "..") for name in log_to_file):
        raise ValueError("log_to_file: the files lie in the trial's directory; give their names")
    return log_to_file[0], log_to_file[1]


def save_logs(
    cluster_dir: str,
    trial_id: str,
    results_dir: str,
    names: tuple[str, str] = ("stdout", "stderr"),
    also_empty: bool = False,
) -> None:
    """Writes the streams of trial "1/0"; both may go into one file.

    `also_empty`: also creates the file of a stream without output. Raises OSError for a full disk.
    """
    begun: set[str] = set()
    fence = f"t{trial_id.replace('/', '-')}.a*.r0"
    for stream, name_there in zip(("stdout", "stderr"), names):
        name = f"{stream}.*.log"
        workers = os.path.join(glob.escape(cluster_dir), "worker-*")
        parts = glob.glob(os.path.join(workers, "logs", fence, name))
        parts += glob.glob(os.path.join(workers, "attempts", fence, name))
        parts = [part for part in parts if os.path.getsize(part)]
        if not parts and not also_empty:
            continue
        mode = "ab" if name_there in begun else "wb"
        begun.add(name_there)
        with open(os.path.join(results_dir, name_there), mode) as whole:
            for part in sorted(parts, key=_order):
                with open(part, "rb") as file:
                    shutil.copyfileobj(file, whole)


def _order(path: str) -> tuple[int, str]:
    """Sorts by attempt, then by segment; the names of segments are offsets of equal width."""
    attempt = _ATTEMPT.search(path)
    return int(attempt.group(1)) if attempt else 0, os.path.basename(path)
