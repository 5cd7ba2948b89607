"""The Python classes of algorithms agree with the tables of the program."""

import inspect
import json
import os
import pathlib
import subprocess
import sys
import unittest
from typing import Any

from harness import BIN

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
os.environ["RT_BIN"] = str(BIN)

from rt.tune import uniform
from rt.tune.schedulers import (
    AsyncHyperBandScheduler, FIFOScheduler, HyperBandForBOHB, HyperBandScheduler,
    MedianStoppingRule, PopulationBasedTraining)
from rt.tune.search import (
    AutoSearch, BasicVariantGenerator, CMAESSearch, ConcurrencyLimiter, DEHBSearch, GPSearch,
    MobsterSearch, TPESearch, create_searcher)


def tables() -> dict[str, dict[str, Any]]:
    done = subprocess.run([BIN / "rt", "bridge", "--algorithms"], capture_output=True, check=True)
    return {table["name"]: table for table in json.loads(done.stdout)["algorithms"]}


class AlgorithmsTest(unittest.TestCase):
    def test_classes_have_the_options_and_defaults_of_the_tables(self) -> None:
        known = tables()
        for make in (AsyncHyperBandScheduler, FIFOScheduler, BasicVariantGenerator):
            (name, _), = make().to_spec().items()
            with self.subTest(name):
                parameters = inspect.signature(make).parameters
                renamed = {"points": "points_to_evaluate"}
                for option in known[name]["options"]:
                    default = parameters[renamed.get(option["name"], option["name"])].default
                    self.assertEqual(default or option["default"], option["default"])

    def test_every_option_of_a_spec_that_python_writes_is_known(self) -> None:
        known = tables()
        mutations = {"x": uniform(0, 1)}
        written = [AsyncHyperBandScheduler().to_spec(), MedianStoppingRule().to_spec(),
                   HyperBandScheduler().to_spec(), HyperBandForBOHB(max_t=9).to_spec(),
                   PopulationBasedTraining(hyperparam_mutations=mutations).to_spec(),
                   BasicVariantGenerator([{"x": 1}], constant_grid_search=True).to_spec()]
        for spec in written:
            (name, options), = spec.items()
            self.assertLessEqual(set(options), {one["name"] for one in known[name]["options"]})

    def test_tpe_takes_the_options_of_its_table(self) -> None:
        search = TPESearch([{"x": 1}], random_state=3, startup_trials=20, good_fraction=0.2)
        spec = {"tpe": {"points": [{"x": 1}], "startup_trials": 20, "good_fraction": 0.2}}
        self.assertEqual(search.to_spec(), spec)
        self.assertEqual(search.seed, 3)
        self.assertEqual(create_searcher("tpe").to_spec(), {"tpe": {}})
        self.assertEqual(ConcurrencyLimiter(TPESearch(), 4).to_spec(), {"tpe": {}})
        with self.assertRaisesRegex(ValueError, "tpe has no option 'n_startup_trials'"):
            TPESearch(n_startup_trials=20)
        with self.assertRaisesRegex(ValueError, "good_fraction must be above 0 and at most 1"):
            TPESearch(good_fraction=2)
        search = CMAESSearch([{"x": 1}], random_state=3, sigma0=0.2)
        self.assertEqual(search.to_spec(), {"cmaes": {"points": [{"x": 1}], "sigma0": 0.2}})
        self.assertEqual(create_searcher("cmaes").to_spec(), {"cmaes": {}})
        with self.assertRaisesRegex(ValueError, "sigma0"):
            CMAESSearch(sigma0=2)
        self.assertEqual(create_searcher("optuna").chosen().to_spec(), {"tpe": {}})
        with self.assertRaisesRegex(ValueError, r"no rt\.tune\.search\.flaml yet .*TPESearch"):
            create_searcher("flaml")
        gp = GPSearch([{"x": 1}], random_state=3, startup_trials=5)
        self.assertEqual(gp.to_spec(), {"gp": {"points": [{"x": 1}], "startup_trials": 5}})
        with self.assertRaisesRegex(ValueError, "history_max must be between 20 and 1000"):
            GPSearch(history_max=5)
        mobster = MobsterSearch([{"x": 1}], rows_min=5)
        self.assertEqual(mobster.to_spec(), {"mobster": {"points": [{"x": 1}], "rows_min": 5}})
        self.assertEqual(DEHBSearch(population_size=8).to_spec(), {"dehb": {"population_size": 8}})
        with self.assertRaisesRegex(ValueError, "dehb has no option 'rows_min'"):
            DEHBSearch(rows_min=5)
        self.assertEqual(AutoSearch().to_spec(), {"auto": {}})
        self.assertTrue(AutoSearch().needs_metric)
        with self.assertRaisesRegex(ValueError, "auto has no option 'startup_trials'"):
            AutoSearch(startup_trials=5)


if __name__ == "__main__":
    unittest.main()
