"""Ray's search classes with a library's name, in the head and asked from a script."""

from __future__ import annotations

import json
import sys
import unittest
from typing import Any

from harness import ROOT
from script import Place

sys.path.insert(0, str(ROOT / "python"))

from rt import tune  # noqa: E402
from rt.tune.search.hebo import HEBOSearch  # noqa: E402
from rt.tune.search.optuna import OptunaSearch  # noqa: E402

SCRIPT = """
import json
from rt import tune
from rt.tune.search import ConcurrencyLimiter, Repeater
from rt.tune.search.bayesopt import BayesOptSearch
from rt.tune.search.hyperopt import HyperOptSearch

def objective(config):
    tune.report({"loss": (config["x"] - 0.3) ** 2 + abs(config["n"]["k"] - 4)})

space = {"x": tune.uniform(0, 1), "n": {"k": tune.randint(1, 9)}, "fixed": 3}
found = {}
for name, search in {
    "optuna": "optuna",
    "limited": ConcurrencyLimiter(BayesOptSearch(random_search_steps=3), 2),
    "repeated": Repeater(HyperOptSearch(random_state_seed=2, n_initial_points=2), 2),
}.items():
    done = tune.run(objective, config=space, metric="loss", mode="min", num_samples=6,
                    search_alg=search, verbose=1)
    found[name] = [trial.config for trial in done.trials]
print("FOUND", json.dumps(found))
"""


class RaySearchTest(unittest.TestCase):
    def test_searches_of_a_script(self) -> None:
        place = Place()
        self.addCleanup(place.close)
        done = place.run(SCRIPT)
        found: dict[str, list[dict[str, Any]]] = json.loads(done.stdout.split("FOUND ")[1])
        for name, configs in found.items():
            self.assertEqual(len(configs), 6, name)
            for config in configs:
                self.assertTrue(0 <= config["x"] < 1 and 1 <= config["n"]["k"] < 9, config)
                self.assertEqual(config["fixed"], 3)
        repeated = found["repeated"]
        self.assertEqual([each["__trial_index__"] for each in repeated], [0, 1] * 3)
        drawn = [each["x"] for each in repeated]
        self.assertEqual(drawn[::2], drawn[1::2])
        self.assertEqual(len(set(drawn)), 3)
        self.assertEqual(done.stderr.count("OptunaSearch (in Ray:"), 1, done.stderr)

    def test_known_values_teach_the_algorithm(self) -> None:
        """Points around the minimum, with their values, bring the proposals there."""
        space = {"x": tune.uniform(0, 1)}
        points = [{"x": i / 40} for i in range(40)]
        rewards = [abs(point["x"] - 0.7) for point in points]
        for kind, near_min in ((OptunaSearch, 5), (HEBOSearch, 0)):
            search = kind(space, "loss", "min", points, evaluated_rewards=rewards)
            (_, options), = search.chosen().to_spec().items()  # The head runs it, and knows them.
            self.assertEqual(len(options["evaluated"]), 40)
            proposed = [search.suggest(f"1/{i}")["x"] for i in range(8)]
            search.on_trial_complete("1/0", {"loss": abs(proposed[0] - 0.7)})
            search.on_trial_complete("1/1", error=True)
            optimizer = search._optimizer()
            optimizer.close()
            values = [trial.value for trial in optimizer.trials]
            self.assertEqual(values[:40], rewards)
            self.assertEqual(values[40:], [abs(proposed[0] - 0.7), *[None] * 7])
            near = [x for x in proposed if abs(x - 0.7) < 0.15]
            self.assertGreaterEqual(len(near), near_min, proposed)
