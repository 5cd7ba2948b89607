"""Schedulers of the head in plain scripts: promotion ASHA, HyperBand and population based training,
which resume trials from checkpoints, resources that change, and the median stopping rule."""

import json
import unittest

from script import Place

TRAINABLE = """
import json, os, tempfile
from rt import tune

def load():
    checkpoint = tune.get_checkpoint()
    if not checkpoint:
        return None
    with checkpoint.as_directory() as folder:
        with open(os.path.join(folder, "state.json")) as file:
            return json.load(file)

def save(state, metrics):
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "state.json"), "w") as file:
            json.dump(state, file)
        tune.report(metrics, checkpoint=tune.Checkpoint.from_directory(folder))
"""

# Two trials, each of which can improve one of two weights (Jaderberg et al. 2017, figure 2): alone,
# a trial comes to 0.39; with the weights of the other one, to 1.2.
TOY = TRAINABLE + """
import time
from rt.tune.schedulers import PopulationBasedTraining

met = os.path.abspath("met")
os.makedirs(met)

def toy(config):
    open(os.path.join(met, str(os.getpid())), "w").close()
    while len(os.listdir(met)) < 2:  # Both have begun before one can end.
        time.sleep(0.002)
    state = load() or {"step": 0, "weights": [0.9, 0.9]}
    rates = [config["h0"], config["h1"]]
    while state["step"] < 240:
        state["step"] += 1
        state["weights"] = [w - 0.2 * h * w for w, h in zip(state["weights"], rates)]
        score = 1.2 - sum(w * w for w in state["weights"])
        if state["step"] % 4 == 0:
            save(state, {"score": score, "step": state["step"]})
        else:
            tune.report({"score": score, "step": state["step"]})

results = tune.Tuner(
    tune.with_resources(toy, {"cpu": 0.5}),
    param_space={"h0": tune.uniform(0, 1), "h1": tune.uniform(0, 1)},
    tune_config=tune.TuneConfig(
        metric="score", mode="max",
        search_alg=tune.search.BasicVariantGenerator(
            points_to_evaluate=[{"h0": 1.0, "h1": 0.0}, {"h0": 0.0, "h1": 1.0}]),
        num_samples=2,
        scheduler=PopulationBasedTraining(
            time_attr="step", perturbation_interval=4, quantile_fraction=0.5,
            hyperparam_mutations={"h0": tune.uniform(0, 1), "h1": tune.uniform(0, 1)})),
    run_config=tune.RunConfig(name="toy"),
).fit()
def configs_of(path):
    with open(os.path.join(path, "result.json")) as file:
        return len({json.dumps(json.loads(line)["config"], sort_keys=True) for line in file})

print("RESULT", json.dumps({"best": results.get_best_result().metrics["score"],
                            "configs": [configs_of(each.path) for each in results]}))
"""

RUNGS = TRAINABLE + """
def climb(config):
    state = load() or {"step": 0}
    while state["step"] < 9:
        state["step"] += 1
        save(state, {"loss": config["x"] - 0.01 * state["step"]})

# The rows of each trial, and the best configuration.
def search(name, values, scheduler, **options):
    results = tune.Tuner(
        tune.with_resources(climb, {"cpu": 1}),
        param_space={"x": tune.grid_search(values)},
        tune_config=tune.TuneConfig(metric="loss", mode="min", scheduler=scheduler, **options),
        run_config=tune.RunConfig(name=name),
    ).fit()
    rows = [sum(1 for _ in open(os.path.join(each.path, "result.json"))) for each in results]
    return rows, results.get_best_result().config["x"]

asha = tune.create_scheduler("asha_promotion", max_t=9, reduction_factor=3)
found = {
    "promotion": search("climb", [9, 8, 7, 6, 5, 4, 3, 2, 1], asha, max_concurrent_trials=1),
    "pasha": search("pasha", [9, 8, 7, 6, 5, 4, 3, 2, 1],
                    tune.create_scheduler("pasha", max_t=27, reduction_factor=3),
                    max_concurrent_trials=1),
    "hyperband": search("band", [5, 4, 3, 2, 1],
                        tune.schedulers.HyperBandScheduler(max_t=3, reduction_factor=3)),
    "median": search("median", [3, 1, 9, 2],
                     tune.schedulers.MedianStoppingRule(
                         "training_iteration", grace_period=4, min_samples_required=2),
                     max_concurrent_trials=1),
}
print("RESULT", json.dumps(found))
"""

