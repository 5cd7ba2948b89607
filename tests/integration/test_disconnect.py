"""A worker that loses its head: what runs goes on, and is ended after --disconnect-stop."""

import pathlib
import signal
import unittest

from checks import Search
from harness import wait_until
from own_worker import OwnWorkerCase


class DisconnectTest(OwnWorkerCase):
    """The head stands still (SIGSTOP): connections stay, and nothing is answered."""

    def test_what_runs_is_ended_and_goes_on_from_its_spool(self) -> None:
        self.start_worker("--disconnect-stop", "2s")
        search = Search(self.cluster, "away", trials=2, steps=120, pause_s=0.05,
                        checkpoint_every=10)
        search.submit()
        wait_until("both have a checkpoint", lambda: len(search.running()) == 2 and all(
            story.committed for trial in search.running() for story in search.stories(trial)))
        pids = [trial["pid"] for trial in search.running()]
        head = self.cluster.kill("head", signal.SIGSTOP)
        wait_until("what ran is ended", lambda: not any(
            pathlib.Path(f"/proc/{pid}").exists() for pid in pids), 60)
        self.assertIn("no head has answered for 2 s (--disconnect-stop", self.log())
        self.assertTrue(list((self.folder / "attempts").glob("*/spool")))
        self.cluster.kill("head", signal.SIGCONT)
        self.assertEqual(self.cluster.pid("head"), head)
        search.check(restarted=None)
        for trial in self.cluster.trials(search.number):
            shown = self.cluster.trial(trial["id"])
            self.assertEqual([one["outcome"] for one in shown["attempts"]],
                             ["LOST", "SUCCEEDED"])
            self.assertEqual(shown["preemptions"], 1)

    def test_a_dead_man_ends_what_runs_and_then_itself(self) -> None:
        self.start_worker("--disconnect-stop", "0", "--dead-man", "3s")
        number = self.sleepers(2)
        pids = [pid for _, pid in self.processes(number).values()]
        self.cluster.kill("head", signal.SIGSTOP)
        self.addCleanup(self.cluster.kill, "head", signal.SIGCONT)
        self.assertEqual(self.worker.wait(timeout=60), 3)
        self.assertFalse([pid for pid in pids if self.lives(pid)])
        self.assertIn("no head has answered for 3 s (--dead-man)", self.log())
        self.cluster.kill("head", signal.SIGCONT)
        # The end of the test looks for the directory of its sockets. The head may call the node
        # READY before it has noticed that the first worker is gone.
        self.start_worker()
        wait_until("the worker serves",
                   lambda: all(path.is_dir() for path in self.cluster.runtime_dirs()))
        self.wait_state("READY")

    def test_a_short_absence_ends_nothing(self) -> None:
        self.start_worker()
        search = Search(self.cluster, "short", trials=2, steps=30, pause_s=0.05)
        search.submit()
        wait_until("both run", lambda: len(search.running()) == 2)
        self.cluster.kill("head", signal.SIGSTOP)
        wait_until("they go on", lambda: all(
            len(story.told) > 15 for k in range(2)
            for story in search.stories({"id": f"{search.number}/{k}"})))
        self.cluster.kill("head", signal.SIGCONT)
        search.check()


if __name__ == "__main__":
    unittest.main()
