"""A worker's loop that hangs in one attempt: the daemon restarts without that attempt."""

import signal
import time
import unittest

from harness import wait_until
from own_worker import OwnWorkerCase

HANG_S = 4  # --loop-hang; the node says so after half of it.
REASON = "the worker's loop hung for "


class HangTest(OwnWorkerCase):
    def test_the_attempt_that_it_hangs_in_fails_and_the_others_live_on(self) -> None:
        self.start_worker("--loop-hang", f"{HANG_S}s",
                          failpoints="worker.output.before_search=stop:600000")
        others = self.sleepers(2)
        before = self.processes(others)
        culprit = self.cluster.submit(
            "culprit", "experiment: culprit\ncommand: [sleep, '1001']\n"
                       "report_regex: '(loss)=([0-9.]+)'\n")
        node = self.wait_state("SUSPECT")
        self.assertIn("the loop of its worker does not move", node["reason"])
        self.assertIn(f"t{culprit}-0.a1.r0 (output)", node["reason"])
        self.assertIn("the loop of its worker does not move",
                      self.cluster.rt("trial", "why", f"{others}/0").stdout)
        self.assertIn("the loop of its worker does not move",
                      self.cluster.rt("node", "why", "far").stdout)
        self.assertEqual(self.cluster.wait_experiment(culprit)["state"], "FAILED")
        shown = self.cluster.trial(f"{culprit}/0")
        self.assertEqual(shown["state"], "FAILED")
        self.assertEqual([one["outcome"] for one in shown["attempts"]], ["FAILED"])
        self.assertIn(REASON, shown["attempts"][0]["reason"])
        self.assertIn("(output)", shown["attempts"][0]["reason"])
        self.assertIsNone(self.worker.poll())  # The same process runs the new daemon.
        self.wait_state("READY")
        wait_until("both run", lambda: len(self.processes(others)) == 2)
        self.assertEqual(self.processes(others), before)
        self.assertTrue(all(self.lives(pid) for _, pid in before.values()))
        pid = shown["attempts"][0]["members"][0]["pid"]
        wait_until("its program was ended", lambda: not self.lives(pid))
        self.assertEqual(self.log().count("the daemon restarts"), 1)
        # The new daemon takes work, and hands on what it is told.
        after = self.cluster.submit("after", "experiment: after\ncommand: ['true']\n")
        self.assertEqual(self.cluster.wait_experiment(after)["state"], "COMPLETED")
        self.cluster.rt("exp", "stop", str(others))

    def test_a_daemon_that_stood_still_has_not_hung(self) -> None:
        self.start_worker("--loop-hang", "1s")
        others = self.sleepers(1)
        self.worker.send_signal(signal.SIGSTOP)
        stopped = time.monotonic()
        wait_until("three times the bound", lambda: time.monotonic() - stopped > 3)
        self.worker.send_signal(signal.SIGCONT)
        self.wait_state("READY")
        # The new attempt runs, and the loop has ended the process of the lost one.
        wait_until("it runs again", lambda: self.processes(others).get(f"{others}/0", (0,))[0] == 2)
        self.assertNotIn("the daemon restarts", self.log())
        self.cluster.rt("exp", "stop", str(others))


if __name__ == "__main__":
    unittest.main()
