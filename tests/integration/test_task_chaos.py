"""A short round of tests/chaos/tasks.py: results stay right while processes are killed."""

from __future__ import annotations

import os
import subprocess
import unittest

from harness import BIN, ROOT, driver_python


class TaskChaosTest(unittest.TestCase):
    def test_results_are_right_while_executors_and_the_worker_are_killed(self) -> None:
        argv = [driver_python(), str(ROOT / "tests/chaos/tasks.py"), "--tasks=2000", "--kills=5"]
        found = subprocess.run(argv, env={**os.environ, "RT_BIN": str(BIN)}, text=True,
                               stdout=subprocess.PIPE, timeout=400)  # fmt: skip
        self.assertEqual(found.returncode, 0, found.stdout)
        self.assertRegex(found.stdout, "killed {'")


if __name__ == "__main__":
    unittest.main()
