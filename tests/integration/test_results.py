"""What a search left: show, best, export and why; and its logs, followed through every death."""

import csv
import io
import json
import os
import pathlib
import subprocess
import sys
import unittest

from harness import BIN, ClusterTest, wait_until

TRIAL = r"""
import json, sys
x = float(sys.argv[1])
for epoch in range(9):
    row = {"loss": x / (epoch + 1), "a,b": 'say "hi"\n'}
    if epoch == 2:
        row["late"] = epoch
    print("RT_REPORT " + json.dumps(row), flush=True)
if x == 4:
    raise ValueError("four is a bad number")
"""
SEARCH = f"""
experiment: sweep
command: [{sys.executable}, trial.py, "${{x}}"]
space:
  x: {{grid: [4, 2, 1, 3]}}
  lr: {{loguniform: [1e-4, 1e-1]}}
  width: 64
  opt: {{name: adam}}
metric: loss
mode: min
"""
ASHA = SEARCH.replace("sweep", "halving").replace("[4, 2, 1, 3]", "[1, 2, 3, 5, 6, 7]") + (
    "max_concurrent: 1\nscheduler: {asha: {max_t: 9, reduction_factor: 3}}\n")
TALK = r"""
import os, sys, time
number = 0
while not os.path.exists(sys.argv[1]):
    print(number, flush=True)
    print("e", number, file=sys.stderr, flush=True)
    number += 1
    time.sleep(0.005)
"""


