"""What an experiment's policies make of real programs: retry rules by exit code and by log, the
breaker of a search that is broken, a watchdog."""

import json
import os
import pathlib
import subprocess
import sys
import unittest

from harness import ROOT, ClusterTest, driver_python, wait_until

FAILS = """
import os, sys
attempt = int(os.environ["RT_ATTEMPT"])
if attempt == 1:
    print("step 1\\nRuntimeError: CUDA error: device-side assert", file=sys.stderr)
    sys.exit(1)
if attempt == 2:
    sys.exit(7)
if attempt == 3:
    os.kill(os.getpid(), 9)
sys.exit(int(sys.argv[1]))
"""

AGREES = """
import json, os, sys, threading

place = sys.argv[1]
number = os.environ["RT_TRIAL_ID"].split("/")[1]
if number != "0":
    threading.Event().wait()
for step in range(1, 9):
    if step == 3:  # The results agree once, and the head is killed.
        open(os.path.join(place, "agrees"), "w").close()
        with open(os.path.join(place, "go")) as pipe:
            pipe.read()
    print("RT_REPORT " + json.dumps({"loss": 1.0}), flush=True)
threading.Event().wait()
"""

RETRY = """
retry:
  - {log: "CUDA error|NCCL", then: exclude_node}
  - {exit_code: [7, 137], then: retry}
  - {exit_code: 9, then: fail}
"""

HANGS = """
import os, threading, time
from rt import train, tune

def stuck_in_the_third_epoch():
    threading.Event().wait()

def train_it(config):
    restored = tune.get_checkpoint()
    first = 1 if restored is None else 1 + int(open(os.path.join(restored.path, "step")).read())
    for step in range(first, 9):
        if step == 5 and os.environ["RT_ATTEMPT"] == "1":
            stuck_in_the_third_epoch()
        os.makedirs(f"save-{step}")
        with open(f"save-{step}/step", "w") as file:
            file.write(str(step))
        tune.report({"step": step}, checkpoint=tune.Checkpoint.from_directory(f"save-{step}"))
        time.sleep(0.05)

tuner = tune.Tuner(train_it, run_config=train.RunConfig(
    name="hangs", failure_config=train.FailureConfig(
        watchdog={"factor": 5, "min": 0.5, "restarts": 2})))
tuner.fit()
"""


