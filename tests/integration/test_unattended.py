"""A head whose configuration says how long it waits for its client (docs/adr/0032)."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import unittest
import unittest.mock
from typing import Any

from harness import BIN, wait_until

MISSED = "the work is over, and no client has called"


class UnattendedTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="rt-it-")
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.state, self.end_file = self.root / "head", self.root / "end-machine"

    def start(self, unattended: dict[str, Any]) -> subprocess.Popen[bytes]:
        (self.root / "head.json").write_text(json.dumps({"unattended": unattended}))
        with open(self.root / "log", "ab") as log:
            head = subprocess.Popen([BIN / "rt-head", "--state-dir", self.state, "--config",
                                     self.root / "head.json"], stdout=log, stderr=log)
        self.addCleanup(head.wait)
        self.addCleanup(head.kill)
        return head

    def log(self) -> str:
        return (self.root / "log").read_text()

    def missed_at(self) -> int:
        try:
            return int((self.state / "unattended").read_text())
        except FileNotFoundError:
            return 0

    def test_a_head_that_starts_anew_does_not_begin_to_count_again(self) -> None:
        rules = {"lease_s": 1, "keep_s": 4, "end_file": str(self.end_file)}
        head = self.start(rules)
        missed_at = wait_until("the client is missed", self.missed_at)
        os.kill(head.pid, signal.SIGKILL)
        head.wait()
        head = self.start(rules)
        wait_until("it is missed again", lambda: self.log().count(MISSED) == 2)
        self.assertLess(abs(self.missed_at() - missed_at), 500)
        self.assertEqual(head.wait(timeout=60), 0, self.log())
        self.assertTrue(self.end_file.exists(), self.log())

    def test_a_client_that_calls_again_is_not_missed(self) -> None:
        self.start({"lease_s": 1, "keep_s": 3600})
        wait_until("the client is missed", self.missed_at)
        env = {**os.environ, "RT_HOME": str(self.root / "home")}
        subprocess.run([BIN / "rt", "context", "add", "far", "--from", self.state / "admin"],
                       env=env, check=True, capture_output=True)
        # The process that ends a cluster for its client renews, when it knows a cloud of that name.
        (self.root / "home/clusters/far/cloud.json").write_text("{}")
        reading, writing = os.pipe()
        self.addCleanup(os.close, writing)
        watcher = subprocess.Popen(["sh", "-c", f'exec "$0" __teardown cluster far 3<&{reading}',
                                    BIN / "rt"], env=env, pass_fds=[reading])
        try:
            os.close(reading)
            wait_until("the client is there", lambda: not self.missed_at())
        finally:
            watcher.kill()
            watcher.wait()
        wait_until("the client is missed again", self.missed_at)

    def test_the_work_of_a_client_that_has_vanished_is_stopped_if_that_was_asked(self) -> None:
        self.start({"lease_s": 1, "keep_s": 3600, "stop_work": True})
        wait_until("the head is up", self.pid)
        env = {**os.environ, "RT_HOME": str(self.root / "home")}

        def rt(*words: str) -> str:
            return subprocess.run([BIN / "rt", *words], env=env, check=True, cwd=self.root,
                                  capture_output=True, text=True).stdout

        rt("context", "add", "far", "--from", str(self.state / "admin"))
        (self.root / "never.yaml").write_text("experiment: never\nnum_samples: 2\n"
                                              "command: [sleep, '3600']\n")
        rt("-c", "far", "submit", "--detach", "never.yaml")  # No worker: its trials wait.
        wait_until("its end", lambda: json.loads(
            rt("-c", "far", "exp", "show", "1", "-o", "json"))["state"] == "STOPPED")
        self.assertTrue(self.missed_at())
        self.assertIn("the work is stopped, and no client has called", self.log())

    def keep(self, dead_max_ms: int) -> subprocess.Popen[bytes]:
        """What starts the head again next to it, as the agent of a head's machine starts it."""
        (self.root / "keeper").mkdir(exist_ok=True)
        with open(self.root / "log", "ab") as log:
            keeper = subprocess.Popen(
                [BIN / "rt", "__keep-head", self.root / "keeper", self.end_file, str(dead_max_ms),
                 "--listen", "127.0.0.1:0"], stdout=log, stderr=log)
        self.addCleanup(keeper.wait)
        self.addCleanup(keeper.kill)
        return keeper

    def end_head(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            if self.pid():
                os.kill(self.pid(), signal.SIGKILL)

    def pid(self) -> int:
        try:
            return int((self.state / "pid").read_text().split()[0])
        except (FileNotFoundError, IndexError):
            return 0

    def test_a_head_that_died_is_started_again_and_one_that_ended_is_not(self) -> None:
        (self.root / "config.json").write_text("{}")
        first = self.start({"lease_s": 3600, "keep_s": 3600})
        wait_until("the head is up", self.pid)
        self.addCleanup(self.end_head)  # The keeper ends before it.
        keeper = self.keep(60_000)
        for dead in (first.pid, 0):
            pid = dead or self.pid()
            os.kill(pid, signal.SIGKILL)
            if dead:
                first.wait()
            wait_until("another head is up", lambda: self.pid() not in (0, pid))
        os.kill(self.pid(), signal.SIGTERM)
        self.assertEqual(keeper.wait(timeout=60), 0, self.log())
        self.assertFalse(self.pid() or self.end_file.exists(), self.log())

    def test_a_head_whose_port_is_dead_is_started_again(self) -> None:
        (self.root / "config.json").write_text("{}")
        faults = {"RT_PROBE_MS": "500", "RT_FAILPOINTS": "head.port.before_accept=stop:600000@4"}
        with unittest.mock.patch.dict(os.environ, faults):
            first = self.start({"lease_s": 3600, "keep_s": 3600})
        wait_until("the head is up", self.pid)
        self.addCleanup(self.end_head)
        self.keep(60_000)
        self.assertEqual(first.wait(timeout=60), 1, self.log())
        wait_until("another head is up", lambda: self.pid() not in (0, first.pid))

    def test_a_machine_whose_head_cannot_be_started_ends(self) -> None:
        (self.root / "config.json").write_text("{")  # No head can read it.
        self.state.mkdir()
        ended = subprocess.Popen(["true"])
        ended.wait()
        (self.state / "pid").write_text(f"{ended.pid} 1\n")
        self.assertEqual(self.keep(1_000).wait(timeout=60), 0, self.log())
        self.assertTrue(self.end_file.exists(), self.log())
        self.assertIn("rt-head ended", self.log())

    def test_what_is_wrong_is_said(self) -> None:
        head = self.start({"lease_s": 0, "keep_s": 4})
        self.assertEqual(head.wait(timeout=60), 1)
        self.assertIn("unattended: lease_s is 1 s or more", self.log())


if __name__ == "__main__":
    unittest.main()
