"""`rt up` where something is in a worker's way, and `rt down` of clusters that are not there."""

import os
import pathlib
import time
import unittest

from harness import Cluster, state_hash


class UpTest(unittest.TestCase):
    def setUp(self) -> None:
        self.cluster = Cluster(workers=1)
        self.addCleanup(self.cluster.close)
        self.worker = self.cluster.home / "home/clusters/it/worker-1"

    def test_a_name_that_somebody_else_took_does_not_keep_it_down(self) -> None:
        derived = pathlib.Path(f"/tmp/rt-{os.getuid()}-{state_hash(self.worker)}")
        derived.mkdir()
        self.addCleanup(derived.rmdir)
        derived.chmod(0o777)  # As good as another user's: anybody may enter it.
        self.cluster.rt("up", str(self.cluster.yaml))
        sockets = self.cluster.runtime_dir(self.worker)
        self.assertNotEqual(sockets, derived)
        self.assertEqual(sockets.stat().st_mode & 0o777, 0o700)

    def test_the_reason_of_a_worker_that_does_not_start(self) -> None:
        (self.worker / "incarnation").mkdir(parents=True)
        began = time.monotonic()
        done = self.cluster.rt("up", str(self.cluster.yaml), check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("worker-1 does not start", done.stderr)
        self.assertIn("incarnation", done.stderr)
        self.assertLess(time.monotonic() - began, 30)

    def test_down_of_a_cluster_that_nobody_knows_names_those_that_are_known(self) -> None:
        self.cluster.up()
        for words in (["down", "ti"], ["down", "-c", "ti"], ["-c", "ti", "status"]):
            done = self.cluster.rt(*words, check=False)
            self.assertEqual(done.returncode, 4, done.stderr)
            self.assertIn("there is no cluster 'ti'; known: it (up)\n", done.stderr)
        done = self.cluster.rt("-c", "itt", "status", check=False)
        self.assertIn("did you mean 'it'?", done.stderr)
        never = self.cluster.work / "never.yaml"
        never.write_text("cluster_name: never\nprovider: {type: local}\n")
        self.cluster.rt("down", str(never))
        self.cluster.rt("down", "it")
        done = self.cluster.rt("down", "ti", check=False)
        self.assertIn("known: it (archived)\n", done.stderr)
        done = self.cluster.rt("down", "it", "--purge")
        self.assertEqual(done.stderr, "cluster 'it' is down; its history was deleted\n")
        self.assertEqual(self.cluster.rt("down", "it", check=False).returncode, 4)

    def test_a_silent_job_is_not_lost_after_an_archive(self) -> None:
        self.cluster.up()
        self.cluster.rt("submit", "true")
        self.cluster.rt("down", str(self.cluster.yaml))
        self.cluster.up()
        done = self.cluster.rt("logs", "j1")
        self.assertEqual((done.stdout, done.stderr), ("", ""))
        done = self.cluster.rt("down", str(self.cluster.yaml))
        self.assertNotIn("lost", done.stderr)


if __name__ == "__main__":
    unittest.main()
