"""Searches with a model (TPE, CMA-ES, GP-BO, BOHB) on the compute lane of heads that are killed."""

import json
import unittest
from typing import Any

from harness import Cluster, wait_until

TRIALS = 16
TRIAL = """import json, os
config = json.load(open(os.environ["RT_CONFIG"]))
loss = (config["x"] - 0.3) ** 2 + abs(config["n"] - 7) / 10 + (config["kind"] != "b")
print("RT_REPORT", json.dumps({"loss": loss}), flush=True)
"""
SEARCH = """experiment: {name}
command: [python3, -S, trial.py]
space: {{x: {{uniform: [0, 1]}}, n: {{randint: [1, 20]}}, kind: {{choice: [a, b, c]}}}}
metric: loss
mode: min
search: {search}
num_samples: {trials}
max_concurrent: {concurrent}
seed: 11
resources: {{cpu: 1}}
"""


FRONT_TRIAL = """import json, os, sys
config = json.load(open(os.environ["RT_CONFIG"]))
size = config["net"].get("width", 1)
told = any(word.startswith("--dropout=") for word in sys.argv)
row = {"error": 1 / size + config["lr"], "size": size, "told_dropout": told}
print("RT_REPORT", json.dumps(row), flush=True)
"""
FRONT = """experiment: {name}
command: [python3, -S, front.py, "--dropout=${{dropout}}"]
space:
  lr: {{uniform: [0, 1]}}
  net: {{choice: [{{kind: mlp, width: {{randint: [2, 65]}}}}, {{kind: linear}}]}}
  dropout: {{uniform: [0, 1], if: {{lr: {{">=": 0.5}}}}}}
metric: [error, size]
mode: [min, min]
constraints: {{size: {{"<=": 50}}}}
search: {search}
num_samples: 14
seed: 5
resources: {{cpu: 1}}
"""


def described(name: str, trials: int, concurrent: int, algorithm: str) -> str:
    """The search as a file: each algorithm but auto, which has no options, models few results."""
    few = {"bohb": "rows_min: 4", "dehb": "population_size: 4"}.get(algorithm, "startup_trials: 4")
    search = "auto" if algorithm == "auto" else f"{{{algorithm}: {{{few}}}}}"
    return SEARCH.format(name=name, trials=trials, concurrent=concurrent, search=search)


