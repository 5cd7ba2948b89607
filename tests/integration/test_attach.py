"""A script that is run again after an upgrade, and whose search the new release would refuse."""

import subprocess
import unittest

from harness import BIN, ROOT, ClusterTest, driver_python, wait_until

# A release before this one took the text for a constant.
SCRIPT = """
import os, time
from rt import tune
from rt.tune import _run

follow = _run._follow

def follow_and_go(*args):
    open(os.environ["GO"], "w").close()
    return follow(*args)

if "EARLIER_RELEASE" in os.environ:
    _run.check_space = lambda *ignored: None
else:
    _run._follow = follow_and_go

def objective(config):
    while not os.path.exists(config["go"]):
        time.sleep(0.02)
    tune.report({"loss": 1})

found = tune.run(objective, config={"lr": "tune.uniform(0, 1)", "go": os.environ["GO"]})
print(len(found.trials), "trial")
"""


class AttachTest(ClusterTest):
    workers = 1

    def run_script(self, **env: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [driver_python(), "search.py"], cwd=self.cluster.work, text=True,
            env={**self.cluster.env, "RT_CLUSTER": "it", "RT_BIN": str(BIN),
                 "PYTHONPATH": str(ROOT / "python"), "GO": str(self.cluster.home / "go"), **env},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def experiments(self) -> int:
        return len(self.cluster.experiments())

    def test_a_script_goes_back_to_a_search_that_is_refused_today(self) -> None:
        (self.cluster.work / "search.py").write_text(SCRIPT)
        first = self.run_script(EARLIER_RELEASE="1")
        self.addCleanup(first.communicate)
        self.addCleanup(first.kill)
        wait_until("its search is there", self.experiments)
        first.kill()
        second = self.run_script()
        out, err = second.communicate(timeout=60)
        self.assertEqual(second.returncode, 0, err)
        self.assertIn("1 trial", out)
        third = self.run_script()  # That search is over: this one is new.
        _, err = third.communicate(timeout=60)
        self.assertEqual(third.returncode, 1)
        self.assertIn("search.py:22: lr: 'tune.uniform(0, 1)' is a text, not a distribution", err)
        self.assertEqual(self.experiments(), 1)


if __name__ == "__main__":
    unittest.main()
