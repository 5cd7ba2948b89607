"""Elastic trials: they grow when the cluster is idle and give way to whoever waits."""

import json
import pathlib
import sys
import unittest
from typing import Any

from harness import wait_until
from rank_script import RankScriptTest
from test_resize import RANK

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRACE = ROOT / "tests/data/elastic/workloads/workload-6.csv"

# Runs until a file is there.
PLAIN = """
import pathlib, sys, time

files = pathlib.Path(sys.argv[1])
(files / "plain").touch()
while not (files / "end-plain").exists():
    time.sleep(0.02)
"""


class ElasticRanksTest(RankScriptTest):
    script = RANK
    cpus = 2

    def sizes(self, number: int) -> list[int]:
        return [len(one["members"]) for one in self.show(number)["attempts"]]

    def wait_size(self, number: int, size: int) -> None:
        wait_until(f"trial {number}/0 has {size} ranks",
                   lambda: self.sizes(number)[-1:] == [size])

    def test_grows_on_an_idle_cluster_and_shrinks_for_a_plain_trial(self) -> None:
        number = self.submit_ranks("elastic", "{cpu: 1, ranks: [1, 4]}")
        self.wait_size(number, 4)  # Not before its first rank has saved.
        show = self.show(number)
        self.assertEqual(show["resources"]["ranks_bounds"], [1, 4])
        refused = self.cluster.rt("trial", "resize", f"{number}/0", "--ranks", "5", check=False)
        self.assertIn("it has 1 to 4 ranks, not 5", refused.stderr)
        (self.cluster.work / "plain.py").write_text(PLAIN)
        plain = self.cluster.submit("plain", f"""
experiment: plain
command: [{sys.executable}, plain.py, {self.files}]
resources: {{cpu: 1}}
""")
        # Not after half a minute, but at once.
        wait_until("the plain trial runs", lambda: (self.files / "plain").exists())
        self.assertEqual(self.sizes(number)[:3], [1, 4, 3])
        (self.files / "end-plain").touch()
        self.cluster.wait_experiment(plain)
        trial = self.show(number)
        self.assertEqual((trial["failures"], trial["preemptions"]), (0, 0))
        self.cluster.rt("trial", "stop", f"{number}/0")
        experiment = self.cluster.wait_experiment(number)
        # Every step counts once, whatever the sizes.
        rows = self.cluster.rows(experiment, self.show(number))
        self.assertEqual([row["step"] for row in rows], list(range(1, len(rows) + 1)))

    def test_a_trace_is_replayed_without_a_cluster(self) -> None:
        plan: Any = json.loads(
            self.cluster.rt("plan", "--elastic", str(TRACE), "-o", "json").stdout)
        policies = {one["policy"]: one for one in plan["policies"]}
        self.assertEqual(set(policies), {"costate", "equal"})
        self.assertLess(policies["costate"]["mean_completion_s"],
                        0.8 * policies["equal"]["mean_completion_s"])
        self.assertEqual(len(policies["costate"]["jobs"]), 160)
        refused = self.cluster.rt("plan", "--elastic", str(TRACE), "--nodes", "0", check=False)
        self.assertEqual(refused.returncode, 2)


if __name__ == "__main__":
    unittest.main()