# Trials that improve by their rate in each step; the best rate is 1.
TURNS = TRAINABLE + """
import glob
from rt.tune.schedulers import PB2, PopulationBasedTraining, PopulationBasedTrainingReplay

def climb(config):
    state = load() or {"step": 0, "height": 0.0}
    while state["step"] < 8:
        state["step"] += 1
        state["height"] += 1 - abs(config["rate"] - 1)
        save(state, {"height": state["height"]})

def rows_of(results):
    found = []
    for each in results:
        with open(os.path.join(each.path, "result.json")) as file:
            found.append([json.loads(line) for line in file])
    return found

def search(name, scheduler, rates, callbacks=(), **options):
    results = tune.Tuner(
        tune.with_resources(climb, {"cpu": 1}),
        param_space={"rate": tune.grid_search(rates)},
        tune_config=tune.TuneConfig(metric="height", mode="max", scheduler=scheduler, **options),
        run_config=tune.RunConfig(name=name, callbacks=list(callbacks)),
    ).fit()
    policies[name] = sorted(glob.glob(results.experiment_path + "/pbt_policy_*.txt"))
    return rows_of(results)

policies = {}

interval = {"time_attr": "training_iteration", "perturbation_interval": 2}
mutations = {"rate": tune.uniform(0, 1)}
# Nobody is replaced: the trials only take turns.
turns = search("turns", PopulationBasedTraining(
    **interval, hyperparam_mutations=mutations, quantile_fraction=0), [0.1, 0.2, 0.3],
    max_concurrent_trials=1)
together = search("together", PopulationBasedTraining(
    **interval, hyperparam_mutations=mutations, quantile_fraction=0.5, synch=True), [0.1, 0.9])
seen = []
told = []
class Watcher(tune.Callback):
    def on_trial_result(self, iteration, trials, trial, result, **info):
        number = int(trial.trial_id.split("/")[1])
        told.append([number, result["training_iteration"], trial.config, result["config"]])
def mine(config):
    seen.append(dict(config))
    if len(seen) > 1:
        raise KeyError("nothing to explore")
    return {"rate": config["rate"] / 2, "made": len(seen)}
explored = search("explored", PopulationBasedTraining(
    **interval, quantile_fraction=0.5, synch=True, custom_explore_fn=mine), [0.1, 0.9],
    callbacks=[Watcher()])
bandit = search("bandit", PB2(
    **interval, hyperparam_bounds={"rate": [0, 1]}, quantile_fraction=0.5), [0.05, 0.9])
with open("policy.txt", "w") as file:
    file.write(json.dumps(["0", "1", 4, 4, {"rate": 0.25}, {"rate": 0.75}]))
replay = search("replay", PopulationBasedTrainingReplay("policy.txt"), [1.0])
# Nobody is cloned at the last step, and the clone is the worse one also after the first.
chain = search("chain", PopulationBasedTraining(
    time_attr="training_iteration", perturbation_interval=3, quantile_fraction=0.5, synch=True,
    custom_explore_fn=lambda config: {"rate": 0.5}), [0.1, 0.9])
followed = search("followed", PopulationBasedTrainingReplay(policies["chain"][0]), [1.0])
stopped = rows_of(tune.Tuner(climb, param_space={"rate": 0.5}, run_config=tune.RunConfig(
    name="stopped", stop="height > 1.2 or training_iteration >= 7")).fit())
print("RESULT", json.dumps({
    "turns": [[row["iterations_since_restore"] for row in rows] for rows in turns],
    "together": [sorted({row["config"]["rate"] for row in rows}) for rows in together],
    "explored": [[row["config"] for row in rows] for rows in explored],
    "seen": seen,
    "told": told,
    "bandit": [sorted({row["config"]["rate"] for row in rows}) for rows in bandit],
    "replay": [[row["config"]["rate"] for row in rows] for rows in replay],
    "policies": {name: [os.path.basename(each) for each in found]
                 for name, found in policies.items()},
    "clone": [chain[0][-1]["height"], chain[0][-1]["config"]],
    "followed": [[rows[-1]["height"], rows[-1]["config"]] for rows in followed],
    "stopped": [len(rows) for rows in stopped]}))
"""

# One trial is short; the other one gets its cpus, and those that nobody has.
GROWTH = TRAINABLE + """
import rt
from rt.tune.schedulers import ResourceChangingScheduler

def climb(config):
    state = load() or {"step": 0}
    while state["step"] < config["steps"]:
        state["step"] += 1
        cpus = tune.get_context().get_trial_resources()["cpu"]
        save(state, {"step": state["step"], "cpus": cpus})

rt.init(num_cpus=3)
results = tune.Tuner(
    tune.with_resources(climb, {"cpu": 1}),
    param_space={"steps": tune.grid_search([2, 30])},
    tune_config=tune.TuneConfig(metric="step", mode="max", scheduler=ResourceChangingScheduler()),
    run_config=tune.RunConfig(name="growth"),
).fit()
found = []
for each in results:
    with open(os.path.join(each.path, "result.json")) as file:
        found.append([[row["step"], row["cpus"]] for row in map(json.loads, file)])
print("RESULT", json.dumps(found))
"""


