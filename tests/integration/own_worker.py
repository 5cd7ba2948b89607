"""A cluster whose only worker a test starts by hand, so that it can stop it and start it again."""

from __future__ import annotations

import pathlib
import signal
import subprocess
import unittest
from typing import Any, Optional

from harness import BIN, Cluster, wait_until


class OwnWorkerCase(unittest.TestCase):
    """`self.folder` is the worker's state directory, `self.worker` its newest daemon."""

    def setUp(self) -> None:
        self.cluster = Cluster(workers=0)
        self.addCleanup(self.cluster.close)
        self.cluster.up()
        self.token = self.cluster.home / "token"
        self.token.write_text(self.cluster.rt("token", "create", "--role", "worker").stdout)
        self.head = (self.cluster.home / "home/clusters/it/head/address").read_text().strip()
        self.folder = self.cluster.home / "home/clusters/it/worker-9"
        self.folder.mkdir()

    def start_worker(self, *flags: str, failpoints: str = "", log: Optional[int] = None) -> None:
        """`log`: where its output goes instead of `self.folder`/log."""
        env = {**self.cluster.env, "RT_FAILPOINTS": failpoints}
        with open(self.folder / "log", "ab") as file:
            out = file if log is None else log
            self.worker = subprocess.Popen(
                [str(BIN / "rt-worker"), "--head", self.head, "--name", "far", "--state-dir",
                 str(self.folder), "--token-file", str(self.token), "--resources", "cpu=4",
                 *flags], stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=env)
        self.addCleanup(self.worker.wait)
        self.addCleanup(self.worker.kill)

    def stop_worker(self, number: int = signal.SIGTERM) -> None:
        self.worker.send_signal(number)
        self.worker.wait(timeout=30)

    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    def node(self) -> Any:
        return self.cluster.node("far")

    def wait_state(self, *states: str, deadline_s: float = 60) -> Any:
        """Waits until the node is in one of the states, and returns it."""
        def there() -> Any:
            items = self.cluster.node_items()
            return next((one for one in items
                         if one["name"] == "far" and one["state"] in states), None)
        return wait_until(f"the node is {' or '.join(states)}", there, deadline_s)

    def sleepers(self, count: int, name: str = "long") -> int:
        """Submits a search of trials that run until they are stopped; returns its number."""
        number = self.cluster.submit(
            name, f"experiment: {name}\ncommand: [sleep, '1000']\n"
                  f"space: {{k: {{grid: {list(range(count))}}}}}\n")
        wait_until("all run", lambda: len(self.processes(number)) == count)
        return number

    def processes(self, number: int) -> dict[str, tuple[int, int]]:
        """Of the trials that run: their attempts and their programs' pids."""
        found = {}
        for trial in self.cluster.trials(number):
            shown = self.cluster.trial(trial["id"])
            if shown["state"] == "RUNNING" and shown["attempts"][-1]["members"][0]["pid"]:
                pid = shown["attempts"][-1]["members"][0]["pid"]
                found[trial["id"]] = (shown["attempt"], pid)
        return found

    @staticmethod
    def lives(pid: int) -> bool:
        try:
            stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return False
        return stat.rsplit(")", 1)[1].split()[0] not in "ZX"
