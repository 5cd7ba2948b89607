"""Searches from Python against known answers: ASHA's golden trace, grids, seeds, stops, results."""

import json
import pathlib
import unittest

from script import Place

ASHA = """
import json, os, sys, time
from rt import tune
from rt.tune.schedulers import ASHAScheduler

grace, max_t, factor, count = json.loads(sys.argv[1])
turns = sys.argv[2]

def wait(path):
    end = time.monotonic() + 120
    while not os.path.exists(path):
        assert time.monotonic() < end, path
        time.sleep(0.002)

def objective(config):
    me = config["i"]
    done = lambda i, t: os.path.join(turns, f"{i}.{t}")
    try:
        for t in range(1, max_t + 1):
            # Round-robin: after everyone's previous turn, and after this turn of those before me.
            for other in range(count):
                turn = t if other < me else t - 1
                if turn:
                    wait(done(other, turn))
            tune.report({"score": (7 * me) % 16 + t / 16})
            open(done(me, t), "w").close()
    finally:
        for t in range(1, max_t + 1):  # Nobody waits for one that was stopped.
            open(done(me, t), "w").close()

results = tune.Tuner(
    tune.with_resources(objective, {"cpu": 0.1}),
    param_space={"i": tune.grid_search(list(range(count)))},
    tune_config=tune.TuneConfig(metric="score", mode="max", scheduler=ASHAScheduler(
        grace_period=grace, max_t=max_t, reduction_factor=factor)),
).fit()
print(json.dumps([each.metrics["training_iteration"] for each in results]))
"""

RESULTS = """
import json, os
from rt import tune

class Steps(tune.Trainable):
    def setup(self, config):
        self.value = config["a"]
    def step(self):
        self.value += 1
        row = {"value": self.value, "timesteps_this_iter": 10}
        return {**row, "late": 1} if self.iteration >= 2 else row
    def save_checkpoint(self, directory):
        return {"value": self.value}
    def load_checkpoint(self, state):
        self.value = state["value"]

analysis = tune.run(Steps, name="steps", config={"a": tune.grid_search([0, 10]), "net": {"w": 3}},
                    stop={"training_iteration": 5}, checkpoint_freq=2, keep_checkpoints_num=1,
                    metric="value", mode="max")
best = analysis.best_trial
print(json.dumps([best.last_result, best.checkpoint.path, best.logdir]))
"""