# The same by a function of the script's own, as Ray's documentation has it. The long trial ends
# once it has trained with all cpus.
GIVEN = TRAINABLE + """
import time
import rt
from rt.tune.schedulers import ResourceChangingScheduler

def climb(config):
    state = load() or {"step": 0, "wide": 0}
    while state["step"] < 2 if config["short"] else state["wide"] < 3:
        time.sleep(0.02)
        state["step"] += 1
        cpus = int(tune.get_context().get_trial_resources().head_cpus)
        state["wide"] += cpus == 3
        save(state, {"step": state["step"], "cpus": cpus})

def share(tune_controller, trial, result, scheduler):
    base = scheduler.base_trial_resources
    least = base.required_resources.get("CPU", 0)
    cpus = tune_controller._resource_updater.get_num_cpus()
    share = cpus // len(tune_controller.get_live_trials())
    return tune.PlacementGroupFactory([{"CPU": max(least, share), "GPU": 0}])

rt.init(num_cpus=3)
results = tune.Tuner(
    tune.with_resources(climb, tune.PlacementGroupFactory([{"CPU": 1}])),
    param_space={"short": tune.grid_search([True, False])},
    tune_config=tune.TuneConfig(
        metric="step", mode="max", scheduler=ResourceChangingScheduler("fifo", share)),
    run_config=tune.RunConfig(name="given"),
).fit()
found = []
for each in results:
    with open(os.path.join(each.path, "result.json")) as file:
        found.append([[row["step"], row["cpus"]] for row in map(json.loads, file)])
print("RESULT", json.dumps(found))
"""


class PopulationsTest(unittest.TestCase):
    def setUp(self) -> None:
        self.place = Place()
        self.addCleanup(self.place.close)

    def result_of(self, script: str) -> dict:
        done = self.place.run(script)
        self.place.wait_gone()
        return json.loads(done.stdout.split("RESULT", 1)[1].splitlines()[0])

    def test_population_based_training_solves_the_toy_with_two_weights(self) -> None:
        result = self.result_of(TOY)
        self.assertGreaterEqual(result["best"], 1.15)
        self.assertGreater(max(result["configs"]), 1)  # Rows have the configuration of their time.

    def test_rungs_and_medians_end_trials_early_and_train_no_step_twice(self) -> None:
        found = self.result_of(RUNGS)
        # Each trial is better than all before it, so that one is promoted on arrival as soon as a
        # rung has three: the first two stay at rung 1, the next two at rung 3.
        self.assertEqual(found["promotion"], [[1, 1, 3, 3, 9, 9, 9, 9, 9], 1])
        # The ranks at both rungs agree, so that no higher rung is opened. At the end the best trial
        # continues, alone.
        self.assertEqual(found["pasha"], [[1, 1, 3, 3, 3, 3, 3, 3, 9], 1])
        # Two trials train to max_t at once; of the bracket of three, the best one does.
        self.assertEqual(found["hyperband"], [[3, 3, 1, 1, 3], 1])
        # The third is worse than the median of the first two as soon as the grace period is over.
        self.assertEqual(found["median"], [[9, 9, 4, 9], 1])

    def test_a_trial_that_saves_gets_the_resources_that_nobody_has(self) -> None:
        short, long = self.result_of(GROWTH)
        self.assertEqual([step for step, _ in short], [1, 2])
        self.assertEqual([step for step, _ in long], list(range(1, 31)))  # None twice.
        self.assertEqual((long[0][1], long[-1][1]), (1, 3))

    def test_a_function_of_the_script_gives_resources(self) -> None:
        short, long = self.result_of(GIVEN)
        self.assertEqual([step for step, _ in short], [1, 2])
        self.assertEqual([step for step, _ in long], list(range(1, len(long) + 1)))  # None twice.
        self.assertEqual((long[0][1], [cpus for _, cpus in long[-3:]]), (1, [3, 3, 3]))

    def test_a_population_takes_turns_and_policies_are_replayed(self) -> None:
        found = self.result_of(TURNS)
        # On one slot each of three trials runs for two steps at a time, until the others are done.
        self.assertEqual([len(steps) for steps in found["turns"]], [8, 8, 8])
        self.assertEqual(found["turns"][0][:6], [1, 2, 1, 2, 1, 2])
        # The worse of two trials continues from the better one, and has another rate from then on.
        for name, worse in (("together", 0.1), ("bandit", 0.05)):
            self.assertGreater(len(found[name][0]), 1, name)
            self.assertIn(worse, found[name][0], name)
            self.assertIn(0.9, found[name][1], name)
        # Its first clone has what the function made of the parent's configuration; those after it,
        # of which it makes nothing, have the parent's.
        self.assertEqual(found["seen"][0], {"rate": 0.9})
        worse, better = found["explored"]
        self.assertEqual(worse[:4], [{"rate": 0.1}] * 2 + [{"rate": 0.45, "made": 1}] * 2)
        self.assertEqual((worse[4:], better), ([{"rate": 0.9}] * 4, [{"rate": 0.9}] * 8))
        # A callback sees the configuration that a trial has now, in the trial and in the row.
        for number, rows in enumerate(found["explored"]):
            for iteration, config in enumerate(rows, 1):
                self.assertIn([number, iteration, config, config], found["told"])
        self.assertEqual(len(found["told"]), len(worse) + len(better))
        self.assertEqual(found["replay"], [[0.25] * 4 + [0.75] * 4])
        # The policy that the search left of its clone leads to the same end.
        self.assertEqual(found["policies"]["chain"], ["pbt_policy_6_0.txt"])
        self.assertEqual(found["policies"]["turns"], [])
        self.assertEqual(found["followed"], [found["clone"]])
        self.assertEqual(found["stopped"], [3])


if __name__ == "__main__":
    unittest.main()
