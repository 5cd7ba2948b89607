"""A driver whose searcher, scheduler and callback are its own; each notes what it is told.

    advised_program.py NOTES TRIALS STEPS PAUSE_S
"""

import json
import os
import pathlib
import sys
import time

from rt import tune
from rt.tune.schedulers import TrialScheduler
from rt.tune.search import Searcher

NOTES = pathlib.Path(sys.argv[1])
TRIALS, STEPS, PAUSE_S = int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])


def note(who, *what):
    with open(NOTES / who, "a") as out:
        out.write(json.dumps([os.getpid(), *what]) + "\n")


class Counting(Searcher):
    """x = 1, 2, ...; knows how many trials have ended."""

    def __init__(self):
        super().__init__("v", "max")
        self.suggested = self.ended = 0

    def suggest(self, trial_id):
        if self.suggested == TRIALS:
            return Searcher.FINISHED
        self.suggested += 1
        return {"x": self.suggested}

    def on_trial_complete(self, trial_id, result=None, error=False):
        self.ended += 1
        note("searcher", trial_id, error)


class HalfWay(TrialScheduler):
    """Odd trials end half-way."""

    def on_trial_result(self, tune_controller, trial, result):
        note("scheduler", trial.number, result["training_iteration"])
        ends = trial.number % 2 and result["training_iteration"] >= STEPS // 2
        return TrialScheduler.STOP if ends else TrialScheduler.CONTINUE


class Watcher(tune.Callback):
    def on_trial_result(self, iteration, trials, trial, result, **info):
        note("callback", trial.number, result["training_iteration"])

    def on_experiment_end(self, trials, **info):
        note("callback", "end", len(trials))


def objective(config):
    for step in range(STEPS):
        tune.report({"v": config["x"] * (step + 1), "k": config["k"]})
        time.sleep(PAUSE_S)


searcher = Counting()
results = tune.Tuner(
    objective,
    param_space={"k": 7},
    tune_config=tune.TuneConfig(
        metric="v", mode="max", search_alg=searcher, scheduler=HalfWay(), num_samples=-1
    ),
    run_config=tune.RunConfig(name="advised", callbacks=[Watcher()], verbose=0),
).fit()
rows = [[each.config["x"], each.config["k"], each.metrics["training_iteration"]]
        for each in results]
print(json.dumps({"rows": rows, "ended": searcher.ended}))
