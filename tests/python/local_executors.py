"""A driver without a head: executors are started as processes of this machine, at once."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any, Optional

from rt._errors import RtError

PACKAGE = str(Path(__file__).resolve().parents[2] / "python")


class LocalExecutors:
    """Answers executor_request, executor_wait, executor_release and cluster_status."""

    embedded = False
    embedded_dir = ""
    inside_job = False
    id = "local"

    def __init__(self, cpus: int = 2) -> None:
        self.cpus = cpus
        self.directory = tempfile.mkdtemp(prefix="rt-executors-")
        self._changed = threading.Condition()
        self._next = 0
        self._seen = 0
        self._closed = False
        self.others_wait = False
        self._changes: dict[int, int] = {}  # The newest value of _seen, by executor.
        self.executors: dict[int, dict[str, Any]] = {}
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        self._waiting: list[tuple[int, dict[str, Any]]] = []

    def call(self, op: str, **fields: Any) -> Any:
        """One operation."""
        found: Any = getattr(self, op)(**fields)
        return found

    def cluster_status(self) -> Any:
        """Its resources."""
        return {"resources": {"cpu": {"total": self.cpus, "used": 0}}}

    def executor_request(self, session: str, key: str, count: int, spec: dict[str, Any]) -> Any:
        """New executors; those beyond the cpus wait."""
        if spec["resources"].get("cpu", 0) > self.cpus:
            raise ValueError("no node could ever have so many cpus")
        numbers = []
        with self._changed:
            for _ in range(count):
                self._next += 1
                numbers.append(self._next)
                self._waiting.append((self._next, spec))
                self.executors[self._next] = self._item(self._next, "PENDING", "")
            self._place()
        return {"executors": numbers}

    def _item(self, number: int, state: str, reason: str) -> dict[str, Any]:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot_id = file.read().strip()
        node = {"id": "1", "name": "here", "boot_id": boot_id}
        return {"id": number, "state": state, "reason": reason, "node": node,
                "run_dir": f"{self.directory}/{number}"}  # fmt: skip

    def _used(self) -> float:
        return sum(
            self._specs[number]["resources"].get("cpu", 0)
            for number, item in self.executors.items()
            if item["state"] == "RUNNING"
        )

    _specs: dict[int, dict[str, Any]] = {}

    def _place(self) -> None:
        while self._waiting:
            number, spec = self._waiting[0]
            if self._used() + spec["resources"].get("cpu", 0) > self.cpus:
                return
            self._waiting.pop(0)
            self._specs = {**self._specs, number: spec}
            trial = f"{self.directory}/{number}/trial"
            os.makedirs(trial, mode=0o700)
            config = f"{self.directory}/{number}/config.json"
            with open(config, "w", encoding="utf-8") as file:
                json.dump(spec["params"], file)
            env = {**os.environ, **spec["env"], "RT_TRIAL_DIR": trial, "RT_CONFIG": config}
            env["PYTHONPATH"] = PACKAGE + os.pathsep + env.get("PYTHONPATH", "")
            env["RT_EXECUTOR_ID"] = str(number)
            process = subprocess.Popen([sys.executable, *spec["argv"][1:]], env=env)
            self.processes[number] = process
            self._change(number, "RUNNING", "")
            threading.Thread(target=self._reap, args=(number, process), daemon=True).start()

    def _change(self, number: int, state: str, reason: str) -> None:
        self.executors[number] = self._item(number, state, reason)
        self._seen += 1
        self._changes[number] = self._seen
        self._changed.notify_all()

    def _reap(self, number: int, process: subprocess.Popen[bytes]) -> None:
        code = process.wait()
        with self._changed:
            self._change(number, "ENDED", f"killed by signal {-code}" if code < 0 else "")
            self._place()

    def executor_wait(
        self, session: str, seen: Optional[int], hold_ms: int, yields: bool = False,
        only_changes: bool = False,
    ) -> Any:  # fmt: skip
        """What there is or has changed, once that differs from `seen`, or somebody else waits."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._closed or self._seen != seen or (yields and self.others_wait),
                hold_ms / 1000,
            )
            if self._closed:
                raise RtError("closed", "UNAVAILABLE")
            return {
                "seen": self._seen,
                "wanted": yields and self.others_wait,
                "whole": seen is None or not only_changes,
                "executors": [
                    item
                    for number, item in self.executors.items()
                    if seen is None or not only_changes or self._changes.get(number, 0) > seen
                ],
            }

    def let_others_wait(self, others_wait: bool) -> None:
        """Whether somebody else waits for capacity."""
        with self._changed:
            self.others_wait = others_wait
            self._changed.notify_all()

    def executor_release(
        self, session: str, reason: str, executors: Optional[list[int]] = None
    ) -> Any:
        """Ends executors."""
        with self._changed:
            for number in list(self.executors) if executors is None else executors:
                process = self.processes.get(number)
                if process is not None and process.poll() is None:
                    process.terminate()
                elif process is None and self.executors[number]["state"] == "PENDING":
                    self._waiting = [each for each in self._waiting if each[0] != number]
                    self._change(number, "ENDED", "released")
            self._place()
            return {}

    def actor_get(self, name: str) -> Any:
        """There are no detached actors."""
        raise RtError(f"there is no detached actor {name!r}", "NOT_FOUND")

    def push_dir(self, path: str) -> str:
        """Not needed."""
        raise NotImplementedError

    def close(self) -> None:
        """Ends all."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for process in list(self.processes.values()):
            if process.poll() is None:
                process.terminate()
            process.wait(10)
        shutil.rmtree(self.directory, ignore_errors=True)
