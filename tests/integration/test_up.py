"""`rt up` where something is in a worker's way."""

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


if __name__ == "__main__":
    unittest.main()
