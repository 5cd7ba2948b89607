"""A trial that grows beyond the memory it asked for is ended, and told so."""

import json
import sys
import unittest

from harness import Cluster, wait_until
from script import Place

GROW = """
import sys, time
kept = []
while True:
    kept.append(bytearray(8 << 20))
    time.sleep(0.01)
"""
ASKED = "the 100 MiB of memory that it asked for"


class MemoryTest(unittest.TestCase):
    def test_a_program_its_child_and_one_that_keeps_within(self) -> None:
        cluster = Cluster(workers=1)
        self.addCleanup(cluster.close)
        cluster.up()
        (cluster.work / "grow.py").write_text(GROW)
        child = "import subprocess, sys; subprocess.run([sys.executable, 'grow.py'])"
        within = "x = bytearray(40 << 20); import time; time.sleep(1)"
        reasons = {}
        for name, command in (("itself", ["grow.py"]), ("child", ["-c", child]),
                              ("within", ["-c", within])):
            number = cluster.submit(name, f"experiment: {name}\nnum_samples: 1\n"
                                    f"command: {json.dumps([sys.executable, *command])}\n"
                                    "resources: {cpu: 1, memory: 100MiB}\n")
            cluster.wait_experiment(number)
            trial = cluster.trial(f"{number}/0")
            attempt = trial["attempts"][0]
            reasons[name] = (trial["state"], attempt["signal"], trial["failures"],
                             trial["reason"] or "")
        cluster.wait_no_trials()
        for name in ("itself", "child"):
            self.assertEqual(reasons[name][:3], ("FAILED", 9, 1), reasons)
            self.assertIn(ASKED, reasons[name][3])
        self.assertEqual(reasons["within"][:3], ("COMPLETED", None, 0), reasons)

    def test_a_forked_trial(self) -> None:
        place = Place()
        self.addCleanup(place.close)
        done = place.run("""
from rt import tune
import time
def grows(config):
    kept = []
    while config["grow"]:
        kept.append(bytearray(8 << 20))
        time.sleep(0.01)
    tune.report({"a": 1})
grid = {"grow": tune.grid_search([True, False])}
results = tune.Tuner(tune.with_resources(grows, {"cpu": 1, "memory": 100 * 2**20}),
                     param_space=grid).fit()
print([each.error is None for each in results])
""")
        self.assertEqual(done.stdout.splitlines()[-1], "[False, True]", done.stdout + done.stderr)
        self.assertIn(ASKED, done.stdout + done.stderr)
        wait_until("nothing is left", lambda: not place.processes())


if __name__ == "__main__":
    unittest.main()
