"""kill -9 of each party while a search runs: nothing is lost, nobody else is restarted."""

import os
import pathlib
import signal
import sys
import unittest

from harness import Cluster, wait_until

TRIALS, STEPS = 40, 8
COUNT = r"""
import json, sys, time
for i in range(int(sys.argv[1])):
    print("RT_REPORT " + json.dumps({"i": i, "k": int(sys.argv[2])}), flush=True)
    time.sleep(0.1)
"""


class KillTest(unittest.TestCase):
    def setUp(self) -> None:
        self.cluster = Cluster()
        self.cluster.up()
        (self.cluster.work / "count.py").write_text(COUNT)
        self.number = self.cluster.submit("search", f"""
experiment: search
command: [{sys.executable}, count.py, "{STEPS}", "${{k}}"]
space: {{k: {{grid: {list(range(TRIALS))}}}}}
""")
        wait_until("some trials ran", lambda: self.done() >= 3)

    def tearDown(self) -> None:
        self.cluster.close()

    def done(self) -> int:
        return self.cluster.experiment(self.number)["trials_by_state"]["COMPLETED"]

    def check(self, may_restart: bool = False) -> None:
        experiment = self.cluster.wait_experiment(self.number)
        self.assertEqual(experiment["trials_by_state"]["COMPLETED"], TRIALS)
        for trial in self.cluster.trials(self.number):
            self.assertEqual(trial["state"], "COMPLETED")
            self.assertEqual(trial["failures"], 0)
            if not may_restart:
                self.assertEqual(trial["attempt"], 1, trial)
            rows = self.cluster.rows(experiment, trial)
            self.assertEqual([r["i"] for r in rows], list(range(STEPS)), trial)
            self.assertEqual({r["k"] for r in rows}, {trial["params"]["k"]})

    def test_head(self) -> None:
        self.cluster.kill("head")
        self.check()

    def test_worker_daemon(self) -> None:
        self.cluster.kill("worker-1")
        self.check()

    def test_trial(self) -> None:
        trial = next(t for t in self.cluster.trials(self.number) if t["state"] == "RUNNING")
        pid = self.cluster.json("trial", "show", trial["id"])["attempts"][0]["members"][0]["pid"]
        os.kill(pid, signal.SIGKILL)
        experiment = self.cluster.wait_experiment(self.number)
        self.assertEqual(experiment["trials_by_state"]["COMPLETED"], TRIALS - 1)
        hit = self.cluster.json("trial", "show", trial["id"])
        self.assertEqual(hit["state"], "FAILED")
        self.assertEqual(hit["attempts"][0]["signal"], 9)

    def test_sleeping_head_restarts_nothing(self) -> None:
        pid = self.cluster.kill("head", signal.SIGSTOP)
        wait_stopped(pid)
        end = now() + 3
        wait_until("three seconds have passed", lambda: now() > end)
        os.kill(pid, signal.SIGCONT)
        self.check()

    def test_worker_with_all_its_trials(self) -> None:
        pids = [self.cluster.pid("worker-1")]
        root = str(self.cluster.home / "home/clusters/it/worker-1")
        for pid, text in self.cluster.leftovers().items():
            if "rt-shim" in text and root in text:
                pids.append(pid)
        for trial in self.cluster.trials(self.number):
            if trial["state"] == "RUNNING" and trial["node_ids"] == [1]:
                shown = self.cluster.json("trial", "show", trial["id"])
                pids += [m["pid"] for m in shown["attempts"][-1]["members"] if m["pid"]]
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.check(may_restart=True)


def now() -> float:
    import time
    return time.monotonic()


def wait_stopped(pid: int) -> None:
    path = pathlib.Path(f"/proc/{pid}/stat")
    wait_until("it stopped", lambda: path.read_text().split()[2] == "T")


if __name__ == "__main__":
    unittest.main()
