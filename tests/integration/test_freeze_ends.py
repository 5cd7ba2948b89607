"""What ends a freeze, and what it survives: drains, stops, `rt down`, deaths of daemons and of the
fork server."""

import os
import pathlib
import shutil
import signal
import tempfile
import unittest
from typing import Any

from frozen import Frozen, state_of
from harness import Cluster, ClusterTest, wait_until
from test_standby import Pair


class OneCpuTest(Frozen, ClusterTest):
    workers, cpus = 1, 1

    def is_gone(self, pid: int) -> None:
        wait_until("its process is gone", lambda: state_of(pid) in ("", "Z"))

    def test_the_experiment_of_a_frozen_trial_is_stopped(self) -> None:
        one = self.submit("stopped")
        pid = self.pid_of(self.wait_running(one))
        self.freeze(one)
        self.cluster.rt("exp", "stop", str(one))
        self.assertEqual(self.cluster.wait_experiment(one)["state"], "STOPPED")
        self.is_gone(pid)
        trial = self.trial(one)
        self.assertEqual((trial["state"], trial["frozen"]), ("STOPPED", False))
        self.assertEqual((trial["preemptions"], trial["failures"]), (0, 0))

    def test_a_frozen_trial_that_waits_is_stopped(self) -> None:
        low = self.submit("low")
        pid = self.pid_of(self.wait_running(low))
        high = self.submit("high", suspend=False, more="priority: 5\n")
        self.wait("is frozen", low, lambda t: t["frozen"] and t["state"] == "PENDING")
        self.cluster.rt("trial", "stop", f"{low}/0")
        self.wait("is over", low, lambda t: t["state"] == "STOPPED")
        self.is_gone(pid)
        self.finish(high, "high")

    def test_two_priorities_take_turns_ten_times(self) -> None:
        low = self.submit("slow")
        pid = self.pid_of(self.wait_running(low))
        high = self.submit("fast", more="priority: 5\n")
        first = self.wait_running(high)
        high_pid = self.pid_of(first)
        for _ in range(10):
            frozen = self.wait("is frozen", low, lambda t: t["frozen"])
            self.assertEqual(state_of(pid), "T")
            paused = self.freeze(high)
            self.check_continues(low, pid, frozen)
            self.cluster.rt("trial", "resume", f"{high}/0")
            self.check_continues(high, high_pid, paused)
        self.finish(high, "fast")
        self.check_continues(low, pid, self.trial(low))
        self.finish(low, "slow")

    def test_a_daemon_is_killed_while_a_python_trial_is_frozen(self) -> None:
        # As in test_freeze.py: a node whose daemon is not back in time is LOST.
        for turn in range(3):
            name = f"daemon{turn}"
            one = self.submit_saves(name, asks=False)
            pid = self.pid_of(self.wait_running(one))
            frozen = self.freeze(one)
            daemon = self.cluster.kill("worker-1")
            wait_until("another daemon", lambda: self.cluster.pid("worker-1") != daemon)
            other = self.submit(f"between{turn}", suspend=False)
            self.wait_running(other, 100)
            self.finish(other, f"between{turn}")
            self.cluster.rt("trial", "resume", f"{one}/0")
            trial = self.wait_running(one)
            if trial["preemptions"] > 0:
                self.finish(one, name)
                continue
            trial = self.check_continues(one, pid, frozen)
            self.assertGreater(trial["attempts"][0]["frozen_s"], 2)
            self.finish(one, name)
            return self.check_counts_no_freeze(one)
        self.fail("killed three times, the daemon was never back in time")

    def test_the_fork_server_of_a_frozen_trial_is_killed(self) -> None:
        one, pid, server, frozen = self.freeze_warm()
        # A frozen trial that was forked continues as any other.
        self.cluster.rt("trial", "resume", f"{one}/0")
        self.check_continues(one, pid, frozen)
        frozen = self.freeze(one)
        os.kill(server, signal.SIGKILL)
        wait_until("the server is gone", lambda: state_of(server) in ("", "Z"))
        self.assertEqual(state_of(pid), "T")
        self.cluster.rt("trial", "resume", f"{one}/0")
        self.check_continues(one, pid, frozen)
        self.finish(one, "warm")


class TwoNodesTest(Frozen, ClusterTest):
    workers, cpus = 2, 1

    def test_a_frozen_trial_leaves_a_node_that_drains(self) -> None:
        one = self.submit_saves("moves")
        pid = self.pid_of(self.wait_running(one, 5))
        frozen = self.freeze(one)
        saved = frozen["checkpoints"][-1]
        (node,) = frozen["node_ids"]
        self.cluster.rt("node", "drain", str(node))
        self.addCleanup(self.cluster.rt, "node", "undrain", str(node), check=False)
        ended = self.wait("is not frozen", one, lambda t: not t["frozen"])
        self.assertEqual((ended["state"], ended["failures"]), ("PAUSED", 0))
        self.assertEqual(ended["attempts"][0]["outcome"], "PREEMPTED")
        self.assertIn("it was frozen, and node", ended["attempts"][0]["reason"])
        wait_until("its process is gone", lambda: state_of(pid) in ("", "Z"))
        self.cluster.rt("trial", "resume", f"{one}/0")
        trial = self.wait_running(one, int(saved["step"]))
        self.assertEqual(trial["attempt"], 2)
        self.assertNotEqual(trial["node_ids"], [node])
        self.finish(one, "moves")
        rows = self.cluster.rows(self.cluster.experiment(one), self.trial(one))
        numbers = [row["number"] for row in rows]
        self.assertEqual(numbers, list(range(1, len(numbers) + 1)))  # From its checkpoint.


class DownTest(Frozen, unittest.TestCase):
    def test_down_leaves_nothing_of_frozen_trials(self) -> None:
        self.cluster = Cluster(workers=2, cpus=1)
        self.addCleanup(self.cluster.close)
        self.cluster.up()
        pids = []
        for name in ("plain", "python"):
            one = self.submit(name) if name == "plain" else self.submit_saves(name)
            pids.append(self.pid_of(self.wait_running(one)))
            self.freeze(one)
        self.assertEqual([state_of(pid) for pid in pids], ["T", "T"])
        self.cluster.rt("down", str(self.cluster.yaml), "--no-download")
        self.assertEqual([state_of(pid) for pid in pids], ["", ""])
        self.assertEqual(self.cluster.leftovers(), {})


class FailoverTest(Frozen, unittest.TestCase):
    def test_another_head_takes_over_while_a_trial_is_frozen(self) -> None:
        home = pathlib.Path(tempfile.mkdtemp(prefix="rt-standby-"))
        self.addCleanup(shutil.rmtree, home, ignore_errors=True)
        pair = Pair({"ship": {"to": str(home / "store"), "mode": "sync"},
                     "key_file": str(home / "key")})
        self.cluster: Any = pair
        self.addCleanup(pair.close)
        pair.up()
        one = self.submit("over")
        pid = self.pid_of(self.wait_running(one))
        frozen = self.freeze(one)
        pair.fail_over("a", "b")
        self.assertTrue(self.trial(one)["frozen"])
        self.assertEqual(state_of(pid), "T")
        self.cluster.rt("trial", "resume", f"{one}/0")
        self.check_continues(one, pid, frozen)
        self.finish(one, "over")


if __name__ == "__main__":
    unittest.main()
