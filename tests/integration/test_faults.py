"""Parties that are stopped for a while instead of killed, a full disk, a second head."""

import os
import pathlib
import signal
import subprocess
import time
import unittest

from checks import Search
from harness import BIN, Cluster, wait_until


def stop(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)
    stat = pathlib.Path(f"/proc/{pid}/stat")
    wait_until("it stopped", lambda: stat.read_text().rsplit(")", 1)[1].split()[0] == "T")


def go_on_after(pid: int, span_s: float) -> None:
    """SIGCONT, `span_s` seconds from now."""
    end = time.monotonic() + span_s
    wait_until("the time is over", lambda: time.monotonic() >= end)
    os.kill(pid, signal.SIGCONT)


class StoppedTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.cluster = Cluster()
        cls.cluster.up()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.cluster.close()

    def search(self, **options) -> Search:
        search = Search(self.cluster, self.id().rsplit(".test_", 1)[1], verdict_every=3, **options)
        search.submit()
        search.wait_done(3)
        return search

    def test_head_sleeps_three_seconds(self) -> None:
        search = self.search()
        pid = self.cluster.pid("head")
        stop(pid)
        go_on_after(pid, 3)
        search.check()

    def test_worker_sleeps_one_second(self) -> None:
        search = self.search()
        pid = self.cluster.pid("worker-1")
        stop(pid)
        go_on_after(pid, 1)
        search.check()

    def test_worker_sleeps_five_seconds(self) -> None:
        search = self.search(checkpoint_every=2)
        pid = self.cluster.pid("worker-1")
        stop(pid)
        # What runs there now is hit: while it says nothing, no place on it comes free.
        node = self.cluster.node("worker-1")["id"]
        hit = [trial for trial in self.cluster.trials(search.number) if trial["node_ids"] == [node]
               and trial["state"] in ("STARTING", "RUNNING")]
        self.assertTrue(hit)
        go_on_after(pid, 5)
        wait_until("the stale processes are gone",
                   lambda: not any(self.runs(trial["id"]) for trial in hit))
        search.check(restarted=[trial["id"] for trial in hit])
        for trial in hit:
            shown = self.cluster.json("trial", "show", trial["id"])
            self.assertEqual([a["outcome"] for a in shown["attempts"]], ["LOST", "SUCCEEDED"])
            self.assertEqual(shown["preemptions"], 1)

    def runs(self, trial: str) -> bool:
        """Whether its first attempt has a process."""
        return any(f"RT_TRIAL_ID={trial}\0" in text and "RT_ATTEMPT=1\0" in text
                   for text in self.cluster.leftovers().values())


if __name__ == "__main__":
    unittest.main()
