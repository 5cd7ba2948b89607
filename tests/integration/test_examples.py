"""The examples, run as their README says, on real data; those in PyTorch: test_examples_torch."""

import ast
import json
import re
import unittest

from examples import EXAMPLES, Examples
from harness import has

HAS_XGBOOST = has("xgboost", "sklearn")
HAS_LIGHTGBM = has("lightgbm", "sklearn")


class AdvisorsTest(Examples):
    def test_the_scripts_own_advice_is_taken(self) -> None:
        text = self.run_example("advisors/advisors.py", "--samples", "6")
        self.assertIn("failed: 0", text)
        ends = re.findall(r"_(\d{5}): [\d.]+ after (\d+) epochs", text)
        self.assertEqual(sorted(number for number, _ in ends), [f"{n:05d}" for n in range(6)])
        self.assertGreater(float(re.search(r"best accuracy: ([\d.]+)", text)[1]), 0.9)


class TasksTest(Examples):
    def test_a_cross_validation_of_tasks_and_an_actor(self) -> None:
        text = self.run_example("tasks/cross_validation.py", "--folds", "2")
        means = dict(re.findall(r"^(\w+ [\d.]+): (0\.\d+)$", text, re.MULTILINE))
        self.assertEqual(len(means), 8, text)
        best, mean = re.search(r"best: (\w+ [\d.]+), accuracy (0\.\d+) in 2 folds", text).groups()
        self.assertEqual((mean, means[best]), (max(means.values()),) * 2)
        self.assertGreater(float(mean), 0.97)


class DataTest(Examples):
    def test_a_training_resumes_inside_an_epoch(self) -> None:
        text = self.run_example("data/digits_data.py", "--epochs", "20")
        self.assertGreater(float(re.search(r"accuracy: ([\d.]+)", text)[1]), 0.9)
        taken, rows = re.search(r"rows taken: (\d+) of (\d+)", text).groups()
        self.assertEqual(taken, rows)
        self.assertIn("without the stop: True", text)


class DigitsTest(Examples):
    def search(self, *args: str) -> tuple[dict, float, int]:
        """The best configuration, its accuracy, and the reports of all trials."""
        text = self.run_example("digits/digits.py", *args)
        self.assertIn("failed: 0", text)
        rows = [line for path in self.place.results.glob("*/*/result.json")
                for line in path.read_text().splitlines()]
        return self.best(text), float(re.search(r"best accuracy: ([\d.]+)", text)[1]), len(rows)

    def test_grid(self) -> None:
        best, accuracy, _ = self.search("--method", "grid", "--epochs", "5")
        self.assertEqual(len(list(self.place.results.glob("*/*/result.json"))), 6)
        self.assertIn(best["lr"], (0.0003, 0.001, 0.01))
        self.assertGreater(accuracy, 0.9)

    def test_random_with_classes(self) -> None:
        best, accuracy, rows = self.search("--api", "class", "--method", "random", "--samples",
                                           "4", "--epochs", "4")
        self.assertEqual(rows, 16)
        self.assertEqual(best["width"] % 8, 0)
        self.assertGreater(accuracy, 0.5)

    def test_asha_with_functions(self) -> None:
        _, accuracy, rows = self.search("--samples", "8", "--epochs", "9")
        self.assertLess(rows, 8 * 9)  # Some were stopped early.
        self.assertGreater(accuracy, 0.9)

    def test_asha_with_classes(self) -> None:
        _, accuracy, _ = self.search("--api", "class", "--samples", "4", "--epochs", "9")
        self.assertGreater(accuracy, 0.8)
        folders = self.place.results.glob("*/*/checkpoint_000000/_dict_checkpoint.pkl")
        self.assertGreater(len(list(folders)), 0)


class DigitsPbtTest(Examples):
    def test_bad_trials_take_the_weights_of_good_ones(self) -> None:
        text = self.run_example("digits_pbt/digits_pbt.py", "--epochs", "12")
        self.assertIn("trials: 4, failed: 0", text)
        self.assertGreater(int(re.search(r"better trials: (\d+)", text)[1]), 0)
        self.assertGreater(float(re.search(r"best accuracy: ([\d.]+)", text)[1]), 0.9)


class ListingsTest(Examples):
    def test_objective_that_returns_a_dict(self) -> None:
        best = ast.literal_eval(self.run_example("listings/tuner_objective.py").strip())
        folder = next(self.place.results.iterdir()).name
        rows = [self.place.rows(folder, trial)[-1] for trial in range(4)]
        self.assertEqual([row["config"]["a"] for row in rows], [0.001, 0.01, 0.1, 1.0])
        self.assertEqual(best, min(rows, key=lambda row: row["score"])["config"])

    def test_init_first(self) -> None:
        self.assertIn("x", self.best(self.run_example("listings/init_first.py")))