class ResultsTest(ClusterTest):
    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        (cls.cluster.work / "trial.py").write_text(TRIAL)
        cls.sweep = cls.cluster.submit("sweep", SEARCH)
        cls.cluster.wait_experiment(cls.sweep)
        cls.halving = cls.cluster.submit("halving", ASHA)
        cls.cluster.wait_experiment(cls.halving)

    def test_show_has_the_best_side_by_side(self) -> None:
        text = self.cluster.rt("exp", "show", str(self.sweep)).stdout
        table = text[text.index("the best trials"):].splitlines()
        self.assertEqual(table[1].split(), ["TRIAL", "STATE", "STEP", "loss", "x", "lr"])
        self.assertRegex(table[2], r"^range +1…4 +[\d.e-]+…[\d.e-]+$")
        self.assertEqual([line.split()[0] for line in table[3:7]],
                         [f"{self.sweep}/{number}" for number in (2, 1, 3, 0)])
        self.assertRegex(table[3], r"COMPLETED +9 +0\.11111 +1 ▁")
        self.assertRegex(table[6], r"FAILED +9 +0\.44444 +4 █")
        self.assertEqual(table[7], "same in all trials: width=64, opt/name=adam")
        error = self.cluster.experiment(self.sweep)["last_error"]
        self.assertEqual(error["trial_id"], f"{self.sweep}/0")
        self.assertIn("four is a bad number", error["message"])

    def test_show_says_what_early_stopping_did_at_each_rung(self) -> None:
        text = self.cluster.rt("exp", "show", str(self.halving)).stdout
        rungs = text[text.index("early stopping by rung"):].splitlines()
        self.assertEqual(rungs[1].split(),
                         ["BRACKET", "MILESTONE", "REACHED", "STOPPED", "PAUSED", "CONTINUED",
                          "BEST", "AT", "IT"])
        rung = self.cluster.experiment(self.halving)["rungs"][0]
        self.assertEqual(len(rung["trials"]), 5)  # The other one came to a higher rung.
        best = rung["trials"][0]
        self.assertEqual(best["value"], min(one["value"] for one in rung["trials"]))
        there = [f"{one['trial_id']} {one['value']:g}" for one in rung["trials"][:3]]
        self.assertEqual(rungs[2].split(), ["0", "1", "6", "5", "0", "1",
                                            *", ".join([*there, "..."]).split()])

    def test_best(self) -> None:
        best = self.cluster.json("exp", "best", str(self.sweep))
        self.assertEqual((best["metric"], best["mode"], best["experiment_id"]),
                         ("loss", "min", self.sweep))
        self.assertEqual(best["best"]["trial_id"], f"{self.sweep}/2")
        self.assertEqual([trial["id"] for trial in best["trials"]], [f"{self.sweep}/2"])
        done = self.cluster.rt("-o", "quiet", "e", "best", "sweep", "--limit", "3")
        self.assertEqual(done.stdout.split(),
                         [f"{self.sweep}/{number}" for number in (2, 1, 3)])
        none = self.cluster.rt("exp", "best", "99", check=False)
        self.assertEqual(none.returncode, 3)

    def export(self, *args: str) -> str:
        return self.cluster.rt("exp", "export", str(self.sweep), *args).stdout

    def test_export_of_trials(self) -> None:
        items = json.loads(self.export("--format", "json"))["items"]
        self.assertEqual(items, self.cluster.trials(self.sweep))
        self.assertEqual(json.loads(self.export("-o", "json"))["items"], items)
        rows = list(csv.DictReader(io.StringIO(self.export("--format", "csv"))))
        self.assertEqual([row["id"] for row in rows], [item["id"] for item in items])
        for row, item in zip(rows, items):
            self.assertEqual(float(row["params/lr"]), item["params"]["lr"])
            self.assertEqual(row["params/opt/name"], "adam")
            self.assertEqual(float(row["metrics/loss"]), item["metrics"]["loss"])
            self.assertEqual(row["metrics/a,b"], 'say "hi"\n')
            self.assertEqual(float(row["best/value"]), item["best"]["value"])

    def test_export_of_every_report(self) -> None:
        rows = json.loads(self.export("--rows", "--format", "json"))["items"]
        self.assertEqual([(row["trial_id"], row["training_iteration"]) for row in rows],
                         [(f"{self.sweep}/{trial}", step) for trial in range(4)
                          for step in range(1, 10)])
        table = list(csv.DictReader(io.StringIO(self.export("--rows"))))
        self.assertEqual([float(row["loss"]) for row in table], [row["loss"] for row in rows])
        self.assertEqual([row["late"] for row in table], ["", "", "2", *[""] * 6] * 4)

    def test_export_refuses_what_it_does_not_know(self) -> None:
        done = self.cluster.rt("exp", "export", "last", "--format", "jsn", check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("did you mean 'json'?", done.stderr)

    def test_why_a_trial_ended(self) -> None:
        text = self.cluster.rt("t", "why", f"{self.sweep}/0").stdout
        self.assertTrue(text.startswith(f"trial {self.sweep}/0 is FAILED\n"), text)
        self.assertIn("ValueError: four is a bad number", text)
        self.assertRegex(text, r"attempt 1 on worker-\d \(process \d+\) ended \w+ ago: failed; "
                               r"exited with code 1")
        text = self.cluster.rt("trial", "why", f"{self.halving}/5").stdout
        self.assertIn("because: stopped by ASHA at rung 1", text)

    def test_why_a_trial_waits_and_a_node_is_busy(self) -> None:
        number = self.cluster.submit("waits", """
experiment: waits
command: [sleep, "600"]
num_samples: 3
resources: {cpu: 2}
""")
        wait_until("two run", lambda: self.cluster.experiment(number)
                   ["trials_by_state"]["RUNNING"] == 2)
        try:
            why = self.cluster.json("trial", "why", f"{number}/2")
            self.assertEqual(set(why), {"id", "name", "state", "reason", "why", "waiting"})
            self.assertEqual(why["why"][0], f"trial {number}/2 is PENDING")
            self.assertRegex(why["why"][1], r"^it needs 2 cpus; no node has that many free "
                                            r"\(closest: worker-\d, 0 of 2 free\)$")
            self.assertIn("what would help: the end of a running trial", why["why"][2])
            text = self.cluster.rt("t", "why", f"{number}/0").stdout
            self.assertRegex(text, r"attempt 1 on worker-\d \(process \d+\), started \w+ ago\n"
                                   r"  it has not reported yet")
            text = self.cluster.rt("n", "why", "worker-1").stdout
            self.assertRegex(text, r"node worker-1 is READY\n  it takes work\n"
                                   rf"  free: 0 of 2 cpu\n  runs: trial {number}/\d \(attempt 1\)\n"
                                   rf"  1 waits in the cluster; {number}/2 needs 2 cpus")
        finally:
            self.cluster.rt("exp", "stop", str(number))
            self.cluster.wait_experiment(number)

    def test_a_followed_log_survives_the_head_and_the_worker(self) -> None:
        (self.cluster.work / "talk.py").write_text(TALK)
        go = self.cluster.home / "go"
        number = self.cluster.submit("talk", f"""
experiment: talk
command: [{sys.executable}, talk.py, {go}]
""")
        out = self.cluster.home / "followed"
        with out.open("wb") as file:
            follower = subprocess.Popen([str(BIN / "rt"), "logs", "-f", f"{number}/0"], stdout=file,
                                        stderr=subprocess.PIPE, env=self.cluster.env)
        self.addCleanup(follower.kill)

        def lines() -> int:
            return out.read_bytes().count(b"\n")

        wait_until("something came", lambda: lines() > 20)
        for part in ("head", self.worker(number)):
            self.cluster.kill(part)
            before = lines()
            wait_until(f"more came after {part} died",
                       lambda before=before: lines() > before + 400)
        go.touch()
        _, errors = follower.communicate(timeout=60)
        self.assertEqual(follower.returncode, 0, errors)
        printed = out.read_text().splitlines()
        self.assertEqual(printed, [str(value) for value in range(len(printed))])
        self.assertEqual(errors.decode().splitlines(),
                         [f"e {value}" for value in range(len(printed))])
        self.cluster.wait_experiment(number)
        whole = self.cluster.rt("logs", f"{number}/0", "--stream", "stdout").stdout
        self.assertEqual(whole.splitlines(), printed)
        paths = self.cluster.trial(f"{number}/0")["log_paths"]
        wait_until("its logs were put away", lambda: all(map(os.path.exists, paths)))
        self.assertEqual(pathlib.Path(paths[0]).read_text().splitlines(), printed)

    def test_a_list_longer_than_a_message_is_whole(self) -> None:
        number = self.cluster.submit("long", f"""
experiment: long
command: ["true"]
space: {{number: {{grid: {list(range(100))}}}, text: "{'t' * 60_000}"}}
""")
        self.addCleanup(self.cluster.rt, "exp", "stop", str(number))
        items = self.cluster.trials(number)
        self.assertEqual([item["number"] for item in items], list(range(100)))
        self.assertGreater(len(json.dumps(items)), 4 << 20)

    def test_attempts_whose_bodies_exceed_a_message_all_start(self) -> None:
        number = self.cluster.submit("wide", f"""
experiment: wide
command: ["true"]
space: {{number: {{grid: {list(range(100))}}}, text: "{'t' * 60_000}"}}
resources: {{cpu: 0}}
""")
        experiment = self.cluster.wait_experiment(number)
        self.assertEqual(experiment["trials_by_state"]["COMPLETED"], 100)

    def worker(self, number: int) -> str:
        node = self.cluster.trials(number)[0]["node_ids"][0]
        return self.cluster.json("node", "show", str(node))["name"]


if __name__ == "__main__":
    unittest.main()
