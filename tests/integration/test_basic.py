"""A search in any language, from submit to result, on real daemons."""

import json
import pathlib
import sys
import unittest

from harness import ClusterTest

COUNT = r"""
import json, os, sys, time
steps, pause = int(sys.argv[1]), float(sys.argv[2])
for i in range(steps):
    print("RT_REPORT " + json.dumps({"loss": 1.0 / (i + 1) + float(sys.argv[3])}), flush=True)
    time.sleep(pause)
"""


class BasicTest(ClusterTest):
    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        (cls.cluster.work / "count.py").write_text(COUNT)

    def test_status_and_nodes(self) -> None:
        status = self.cluster.json("status")
        self.assertEqual(status["cluster"]["name"], "it")
        self.assertEqual(status["nodes"]["total"], 2)
        self.assertEqual(status["resources"]["cpu"]["total"], 4)
        nodes = self.cluster.json("node", "list")["items"]
        self.assertEqual([n["state"] for n in nodes], ["READY", "READY"])

    def test_grid_of_shell_trials(self) -> None:
        number = self.cluster.submit("grid", f"""
experiment: grid
command: [{sys.executable}, count.py, "3", "0.01", "${{offset}}"]
space: {{offset: {{grid: [0.5, 0.25, 2]}}}}
metric: loss
mode: min
""")
        experiment = self.cluster.wait_experiment(number)
        self.assertEqual(experiment["state"], "COMPLETED")
        self.assertEqual(experiment["trials_by_state"]["COMPLETED"], 3)
        self.assertEqual(experiment["best"]["params"], {"offset": 0.25})
        trials = self.cluster.trials(number)
        self.assertEqual([t["params"]["offset"] for t in trials], [0.5, 0.25, 2])
        for trial in trials:
            rows = self.cluster.rows(experiment, trial)
            self.assertEqual([r["training_iteration"] for r in rows], [1, 2, 3])
            self.assertAlmostEqual(rows[2]["loss"], 1 / 3 + trial["params"]["offset"])
            folder = pathlib.Path(experiment["results_dir"]) / trial["name"]
            self.assertEqual(json.loads((folder / "params.json").read_text()), trial["params"])
            self.assertIn("loss", (folder / "progress.csv").read_text().splitlines()[0])

    def test_a_failing_trial_says_why(self) -> None:
        number = self.cluster.submit("fails", f"""
experiment: fails
command: [{sys.executable}, -c, "import sys; sys.exit('no such data')"]
""")
        experiment = self.cluster.wait_experiment(number)
        self.assertEqual(experiment["state"], "FAILED")
        trial = self.cluster.json("trial", "show", f"{number}/0")
        self.assertEqual(trial["state"], "FAILED")
        self.assertEqual(trial["attempts"][0]["exit_code"], 1)
        self.assertIn("no such data", trial["error"]["message"])

    def test_stop_at_exactly_that_iteration(self) -> None:
        number = self.cluster.submit("stops", f"""
experiment: stops
command: [{sys.executable}, count.py, "1000", "0.01", "0"]
stop: {{training_iteration: 5}}
""")
        experiment = self.cluster.wait_experiment(number)
        self.assertEqual(experiment["state"], "COMPLETED")
        trial = self.cluster.trials(number)[0]
        self.assertEqual(trial["state"], "COMPLETED")
        rows = self.cluster.rows(experiment, trial)
        self.assertEqual([r["training_iteration"] for r in rows], [1, 2, 3, 4, 5])

    def test_a_job_keeps_its_arguments_and_exit_code(self) -> None:
        (self.cluster.work / "echo.py").write_text(
            "import json, sys\nprint(json.dumps(sys.argv[1:]))\nsys.exit(7)\n")
        args = ["a b", "it's", '"q"', "$HOME", "new\nline", "", "*"]
        done = self.cluster.rt("submit", "echo.py", "--", *args, check=False)
        self.assertEqual(done.returncode, 7, done.stderr)
        self.assertEqual(json.loads(done.stdout), args)

    def test_mistakes_are_explained(self) -> None:
        path = self.cluster.work / "bad.yaml"
        path.write_text("experiment: bad\ncommand: [x]\nnum_sampels: 3\n")
        done = self.cluster.rt("submit", str(path), check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("bad.yaml:3:1", done.stderr)
        self.assertIn("num_samples", done.stderr)
        done = self.cluster.rt("exp", "show", "999", check=False)
        self.assertEqual(done.returncode, 3)
        path.write_text("experiment: big\ncommand: [x]\nresources: {gpu: 4}\n")
        done = self.cluster.rt("submit", str(path), check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("4 gpus", done.stderr)


if __name__ == "__main__":
    unittest.main()
