"""`rt logs` of a worker that somebody started by hand."""

import subprocess
import unittest

from harness import BIN, wait_until
from own_worker import OwnWorkerCase


class WorkerLogTest(OwnWorkerCase):
    def test_a_worker_that_does_not_log_to_a_file_is_an_error_that_says_where_its_log_is(
            self) -> None:
        self.start_worker(log=subprocess.DEVNULL)
        self.wait_state("READY")
        for flags in ([], ["-f"]):
            with self.subTest(flags):
                done = self.cluster.rt("logs", *flags, "far", check=False, timeout=30)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn("does not log to a file", done.stderr)
                self.assertIn("journalctl", done.stderr)

    def test_a_log_in_a_file_is_followed(self) -> None:
        self.start_worker()
        self.wait_state("READY")
        self.assertIn("serves", self.cluster.rt("logs", "far").stdout)
        out = self.cluster.home / "followed"
        with open(out, "wb") as file:
            reader = subprocess.Popen([str(BIN / "rt"), "logs", "-f", "far"], stdout=file,
                                      stderr=file, stdin=subprocess.DEVNULL,
                                      env=self.cluster.env, cwd=self.cluster.work)
        self.addCleanup(reader.wait)
        self.addCleanup(reader.kill)
        wait_until("it reads what is there", lambda: b"serves" in out.read_bytes())
        with open(self.folder / "log", "ab") as log:
            log.write(b"one more line\n")
        wait_until("it follows", lambda: b"one more line" in out.read_bytes())
        self.assertIsNone(reader.poll())


if __name__ == "__main__":
    unittest.main()
