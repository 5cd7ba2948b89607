"""Result files of searches with very many metrics."""

import datetime
import sys
import unittest

from harness import ClusterTest, wait_until

# Each row has metrics that no row had before, up to what a trial may report.
WIDE = """
import json, pathlib, time
for row in range(50):
    metrics = {f"layer{i}": 0.5 for i in range(4_900)} | {f"row{row}_{i}": 1 for i in range(95)}
    print("RT_REPORT " + json.dumps(metrics), flush=True)
pathlib.Path(CAN_END).parent.joinpath("reported").touch()
while not pathlib.Path(CAN_END).exists():
    time.sleep(0.02)
"""
SMALL = """
experiment: small
command: [echo, 'RT_REPORT {"loss": 1}']
num_samples: 4
metric: loss
mode: min
"""


def moment(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


class SinksTest(ClusterTest):
    workers, cpus = 1, 4

    def test_a_search_with_very_many_metrics_holds_up_no_other(self) -> None:
        work = self.cluster.work
        (work / "wide.py").write_text(WIDE.replace("CAN_END", repr(str(work / "can_end"))))
        wide = self.cluster.submit(
            "wide", f"experiment: wide\ncommand: [{sys.executable}, wide.py]")
        wait_until("the wide trial has reported", (work / "reported").exists)
        small = self.cluster.submit("small", SMALL)
        done = self.cluster.wait_experiment(small)
        self.assertEqual(done["state"], "COMPLETED")
        last = max(moment(trial["ended_at"]) for trial in self.cluster.trials(small))
        self.assertLess(moment(done["ended_at"]) - last, datetime.timedelta(seconds=10))
        (work / "can_end").touch()
        done = self.cluster.wait_experiment(wide)
        self.assertEqual((done["state"], done["results_problem"]), ("COMPLETED", None))
        rows = self.cluster.rows(done, self.cluster.trials(wide)[0])
        self.assertEqual([row["training_iteration"] for row in rows], list(range(1, 51)))
        self.assertEqual(rows[-1]["row49_94"], 1)

    def test_too_many_metrics_are_refused_with_the_bound(self) -> None:
        (self.cluster.work / "many.sh").write_text(
            "rt report $(seq -f m%.0f=1 60000) && exit 0\nexit 3\n")
        number = self.cluster.submit("many", "experiment: many\ncommand: [sh, many.sh]")
        self.assertEqual(self.cluster.wait_experiment(number)["state"], "FAILED")
        (trial,) = self.cluster.trials(number)
        self.assertEqual(trial["reports"], 0)
        why = "the row has 60000 metrics (m1, m2, m3, ...); at most 5000 are allowed"
        self.assertIn(why, self.cluster.rt("logs", f"{number}/0").stderr)
        self.assertIn(why, self.cluster.rt("trial", "why", f"{number}/0").stdout)

    def test_a_python_trial_that_reports_too_many_metrics_fails_with_the_bound(self) -> None:
        (self.cluster.work / "driver.py").write_text("""
from rt import tune
def objective(config):
    tune.report({"loss": 1.0})
    tune.report({f"m{i}": i for i in range(60_000)})
tune.Tuner(objective, run_config=tune.RunConfig(name="python")).fit()
""")
        self.cluster.rt("submit", "driver.py", check=False)
        (found,) = [item for item in self.cluster.experiments()
                    if item["name"] == "python"]
        (trial,) = self.cluster.trials(found["id"])
        self.assertEqual((trial["state"], trial["reports"]), ("FAILED", 1))
        error = self.cluster.trial(trial["id"])["error"]
        self.assertEqual(error["class"], "ValueError")
        self.assertIn("metrics (m0, m1, m2, ...); at most 5000 are allowed", error["message"])


if __name__ == "__main__":
    unittest.main()
