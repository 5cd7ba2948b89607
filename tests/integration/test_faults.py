"""Parties that are stopped for a while instead of killed, a full disk, a second head."""

import errno
import os
import pathlib
import signal
import subprocess
import time
import unittest

from checks import Search
from full_disk import FullDiskCase
from harness import BIN, Cluster, ClusterTest, wait_until


def stop(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)
    stat = pathlib.Path(f"/proc/{pid}/stat")
    wait_until("it stopped", lambda: stat.read_text().rsplit(")", 1)[1].split()[0] == "T")


def go_on_after(pid: int, span_s: float) -> None:
    """SIGCONT, `span_s` seconds from now."""
    end = time.monotonic() + span_s
    wait_until("the time is over", lambda: time.monotonic() >= end)
    os.kill(pid, signal.SIGCONT)


class StoppedTest(ClusterTest):
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
            shown = self.cluster.trial(trial["id"])
            self.assertEqual([a["outcome"] for a in shown["attempts"]], ["LOST", "SUCCEEDED"])
            self.assertEqual(shown["preemptions"], 1)

    def runs(self, trial: str) -> bool:
        """Whether its first attempt has a process."""
        return any(f"RT_TRIAL_ID={trial}\0" in text and "RT_ATTEMPT=1\0" in text
                   for text in self.cluster.leftovers().values())


class SecondHeadTest(unittest.TestCase):
    def test_a_second_head_is_refused(self) -> None:
        cluster = Cluster(workers=1)
        self.addCleanup(cluster.close)
        cluster.up()
        folder = cluster.home / "home/clusters/it/head"
        before = cluster.json("status")["cluster"]
        done = subprocess.run([str(BIN / "rt-head"), "--state-dir", str(folder)], text=True,
                              capture_output=True, timeout=60, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 1)
        self.assertIn("another head runs here", done.stderr)
        self.assertIn(f"in use by process {cluster.pid('head')} (rt-head)", done.stderr)
        after = cluster.json("status")["cluster"]
        for key in ("epoch", "started_at", "head_address"):
            self.assertEqual(after[key], before[key])


class FullDiskTest(FullDiskCase):
    def fill(self) -> pathlib.Path:
        path = self.disk / "ballast"
        with open(path, "wb", buffering=0) as ballast:
            for size in (1 << 20, 4096, 1):
                try:
                    while True:
                        ballast.write(b"0" * size)
                except OSError as error:
                    self.assertEqual(error.errno, errno.ENOSPC)
        return path

    def test_the_journals_disk_is_full(self) -> None:
        search = Search(self.cluster, "full", verdict_every=3, checkpoint_every=4)
        search.submit()
        search.wait_done(3)
        pid = self.cluster.pid("head")
        ballast = self.fill()
        wait_until("the head has ended", lambda: not pathlib.Path(f"/proc/{pid}").exists())
        log = (self.disk / "log").read_text()
        self.assertIn("cannot be written", log)
        self.assertIn("Free some space there, then start it again.", log)
        done = self.cluster.rt("status", check=False)
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("does not come up", done.stderr)
        self.assertIn("free some space there", done.stderr.lower())
        ballast.unlink()
        search.check()


if __name__ == "__main__":
    unittest.main()