class ModelSearchTest(unittest.TestCase):
    cluster: Cluster

    @classmethod
    def setUpClass(cls) -> None:
        cls.cluster = Cluster(workers=1, cpus=2)
        cls.addClassCleanup(cls.cluster.close)
        (cls.cluster.work / "trial.py").write_text(TRIAL)
        cls.cluster.up()

    def submit(self, name: str, concurrent: int, algorithm: str = "tpe") -> int:
        return self.cluster.submit(name, described(name, TRIALS, concurrent, algorithm))

    def wait_trials(self, experiment: int, count: int) -> None:
        def enough() -> bool:
            shown = self.cluster.rt("exp", "show", str(experiment), "-o", "json", check=False)
            if shown.returncode != 0:
                return False  # The head may be on its way back.
            return sum(json.loads(shown.stdout)["trials_by_state"].values()) >= count
        wait_until(f"{count} trials of {experiment}", enough)

    def configurations(self, experiment: int) -> list[Any]:
        shown = self.cluster.wait_experiment(experiment)
        self.assertEqual(shown["state"], "COMPLETED", shown)
        self.assertEqual(shown["warnings"], [])  # No trial lacked an answer of the model.
        trials = sorted(self.cluster.trials(experiment), key=lambda one: one["number"])
        self.assertEqual([one["number"] for one in trials], list(range(TRIALS)))
        return [one["params"] for one in trials]

    def test_one_at_a_time_is_the_same_when_the_head_is_killed(self) -> None:
        algorithms = ("tpe", "gp", "bohb", "mobster")
        calm = {name: self.submit(f"calm-{name}", 1, name) for name in algorithms}
        undisturbed = {name: self.configurations(calm[name]) for name in algorithms}
        for configurations in undisturbed.values():
            self.assertEqual(len({json.dumps(one) for one in configurations}), TRIALS)
        disturbed = {name: self.submit(f"killed-{name}", 1, name) for name in algorithms}
        for count in (3, 7, 12):
            for name in algorithms:
                self.wait_trials(disturbed[name], count)
            self.cluster.kill("head")
            self.cluster.json("status")  # Any client brings a local head back.
        for name in algorithms:
            self.assertEqual(self.configurations(disturbed[name]), undisturbed[name])

    def test_side_by_side_they_end_when_the_head_is_killed(self) -> None:
        algorithms = ("tpe", "cmaes", "gp", "auto", "bohb", "dehb", "mobster")
        experiments = {name: self.submit(f"wide-{name}", 0, name) for name in algorithms}
        for name in algorithms:
            self.wait_trials(experiments[name], 8)
        self.cluster.kill("head")
        self.cluster.json("status")
        for experiment in experiments.values():
            configurations = self.configurations(experiment)
            self.assertEqual(len({json.dumps(one) for one in configurations}), TRIALS)
        self.assertLess(self.cluster.experiment(experiments["tpe"])["best"]["value"], 1)

    def test_the_plan_names_the_options_that_are_not_at_their_defaults(self) -> None:
        path = self.cluster.work / "planned.yaml"
        path.write_text(described("planned", 2, 1, "tpe"))
        planned = self.cluster.rt("plan", str(path)).stdout
        self.assertIn("tpe: startup_trials 4, 28 options at their defaults\n", planned)

    def test_what_a_model_expects_is_shown_beside_the_best_trial(self) -> None:
        experiment = self.submit("believed", 1, "gp")
        shown = self.cluster.wait_experiment(experiment)
        best, expected = shown["best"], shown["search_model"]["best"]
        self.assertEqual(expected["trial_id"], best["trial_id"])
        self.assertLessEqual(expected["low"], expected["value"])
        self.assertAlmostEqual(expected["value"], best["value"], delta=0.2)
        self.assertEqual(shown["search_model"]["next"]["trial_id"], f"{experiment}/{TRIALS - 1}")
        text = self.cluster.rt("exp", "show", str(experiment)).stdout
        self.assertRegex(text, r"what the search model expects\n *TRIAL +loss +FROM +TO\n"
                               rf" *{best['trial_id']} +the best one ")

    def test_auto_says_what_it_chose_in_the_plan_and_of_an_experiment(self) -> None:
        path = self.cluster.work / "chosen.yaml"
        path.write_text(described("chosen", 2, 1, "auto"))
        choice = "gp: 3 parameters, 2 of them numbers"
        self.assertIn(f"chooses       {choice}\n", self.cluster.rt("plan", str(path)).stdout)
        experiment = self.cluster.submit("chosen", path.read_text())
        self.assertEqual(self.cluster.wait_experiment(experiment)["search_choice"], choice)

    def test_objectives_conditions_and_results_of_an_earlier_search(self) -> None:
        (self.cluster.work / "front.py").write_text(FRONT_TRIAL)
        first = self.cluster.submit("front", FRONT.format(name="front", search="tpe"))
        shown = self.cluster.wait_experiment(first)
        self.assertEqual((shown["state"], shown["warnings"]), ("COMPLETED", []))
        self.assertEqual([one["metric"] for one in shown["objectives"]], ["error", "size"])
        for trial in self.cluster.trials(first):
            params, metrics = trial["params"], trial["metrics"]
            self.assertEqual("width" in params["net"], params["net"]["kind"] == "mlp")
            self.assertEqual("dropout" in params, metrics["told_dropout"])
        best = self.cluster.json("exp", "best", str(first))
        front = [(one["metrics"]["error"], one["metrics"]["size"]) for one in best["front"]]
        self.assertEqual(front, sorted(front, key=lambda one: (one[0], -one[1])))
        self.assertTrue(all(size <= 50 for _, size in front), front)
        self.assertGreater(best["hypervolume"], 0)
        text = self.cluster.rt("exp", "best", str(first)).stdout
        self.assertIn("hypervolume", text)
        self.assertEqual(self.cluster.rt("exp", "best", str(first), "-o", "quiet").stdout.split(),
                         [one["id"] for one in best["front"]])
        warm = f"{{gp: {{warm_start: [{first}]}}}}"
        second = self.cluster.submit("warm", FRONT.format(name="warm", search=warm))
        self.assertEqual(self.cluster.wait_experiment(second)["state"], "COMPLETED")
        plan = self.cluster.work / "front.yaml"
        plan.write_text(FRONT.format(name="plan", search="tpe"))
        self.assertIn("lr is at least 0.5", self.cluster.rt("plan", str(plan)).stdout)
        said = self.cluster.rt("submit", str(plan)).stderr
        third = max(one["id"] for one in self.cluster.experiments())
        front = self.cluster.json("exp", "best", str(third))["front"]
        table = said[said.index("rt: the trials that no other one beats in all objectives:"):]
        for one in front:
            self.assertIn(f"\n{one['id']} ", table)
        self.assertIn("rt: best by the first objective alone (step ", table)

    def test_a_space_with_a_grid_is_refused_with_its_place(self) -> None:
        text = described("grid", 2, 1, "tpe").replace("{uniform: [0, 1]}", "{grid: [0, 1]}")
        path = self.cluster.work / "grid.yaml"
        path.write_text(text)
        done = self.cluster.rt("submit", str(path), check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("grid.yaml:3:", done.stderr)
        self.assertIn("tpe does not search a grid", done.stderr)
        self.assertIn("write choice, or use basic", done.stderr)


if __name__ == "__main__":
    unittest.main()