class PoliciesTest(ClusterTest):
    workers = 2

    @classmethod
    def prepare(cls) -> None:
        (cls.cluster.work / "fails.py").write_text(FAILS)
        cls.cluster.env["PYTHONPATH"] = str(ROOT / "python")

    def run_to_end(self, name: str, text: str) -> tuple:
        number = self.cluster.submit(name, text)
        return self.cluster.wait_experiment(number), self.cluster.json("trial", "show",
                                                                       f"{number}/0")

    def test_rules_forgive_exclude_and_end(self) -> None:
        experiment, trial = self.run_to_end("rules", f"""
experiment: rules
command: [{sys.executable}, fails.py, "9"]
max_failures: 5
{RETRY}
""")
        self.assertEqual((experiment["state"], trial["state"]), ("FAILED", "FAILED"))
        attempts = trial["attempts"]
        self.assertEqual([each["retry_rule"] for each in attempts], [1, 2, 2, 3])
        nodes = [each["members"][0]["node_id"] for each in attempts]
        self.assertEqual(trial["excluded_nodes"], [nodes[0]])
        self.assertNotIn(nodes[0], nodes[1:])
        self.assertEqual(trial["failures"], 1)  # The last one; the others are forgiven.
        why = self.cluster.rt("trial", "why", trial["id"]).stdout
        self.assertIn("retry rule 1 says exclude_node", why)
        self.assertIn("failed; exited with code 9; retry rule 3 says fail", why)

    def test_without_a_rule_max_failures_decides(self) -> None:
        experiment, trial = self.run_to_end("none", f"""
experiment: none
command: [{sys.executable}, fails.py, "0"]
retry: [{{exit_code: 99, then: retry}}]
""")
        self.assertEqual((experiment["state"], len(trial["attempts"])), ("FAILED", 1))
        self.assertEqual(trial["attempts"][0]["retry_rule"], None)

    def test_a_mistake_in_a_rule_is_shown_where_it_stands(self) -> None:
        path = self.cluster.work / "wrong.yaml"
        path.write_text("experiment: wrong\ncommand: [x]\nretry:\n"
                        "  - {exit_code: 1, then: fail}\n  - {exit_code: 2, then: again}\n")
        done = self.cluster.rt("submit", "-o", "json", str(path), check=False)
        error = json.loads(done.stderr)["error"]
        self.assertEqual(done.returncode, 2)
        self.assertEqual((error["line"], error["column"]), (5, 26))
        self.assertIn("must be retry, fail or exclude_node", error["message"])

    def test_a_search_whose_best_results_agree_ends_also_after_another_head(self) -> None:
        (self.cluster.work / "agrees.py").write_text(AGREES)
        place = self.cluster.work / "place"
        place.mkdir()
        os.mkfifo(place / "go")
        number = self.cluster.submit("agrees", f"""
experiment: agrees
command: [{sys.executable}, agrees.py, {place}]
metric: loss
mode: min
num_samples: 2
stop: {{experiment_plateau: {{std: 0.1, top: 2, patience: 3}}}}
""")

        def shown() -> str:
            return str(self.cluster.experiment(number)["plateau"])

        wait_until("two results agree", lambda: "after 1 of 3 results" in shown())
        wait_until("the trial waits", (place / "agrees").exists)
        self.cluster.kill("head")
        self.cluster.up()
        self.assertEqual(shown(), "the 2 best values of loss deviate by 0, at most 0.1, after 1 of "
                                  "3 results")
        with open(place / "go", "w"):
            pass
        experiment = self.cluster.wait_experiment(number)
        reason = "the 2 best values of loss are a plateau"
        self.assertEqual((experiment["state"], experiment["reason"]), ("COMPLETED", reason))
        first, second = self.cluster.trials(number)
        self.assertEqual((first["state"], first["step"]), ("COMPLETED", 4))
        self.assertEqual((second["state"], second["reason"]), ("STOPPED", reason))
        self.assertEqual(len(self.cluster.rows(experiment, first)), 4)

    def test_a_search_that_is_broken_stops(self) -> None:
        number = self.cluster.submit("broken", f"""
experiment: broken
command: [{sys.executable}, -c, "import no_such_module"]
space: {{lr: {{uniform: [0, 1]}}}}
num_samples: 500
""")
        experiment = self.cluster.wait_experiment(number)
        self.assertEqual(experiment["state"], "FAILED")
        self.assertIn("its first 5 trials all failed with the same error soon after starting",
                      experiment["reason"])
        self.assertIn("no_such_module", experiment["reason"])
        # Those that had begun beside them, and no more.
        self.assertLess(experiment["trials_by_state"]["FAILED"], 20)

    def test_a_trial_that_hangs_shows_where_and_goes_on(self) -> None:
        script = self.cluster.work / "hangs.py"
        script.write_text(HANGS)
        driver = subprocess.run(
            [driver_python(), str(script)], cwd=self.cluster.work, text=True, timeout=120,
            env={**self.cluster.env, "RT_CLUSTER": "it"},
            capture_output=True, stdin=subprocess.DEVNULL)
        self.assertEqual(driver.returncode, 0, driver.stderr + self.cluster.logs())
        number = max(each["id"] for each in self.cluster.experiments()
                     if each["name"] == "hangs")
        trial = self.cluster.trial(f"{number}/0")
        self.assertEqual((trial["state"], trial["failures"]), ("COMPLETED", 0))
        self.assertEqual([each["outcome"] for each in trial["attempts"]], ["HUNG", "SUCCEEDED"])
        self.assertIn("no report for", trial["attempts"][0]["reason"])
        rows = self.cluster.rows(self.cluster.experiment(number), trial)
        self.assertEqual([row["step"] for row in rows], list(range(1, 9)))
        logs = [pathlib.Path(path).read_text() for path in trial["log_paths"]
                if path.endswith("stderr.000000000000.log") and pathlib.Path(path).exists()]
        self.assertTrue(any("stuck_in_the_third_epoch" in text for text in logs), logs)


if __name__ == "__main__":
    unittest.main()
