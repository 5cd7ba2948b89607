"""Checkpoints that count before the store has them: on the node's disk, or on another node as well.

The pushes of some workers stand still (a failpoint), so that only what nodes hold is there."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import unittest
from typing import Any

from harness import BIN, Cluster, processes_of, wait_until

HERE = pathlib.Path(__file__).resolve().parent
NO_PUSH = "worker.held.before_push=stop:600000"


class HeldTest(unittest.TestCase):
    def setUp(self) -> None:
        self.cluster = Cluster(workers=1, cpus=1)
        self.addCleanup(self.cluster.close)
        self.cluster.up()
        self.workers: dict[str, subprocess.Popen[bytes]] = {}
        self.notes = self.cluster.work / "notes"
        self.notes.mkdir()

    def start(self, name: str, failpoints: str = "") -> int:
        """A worker with what the trials want; its node's id. Again: its next daemon."""
        folder = self.cluster.home / name
        folder.mkdir(exist_ok=True)
        token = folder.with_suffix(".token")
        token.write_text(self.cluster.rt("token", "create", "--role", "worker").stdout)
        address = (self.cluster.home / "home/clusters/it/head/address").read_text().strip()
        with open(folder.with_suffix(".log"), "a") as log:
            self.workers[name] = subprocess.Popen(
                [str(BIN / "rt-worker"), "--head", address, "--token-file", str(token),
                 "--state-dir", str(folder), "--name", name, "--resources", "cpu=1,spot=1",
                 "--notices", "none"],
                env={**self.cluster.env, "RT_FAILPOINTS": failpoints}, stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, start_new_session=True)
        self.addCleanup(self.end, self.workers[name])

        def ready() -> Any:
            return next((n for n in self.cluster.node_items()
                         if n["name"] == name and n["state"] == "READY"), None)
        return int(wait_until(f"{name} is READY", ready)["id"])

    @staticmethod
    def end(worker: subprocess.Popen[bytes]) -> None:
        if worker.poll() is None:
            worker.send_signal(signal.SIGKILL)
        worker.wait(timeout=20)

    def kill_node(self, name: str) -> None:
        """The daemon and all that it started, at once, as when the machine is gone."""
        self.end(self.workers[name])
        for pid in processes_of(self.cluster.home / name):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def train(self, where: str, steps: int) -> str:
        """A trial that saves at every step; its id."""
        program = [sys.executable, str(HERE / "trial_program.py"), str(self.notes), str(steps),
                   "0.2", "1"]
        number = self.cluster.submit("train", json.dumps({
            "experiment": "train", "command": program, "resources": {"cpu": 1, "spot": 1},
            "space": {"k": {"grid": [1]}}, "checkpoints": {"durable_after": where}}))
        return f"{number}/0"

    def told(self, attempt: int, what: str) -> list[int]:
        """The steps that the trial's attempt noted so."""
        found = []
        for path in self.notes.glob(f"*.{attempt}"):
            for line in path.read_text().splitlines():
                found += [step for key, step in json.loads(line).items() if key == what]
        return found

    def show(self, trial: str) -> Any:
        return self.cluster.trial(trial)

    def wait_saved(self, count: int, attempt: int = 1) -> int:
        """The newest step that is committed, once there are so many."""
        return max(wait_until(f"{count} checkpoints are committed", lambda: (
            lambda told: told if len(told) >= count else None)(self.told(attempt, "committed"))))

    def wait_over(self, trial: str) -> Any:
        def over() -> Any:
            shown = self.show(trial)
            return shown if shown["state"] not in ("PENDING", "RUNNING") else None
        shown = wait_until(f"trial {trial} is over", over, lasting=True)
        self.assertEqual(shown["state"], "COMPLETED", self.logs())
        self.assertEqual(shown["failures"], 0)
        return shown

    def wait_start(self, attempt: int) -> int:
        return wait_until(f"attempt {attempt} starts", lambda: self.told(attempt, "start"))[0]

    def logs(self) -> str:
        own = [path.read_text(errors="replace")[-3000:]
               for path in self.cluster.home.glob("spot-*.log")]
        return "\n".join(own) + self.cluster.logs()

    def durabilities(self, trial: str) -> set[str]:
        return {one["durability"] for one in self.show(trial)["checkpoints"]}

    def test_a_disk_is_enough_and_the_next_daemon_pushes(self) -> None:
        node = self.start("spot-1", NO_PUSH)
        trial = self.train("local", 12)
        self.wait_saved(3)
        newest = self.show(trial)["checkpoints"][-1]
        self.assertEqual((newest["durability"], newest["held_by"]), ("LOCAL", [node]))
        self.assertGreaterEqual(self.cluster.node("spot-1")["held_checkpoints"], 3)
        self.assertIn("checkpoints that the store does not have",
                      self.cluster.rt("node", "why", "spot-1").stdout)
        self.end(self.workers["spot-1"])
        self.start("spot-1")
        shown = self.wait_over(trial)
        self.assertEqual(shown["attempt"], 1)
        # Its end is told once the store has them all.
        self.assertEqual({one["durability"] for one in shown["checkpoints"]}, {"DURABLE"})
        self.assertEqual([one["step"] for one in shown["checkpoints"]], list(range(1, 13)))
        wait_until("nothing is held any more", lambda: not list(
            (self.cluster.home / "spot-1/checkpoints").glob("*.held")))

    def test_a_disk_that_is_lost_takes_its_checkpoints_along(self) -> None:
        self.start("spot-1", NO_PUSH)
        trial = self.train("local", 8)
        self.wait_saved(3)
        self.kill_node("spot-1")
        self.start("spot-2")
        self.assertEqual(self.wait_start(2), 0)
        shown = self.wait_over(trial)
        self.assertEqual(shown["preemptions"], 1)
        self.assertEqual({one["durability"] for one in shown["checkpoints"]}, {"DURABLE"})

    def test_a_peer_has_it_when_the_node_is_gone(self) -> None:
        first = self.start("spot-1", NO_PUSH)
        # The one that trains is the first that is there; the other then holds for it.
        trial = self.train("peer", 14)
        wait_until("it trains", lambda: self.told(1, "start"))
        second = self.start("spot-2")
        self.wait_saved(3)

        def held() -> Any:
            newest = self.show(trial)["checkpoints"][-1]
            return newest if newest["durability"] == "PEER" else None
        holders = wait_until("another node holds one", held)["held_by"]
        self.assertEqual(holders[0], first)
        local = self.cluster.node("worker-1")["id"]
        self.assertIn(holders[1], (second, local))
        self.kill_node("spot-1")
        newest = max(self.told(1, "committed"))
        self.assertGreaterEqual(self.wait_start(2), newest, "what was committed is not lost")
        shown = self.wait_over(trial)
        self.assertEqual({one["durability"] for one in shown["checkpoints"]}, {"DURABLE"})

    def test_who_goes_on_elsewhere_fetches_from_who_holds(self) -> None:
        self.start("spot-1", NO_PUSH)
        trial = self.train("local", 14)
        self.wait_saved(3)
        self.cluster.rt("trial", "pause", trial)
        wait_until("it is paused", lambda: self.show(trial)["state"] == "PAUSED")
        newest = max(self.told(1, "committed"))
        self.assertIn("LOCAL", self.durabilities(trial))
        self.cluster.rt("node", "drain", "spot-1")
        self.start("spot-2")
        self.cluster.kill("head")  # Who has what is asked of the workers again.
        wait_until("the head is back",
                   lambda: self.cluster.rt("status", check=False).returncode == 0)
        self.cluster.rt("trial", "resume", trial)
        self.assertGreaterEqual(self.wait_start(2), newest)
        shown = self.wait_over(trial)
        self.assertEqual(shown["preemptions"], 0)


if __name__ == "__main__":
    unittest.main()