class SearchTest(unittest.TestCase):
    def setUp(self) -> None:
        self.place = Place()
        self.addCleanup(self.place.close)

    def stops(self, *shape: int) -> dict[int, set[int]]:
        turns = self.place.work / "-".join(map(str, shape))
        turns.mkdir()
        ended = self.place.said(ASHA, json.dumps(shape), str(turns))
        found: dict[int, set[int]] = {}
        for trial, iteration in enumerate(ended):
            found.setdefault(iteration, set()).add(trial)
        return found

    def test_asha_stops_exactly_whom_the_golden_trace_says(self) -> None:
        self.assertEqual(self.stops(2, 16, 2, 10),
                         {2: {3, 5, 7}, 4: {8}, 16: {0, 1, 2, 4, 6, 9}})
        self.assertEqual(self.stops(1, 27, 3, 12),
                         {1: {3, 5, 7, 8, 10}, 3: {6}, 9: {11}, 27: {0, 1, 2, 4, 9}})

    def test_the_first_grid_variable_varies_fastest_and_samples_repeat_the_grid(self) -> None:
        configs = self.place.said("""
import json
from rt import tune
space = {"b": tune.grid_search([1, 2]), "a": {"z": tune.grid_search(["x", "y", "z"])}, "c": 0}
results = tune.Tuner(lambda config: 1, param_space=space,
                     tune_config=tune.TuneConfig(num_samples=2)).fit()
print(json.dumps([[each.config["a"]["z"], each.config["b"]] for each in results]))
""")
        once = [[z, b] for b in (1, 2) for z in "xyz"]
        self.assertEqual(configs, once + once)

    def test_a_seed_draws_the_same_configurations_again(self) -> None:
        text = """
import json, sys
from rt import tune
from rt.tune.search.basic_variant import BasicVariantGenerator
space = {"u": tune.uniform(0, 1), "l": tune.loguniform(1e-4, 1), "r": tune.randint(0, 1000),
         "c": tune.choice(["a", "b", "c"]), "n": [tune.randn(), {"q": tune.quniform(0, 1, 0.25)}]}
results = tune.Tuner(lambda config: 1, param_space=space, tune_config=tune.TuneConfig(
    num_samples=6, search_alg=BasicVariantGenerator(random_state=int(sys.argv[1])))).fit()
print(json.dumps([each.config for each in results]))
"""
        first, again, other = (self.place.said(text, seed) for seed in ("5", "5", "6"))
        self.assertEqual(first, again)
        self.assertNotEqual(first, other)
        self.assertEqual(len({each["u"] for each in first}), 6)

    def test_a_search_follows_the_seed_of_the_script(self) -> None:
        text = """
import json, random, sys
import numpy as np
from rt import tune
exec(sys.argv[1])
space = {"u": tune.uniform(0, 1), "c": tune.choice([{"d": tune.uniform(0, 1)}, {"d": 0}])}
search = lambda: [each.config for each in tune.Tuner(
    lambda config: 1, param_space=space, tune_config=tune.TuneConfig(num_samples=3)).fit()]
print(json.dumps([search(), search()]))
"""
        once = self.place.said(text, "np.random.seed(5)")
        self.assertNotEqual(once[0], once[1])
        self.assertEqual(self.place.said(text, "np.random.seed(5)"), once)
        by_random = self.place.said(text, "random.seed(5)")
        self.assertEqual(self.place.said(text, "random.seed(5)"), by_random)
        self.assertNotEqual(self.place.said(text, ""), self.place.said(text, ""))

    def test_a_misspelt_metric_ends_the_search_after_its_first_trials(self) -> None:
        text = """
import json, os, sys, time
from rt import tune

def objective(config):
    for step in range(100):
        tune.report({"lss": step})
        time.sleep(0.1)

grid = tune.Tuner(objective, tune_config=tune.TuneConfig(
    metric="loss", mode="min", num_samples=40, scheduler=tune.schedulers.ASHAScheduler())).fit()
try:
    grid.get_best_result()
except ValueError as error:
    best = str(error)
rows = [each.metrics.get("training_iteration") for each in grid]
print(json.dumps([best, rows, [str(each) for each in grid.errors]]))
"""
        best, rows, errors = self.place.said(text)
        self.assertLess(sum(row is not None for row in rows), 20)
        self.assertLessEqual(set(rows), {1, None})
        self.assertIn("no trial reported the metric 'loss'; reported: lss", best)
        for said in (best, errors[0]):
            self.assertIn("did you mean 'lss'?", said)
        self.assertIn("the metric 'loss'", errors[0])
        self.place.env["RT_DISABLE_STRICT_METRIC_CHECKING"] = "1"
        best, rows, errors = self.place.said(
            text.replace("100", "2").replace("=40", "=3").replace("0.1", "0"))
        self.assertEqual((rows, errors), ([2, 2, 2], []))
        self.assertIn("did you mean 'lss'?", best)

    def test_a_tag_says_what_was_drawn_and_can_be_a_files_name(self) -> None:
        tags = self.place.said("""
import json
from rt import tune
space = {"net": {"act": tune.grid_search(["a b/c", "é-x "])}, "lr": tune.grid_search([0.01]),
         "big": tune.grid_search([True]), "k": 5}
grid = tune.Tuner(lambda config: 1, param_space=space).fit()
print(json.dumps([[each.metrics["experiment_tag"], each._trial.evaluated_params] for each in grid]))
""")
        drawn = {"big": True, "lr": 0.01}
        self.assertEqual(tags, [
            ["0_big=True,lr=0.0100,act=a_b_c", {**drawn, "net/act": "a b/c"}],
            ["1_big=True,lr=0.0100,act=-x", {**drawn, "net/act": "é-x "}]])

    def test_results_have_their_fields_files_and_checkpoints(self) -> None:
        last, checkpoint, folder = self.place.said(RESULTS)
        self.assertEqual(last["training_iteration"], 5)
        self.assertEqual((last["value"], last["timesteps_total"], last["late"]), (15, 50, 1))
        self.assertEqual(last["timesteps_since_restore"], 50)
        self.assertEqual(last["iterations_since_restore"], 5)
        self.assertEqual(last["config"], {"a": 10, "net": {"w": 3}})
        self.assertEqual((last["experiment_tag"], last["done"]), ("1_a=10", True))
        self.assertEqual((last["trial_id"], last["node_ip"]), ("1/1", "127.0.0.1"))
        for key in ("time_this_iter_s", "time_total_s", "time_since_restore", "timestamp", "pid"):
            self.assertIsInstance(last[key], (int, float), key)
        for key in ("date", "hostname"):
            self.assertTrue(last[key], key)
        rows = self.place.rows("steps", 1)
        self.assertEqual([row["training_iteration"] for row in rows], [1, 2, 3, 4, 5])
        head, *lines = (pathlib.Path(folder) / "progress.csv").read_text().splitlines()
        self.assertIn("late", head.split(","))
        self.assertEqual(len(lines), 5)
        params = json.loads((pathlib.Path(folder) / "params.json").read_text())
        self.assertEqual(params, {"a": 10, "net": {"w": 3}})
        # Its store went with the cluster; the checkpoint stayed.
        self.assertTrue(checkpoint.startswith(folder), checkpoint)
        self.assertTrue((pathlib.Path(checkpoint) / "_dict_checkpoint.pkl").exists())

    def test_checkpoints_of_dicts_are_stored_and_restored(self) -> None:
        self.assertEqual(self.place.said("""
import json, os
from rt import tune
from rt.air import CheckpointConfig, FailureConfig, RunConfig, session
from rt.air.checkpoint import Checkpoint

def train(config):
    start = session.get_checkpoint()
    first = start.to_dict()["epoch"] + 1 if start else 0
    for epoch in range(first, 4):
        session.report({"epoch": epoch, "first": first},
                       checkpoint=Checkpoint.from_dict({"epoch": epoch}))
        if epoch == 1 and not start:
            raise RuntimeError("once")
    left = [name for name in os.listdir(os.environ["RT_TRIAL_DIR"]) if name[0] != "."]
    tune.report({"epoch": 9, "first": first, "left": left})

result = tune.Tuner(train, run_config=RunConfig(
    name="dicts", failure_config=FailureConfig(max_failures=1),
    checkpoint_config=CheckpointConfig(num_to_keep=2))).fit()[0]
kept = [one.to_dict()["epoch"] for one, _ in result.best_checkpoints]
print(json.dumps([kept, result.metrics["first"], result.metrics["left"], result.log_dir.name]))
"""), [[2, 3], 2, [], "train_1_00000"])

    def test_an_older_function_goes_on_from_its_checkpoint_dir(self) -> None:
        ended = self.place.said("""
import json, os
from functools import partial
import rt as ray
from rt import tune
from rt.tune import CLIReporter
from rt.tune.suggest import ConcurrencyLimiter

def train(config, checkpoint_dir=None, data_dir=None):
    start = 0
    if checkpoint_dir:
        with open(os.path.join(checkpoint_dir, "epoch")) as file:
            start = int(file.read()) + 1
    for epoch in range(start, 6):
        if epoch == 3 and start == 0 and config["fails"]:
            raise RuntimeError("once")
        with tune.checkpoint_dir(epoch) as path:
            with open(os.path.join(path, "epoch"), "w") as file:
                file.write(str(epoch))
        tune.report(loss=6 - epoch, start=start, data=data_dir)

ray.init(num_cpus=2)
analysis = tune.run(partial(train, data_dir="/data"), max_failures=1, metric="loss", mode="min",
                    config={"fails": tune.grid_search([True, False])}, keep_checkpoints_num=1,
                    resources_per_trial={"cpu": 1, "gpu": 0}, verbose=1,
                    progress_reporter=CLIReporter(metric_columns=["loss"]))
print(json.dumps([[t.last_result[k] for k in ("start", "training_iteration", "loss", "data")]
                  for t in analysis.trials] + [os.listdir(analysis.best_checkpoint.value)]))
""")
        self.assertEqual(ended, [[3, 6, 1, "/data"], [0, 6, 1, "/data"], ["epoch"]])

    def test_mistakes_are_value_errors_that_say_what_to_do(self) -> None:
        said = self.place.said("""
import json
from rt import tune
def objective(config):
    return {"score": config["a"]}
said = []
def refused(call):
    try:
        call()
    except ValueError as error:
        said.append(str(error))
results = tune.Tuner(objective, param_space={"a": 1}).fit()
refused(lambda: results.get_best_result(metric="scoer", mode="min"))
refused(lambda: tune.run(objective, config={"a": 1}, metric="loss", mode="min"))
refused(lambda: tune.run(objective, config={"a": tune.sample_from(lambda spec: (i for i in [1]))}))
refused(lambda: tune.run(objective, config={"a": 1}, resources_per_trial={"gpu": 64}))
print(json.dumps(said))
""")
        self.assertEqual(len(said), 4, said)
        for text in said[:2]:
            self.assertIn("reported: score", text)
        self.assertRegex(said[2], "^a: .* cannot be sent to the trials")
        self.assertIn("64 gpus", said[3])


if __name__ == "__main__":
    unittest.main()
