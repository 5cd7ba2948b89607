"""A cluster with the trials that a test makes up, behind a fake `rt bridge`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def trial(number: int, **more: Any) -> dict[str, Any]:
    metrics = more.pop("metrics", None)
    return {
        "id": f"1/{number}", "name": f"t_1_0000{number}", "state": "COMPLETED",
        "params": more.pop("params", {}), "step": 1, "metrics": metrics,
        "reports": 1 if metrics else 0, "started_at": "2026-01-01T00:00:00.000Z", **more,
    }  # fmt: skip


class World:
    """The fake bridge's script, world and log."""

    def __init__(self, tmp_path: Path) -> None:
        self.binary = tmp_path / "rt"
        fake = Path(__file__).with_name("fake_bridge.py")
        self.binary.write_text(f'#!/bin/sh\nexec {sys.executable} {fake} "$@"\n')
        self.binary.chmod(0o755)
        self.file = tmp_path / "world.json"
        self.log = tmp_path / "log"
        self.env = {
            "RT_BIN": str(tmp_path), "FAKE_WORLD": str(self.file), "FAKE_LOG": str(self.log),
        }  # fmt: skip

    def set(self, *trials: dict[str, Any], **more: Any) -> None:
        self.file.write_text(json.dumps({"trials": trials, **more}))

    def asked(self, op: str) -> list[dict[str, Any]]:
        if not self.log.exists():
            return []
        lines = [json.loads(line) for line in self.log.read_text().splitlines()]
        return [line for line in lines if line["op"] == op]

    def spec(self, index: int = -1) -> dict[str, Any]:
        return dict(self.asked("experiment_create")[index]["spec"])
