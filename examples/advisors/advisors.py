"""A searcher, a scheduler, a stopper and a callback of one's own, on the handwritten digits.

    python advisors.py [--samples 8]

The searcher climbs: each trial starts from the best configuration so far. The scheduler ends a
trial that has not become better for three epochs. They run in this script; on a cluster the search
waits while the script is away, and goes on when it is run again.
"""

import argparse
import random

from rt import tune
from rt.tune.schedulers import TrialScheduler
from rt.tune.search import ConcurrencyLimiter, Searcher


class Climber(Searcher):
    """Changes the best configuration a little. Seeded, so that it can be told its past again."""

    def __init__(self, samples, seed=1):
        super().__init__(metric="accuracy", mode="max")
        self.left = samples
        self.random = random.Random(seed)
        self.best = ({"lr": 0.05, "alpha": 1e-3}, 0.0)
        self.tried = {}

    def suggest(self, trial_id):
        if self.left == 0:
            return Searcher.FINISHED
        self.left -= 1
        config = {key: value * self.random.choice([0.3, 1.0, 3.0])
                  for key, value in self.best[0].items()}
        self.tried[trial_id] = config
        return config

    def on_trial_complete(self, trial_id, result=None, error=False):
        if result and result["accuracy"] > self.best[1]:
            self.best = (self.tried[trial_id], result["accuracy"])


class Patience(TrialScheduler):
    """Ends a trial whose accuracy has not risen for `epochs` results."""

    def __init__(self, epochs=3):
        self.epochs = epochs
        self.best = {}

    def on_trial_result(self, tune_controller, trial, result):
        best, since = self.best.get(trial.trial_id, (0.0, 0))
        if result["accuracy"] > best:
            self.best[trial.trial_id] = (result["accuracy"], 0)
            return TrialScheduler.CONTINUE
        self.best[trial.trial_id] = (best, since + 1)
        return TrialScheduler.STOP if since + 1 >= self.epochs else TrialScheduler.CONTINUE


class Ends(tune.Callback):
    """Prints a line for each trial that ends."""

    def on_trial_complete(self, iteration, trials, trial, **info):
        last = trial.last_result
        print(f"{trial}: {last['accuracy']:.3f} after {last['training_iteration']} epochs")


def train(config):
    from sklearn.datasets import load_digits
    from sklearn.linear_model import SGDClassifier
    from sklearn.model_selection import train_test_split

    x, y = load_digits(return_X_y=True)
    x_train, x_test, y_train, y_test = train_test_split(x / 16, y, random_state=0)
    model = SGDClassifier(loss="log_loss", learning_rate="constant", eta0=config["lr"],
                          alpha=config["alpha"], random_state=0)
    for _ in range(config["epochs"]):
        model.partial_fit(x_train, y_train, classes=range(10))
        tune.report({"accuracy": model.score(x_test, y_test)})


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=int, default=8)
    options = parser.parse_args()
    tuner = tune.Tuner(
        train,
        param_space={"epochs": 12},
        tune_config=tune.TuneConfig(
            metric="accuracy", mode="max", num_samples=-1, scheduler=Patience(),
            search_alg=ConcurrencyLimiter(Climber(options.samples), max_concurrent=2),
        ),
        run_config=tune.RunConfig(
            callbacks=[Ends()], stop=lambda trial_id, result: result["accuracy"] >= 0.99,
        ),
    )
    results = tuner.fit()
    best = results.get_best_result()
    print(f"failed: {results.num_errors}")
    print(f"best accuracy: {best.metrics['accuracy']:.3f}")
    print(f"best configuration: {best.config}")


if __name__ == "__main__":
    main()
