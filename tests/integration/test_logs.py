"""Logs that are followed over a restart of the head."""

import subprocess
import sys
import unittest

from harness import BIN, ClusterTest


class FollowTest(ClusterTest):
    def test_followed_logs_continue_with_later_attempts_after_a_restart_of_the_head(self) -> None:
        go = self.cluster.work / "go"
        script = ("import os, sys, time\nattempt = os.environ['RT_ATTEMPT']\n"
                  "print(attempt, 'before', flush=True)\n"
                  f"while not os.path.exists({str(go)!r}): time.sleep(0.02)\n"
                  "print(attempt, 'after', flush=True)\nsys.exit(attempt == '1')\n")
        (self.cluster.work / "again.py").write_text(script)
        number = self.cluster.submit("again", f"experiment: again\nmax_failures: 1\n"
                                     f"command: [{sys.executable}, again.py]\n")
        reader = subprocess.Popen([str(BIN / "rt"), "logs", "-f", f"{number}/0"], text=True,
                                  env=self.cluster.env, stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL)
        assert reader.stdout is not None
        self.assertEqual(reader.stdout.readline(), "1 before\n")
        self.cluster.kill("head")
        go.touch()
        self.assertEqual(reader.communicate(timeout=60),
                         ("1 after\n2 before\n2 after\n", None))
        self.assertEqual(reader.returncode, 0)


if __name__ == "__main__":
    unittest.main()