BOOSTING = """
import json
from sklearn.datasets import load_breast_cancer
from rt import tune

def halves():
    x, y = load_breast_cancer(return_X_y=True)
    return (x[::2], y[::2]), (x[1::2], y[1::2])

def show(objective, rounds_of):
    kinds = list(CALLBACKS)
    trials = tune.run(objective, config={"kind": tune.grid_search(kinds)},
                      raise_on_failed_trial=False, verbose=0).trials
    found = {}
    for kind, trial in zip(kinds, trials):
        if trial.error is not None:
            found[kind] = trial.error.message.strip("\\"")
            continue
        own = [key for key in trial.last_result if key in REPORTED or "binary" in key]
        rounds = [rounds_of(checkpoint) for checkpoint, _ in trial.checkpoints]
        found[kind] = [len(trial.rows), sorted(own), rounds]
    print(json.dumps(found))

REPORTED = ("eval-error", "eval-logloss", "error", "more")
"""


@unittest.skipUnless(HAS_XGBOOST, "xgboost-cpu==3.2.0 is not installed in build/venv")
class XgboostTest(Examples):
    def test_breast_cancer(self) -> None:
        text = self.run_example("xgboost/breast_cancer.py", "--samples", "6")
        self.assertLess(float(re.search(r"best log loss: ([\d.]+)", text)[1]), 0.2)
        self.assertIn(self.best(text)["min_child_weight"], (1, 2, 3))
        rows = [line for path in self.place.results.glob("*/*/result.json")
                for line in path.read_text().splitlines()]
        self.assertLess(len(rows), 6 * 27)  # Some were stopped early.
        saved = re.search(r"early stopping: (\d+) of 162 rounds were trained, (\d+)% saved", text)
        self.assertEqual(int(saved[1]), len(rows))
        self.assertGreater(int(saved[2]), 0)

    def test_report_callback(self) -> None:
        done = self.place.run(BOOSTING + """
import xgboost
from rt.tune.integration.xgboost import TuneReportCallback, TuneReportCheckpointCallback

def objective(config):
    train, test = (xgboost.DMatrix(x, label=y) for x, y in halves())
    xgboost.train({"objective": "binary:logistic", "eval_metric": ["logloss", "error"],
                   "nthread": 1}, train, evals=[(test, "eval")], num_boost_round=5,
                  verbose_eval=False, callbacks=[CALLBACKS[config["kind"]]()])

CALLBACKS = {
    "all": TuneReportCheckpointCallback,
    "each": lambda: TuneReportCheckpointCallback({"error": "eval-error"}, frequency=2),
    "bare": lambda: TuneReportCallback(
        "eval-logloss", results_postprocessing_fn=lambda row: {**row, "more": 1}),
    "wrong": lambda: TuneReportCallback(["eval-logless"]),
}
show(objective, lambda checkpoint:
     TuneReportCheckpointCallback.get_model(checkpoint).num_boosted_rounds())
""")
        self.assertEqual(json.loads(done.stdout.splitlines()[-1]), {
            "all": [6, ["eval-error", "eval-logloss"], [5]],
            "each": [6, ["error"], [2, 4, 5]],
            "bare": [5, ["eval-logloss", "more"], []],
            "wrong": "no metric 'eval-logless'; there are: eval-error, eval-logloss"})


@unittest.skipUnless(HAS_LIGHTGBM, "lightgbm==4.6.0 is not installed in build/venv")
class LightgbmTest(Examples):
    def test_report_callback(self) -> None:
        done = self.place.run(BOOSTING + """
import lightgbm
from rt.tune.integration.lightgbm import TuneReportCallback, TuneReportCheckpointCallback

def objective(config):
    train, test = (lightgbm.Dataset(x, label=y) for x, y in halves())
    settings = {"objective": "binary", "metric": ["binary_logloss", "binary_error"],
                "verbose": -1, "num_threads": 1}
    if config["kind"] == "folds":
        lightgbm.cv(settings, train, num_boost_round=5, nfold=2, callbacks=[TuneReportCallback()])
        return
    lightgbm.train(settings, train, valid_sets=[test], valid_names=["eval"], num_boost_round=5,
                   callbacks=[CALLBACKS[config["kind"]]()])

CALLBACKS = {
    "all": TuneReportCheckpointCallback,
    "each": lambda: TuneReportCheckpointCallback({"error": "eval-binary_error"}, frequency=2),
    "bare": lambda: TuneReportCallback("eval-binary_error"),
    "folds": None,
}
show(objective, lambda checkpoint: TuneReportCheckpointCallback.get_model(checkpoint).num_trees())
""")
        found = json.loads(done.stdout.splitlines()[-1])
        folds = found.pop("folds")
        self.assertEqual(found, {"all": [5, ["eval-binary_error", "eval-binary_logloss"], [5]],
                                 "each": [5, ["error"], [2, 4, 5]],
                                 "bare": [5, ["eval-binary_error"], []]})
        self.assertEqual([folds[0], len(folds[1]), folds[2]], [5, 2, []])


class WithoutXgboostTest(Examples):
    def test_it_says_what_is_missing(self) -> None:
        (self.place.work / "xgboost.py").write_text("raise ImportError('not for this machine')")
        self.place.env["PYTHONPATH"] += f":{self.place.work}"
        done = self.place.run_file(EXAMPLES / "xgboost/breast_cancer.py", code=3)
        self.assertIn("pip install xgboost-cpu", done.stdout)


if __name__ == "__main__":
    unittest.main()
