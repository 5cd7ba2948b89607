"""A trial as its results directory shows it: for Result.from_path, without any cluster."""

from __future__ import annotations

import glob
import json
import os
from typing import Any, Optional

from rt._checkpoint import Checkpoint
from rt._errors import TrialError
from rt._json import numbers


class FileTrial:
    """What Result wants of a trial, read from result.json, params.json and error.txt."""

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(os.path.expanduser(os.fspath(path)))
        if not os.path.isfile(os.path.join(self.path, "params.json")):
            raise ValueError(f"{self.path} is not the results directory of a trial")
        with open(os.path.join(self.path, "params.json"), encoding="utf-8") as file:
            self.config: dict[str, Any] = numbers(json.load(file))
        self.rows: list[dict[str, Any]] = []
        rows = os.path.join(self.path, "result.json")
        if os.path.exists(rows):
            with open(rows, encoding="utf-8") as file:
                self.rows = [numbers(json.loads(line)) for line in file if line.strip()]
        self.last_result = self.last_metrics = self.rows[-1] if self.rows else {}
        self.trial_id = str(self.last_result.get("trial_id") or os.path.basename(self.path))

    @property
    def error(self) -> Optional[TrialError]:
        """What error.txt says, when there is one."""
        try:
            with open(os.path.join(self.path, "error.txt"), encoding="utf-8") as file:
                return TrialError(self.trial_id, "TrialError", "", file.read())
        except FileNotFoundError:
            return None

    @property
    def checkpoints(self) -> list[tuple[Checkpoint, dict[str, Any]]]:
        """The directories checkpoint_000000 and so on; their rows are not known here."""
        return [(Checkpoint(each), {}) for each in sorted(glob.glob(self.path + "/checkpoint_*"))]

    @property
    def checkpoint(self) -> Optional[Checkpoint]:
        """The newest of them."""
        found = self.checkpoints
        return found[-1][0] if found else None
