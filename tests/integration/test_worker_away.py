"""A worker that is stopped in order announces that it comes back; every other end does not."""

import datetime
import signal
import time
import unittest

from harness import wait_until
from own_worker import OwnWorkerCase

AWAY = "away until"


def seconds(stamp: str) -> float:
    """Of an ISO time in UTC."""
    return datetime.datetime.fromisoformat(stamp.replace("Z", "+00:00")).timestamp()


class AwayTest(OwnWorkerCase):
    def start_and_run(self, *flags: str) -> dict[str, tuple[int, int]]:
        self.start_worker(*flags)
        self.number = self.sleepers(2)
        before = self.processes(self.number)
        self.assertEqual([attempt for attempt, _ in before.values()], [1, 1])
        return before

    def outcomes(self) -> list[list[str]]:
        shown = [self.cluster.trial(trial["id"])
                 for trial in self.cluster.trials(self.number)]
        return [[one["outcome"] for one in trial["attempts"]] for trial in shown]

    def test_a_worker_that_comes_back_has_the_same_processes(self) -> None:
        before = self.start_and_run()
        self.stop_worker()
        stopped = time.monotonic()
        node = self.wait_state("SUSPECT")
        self.assertIn(AWAY, node["reason"])
        self.assertIn("its worker was stopped in order", node["reason"])
        self.assertIn("its node far is SUSPECT: away until",
                      self.cluster.rt("trial", "why", f"{self.number}/0").stdout)
        # Longer than a node may be silent otherwise (1.8 s).
        wait_until("three seconds have passed", lambda: time.monotonic() - stopped > 3)
        self.assertEqual(self.wait_state("SUSPECT", "LOST")["state"], "SUSPECT")
        # Nothing new is placed there meanwhile.
        other = self.cluster.submit("other", "experiment: other\ncommand: ['true']\n")
        wait_until("it waits", lambda: self.cluster.trials(other))
        self.assertEqual([one["state"] for one in self.cluster.trials(other)], ["PENDING"])
        self.start_worker()
        self.wait_state("READY")
        self.cluster.wait_experiment(other)
        self.assertEqual(self.processes(self.number), before)
        for _, pid in before.values():
            self.assertTrue(self.lives(pid))
        self.assertEqual(self.outcomes(), [[None], [None]])
        self.cluster.rt("exp", "stop", str(self.number))

    def test_a_worker_that_does_not_come_back_is_lost_at_the_time_that_it_announced(self) -> None:
        self.start_and_run("--away", "4s")
        self.stop_worker()
        until = self.wait_state("SUSPECT")["reason"].split(AWAY + " ")[1].split("Z")[0] + "Z"
        node = self.wait_state("LOST")
        self.assertIn("its worker was stopped, and did not come back in time", node["reason"])
        self.assertLess(seconds(node["last_seen_at"]), seconds(until))
        lost = self.cluster.trial(f"{self.number}/0")["attempts"][0]
        self.assertEqual(lost["outcome"], "LOST")
        self.assertGreaterEqual(seconds(lost["ended_at"]), seconds(until))
        self.assertLess(seconds(lost["ended_at"]), seconds(until) + 10)

    def test_other_ends_announce_nothing(self) -> None:
        for number in (signal.SIGINT, signal.SIGKILL):
            with self.subTest(signal=number):
                self.start_worker()
                self.wait_state("READY")
                self.stop_worker(number)
                node = self.wait_state("LOST")
                self.assertNotIn("stopped", node["reason"])
        with self.subTest("drain"):
            self.start_worker()
            self.wait_state("READY")
            self.cluster.rt("node", "drain", "far")
            self.wait_state("DRAINING")
            self.stop_worker()
            node = self.wait_state("LOST")
            self.assertNotIn("stopped", node["reason"])
        with self.subTest("the machine goes down"):
            # As the unit of the worker notes it (deploy/systemd).
            (self.cluster.home / "machine").write_text("stopping\n")
            self.cluster.env["RUNTIME_DIRECTORY"] = str(self.cluster.home)
            self.start_worker()
            self.cluster.rt("node", "undrain", "far")
            self.wait_state("READY")
            self.stop_worker()
            self.assertNotIn("stopped", self.wait_state("LOST")["reason"])
            self.assertIn("the machine is 'stopping'", self.log())
            (self.cluster.home / "machine").unlink()
        with self.subTest("--away 0"):
            self.start_worker("--away", "0")
            self.wait_state("READY")
            self.stop_worker()
            self.assertNotIn("stopped", self.wait_state("LOST")["reason"])
        self.start_worker()  # The cluster's end looks for its runtime directory.
        self.wait_state("READY")


if __name__ == "__main__":
    unittest.main()
