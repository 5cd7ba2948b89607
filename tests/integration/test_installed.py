"""What differs where the package is installed: its wrappers lie beside the libraries."""

import re
import unittest

from harness import ROOT
from script import Place

EVERY_KIND = """
import functools, json, os
from rt import tune

def train(config, data=None):
    import counted
    tune.report({"pid": os.getppid()})

class Steps:
    def run(self, config):
        return self.helper()

    def helper(self):
        return train(None)

class Stepper(tune.Trainable):
    def step(self):
        import counted
        return {"pid": os.getppid(), "done": True}

resources = functools.partial(tune.with_resources, resources={"cpu": 1})
kinds = {
    "bare": train,
    "with_resources": resources(train),
    "with_parameters": tune.with_parameters(train, data=[1]),
    "both": resources(tune.with_parameters(train, data=[1])),
    "both, the other way": tune.with_parameters(resources(train), data=[1]),
    "functools.partial": functools.partial(train, data=[1]),
    "bound method": Steps().run,
    "class": Stepper,
    "class with resources": resources(Stepper),
    "class with parameters": tune.with_parameters(Stepper),
}
parents = {}
for kind, trainable in kinds.items():
    space = {"x": tune.grid_search([1, 2, 3])}
    trials = tune.run(trainable, config=space, verbose=0).trials
    parents[kind] = [trial.last_result["pid"] for trial in trials]
print(json.dumps(parents))
"""


class WarmStartTest(unittest.TestCase):
    def setUp(self) -> None:
        self.place = Place()
        self.addCleanup(self.place.close)

    def check_every_kind(self) -> None:
        notes = self.place.root / "imports"
        self.place.write(f"import os\nwith open({str(notes)!r}, 'a') as file:\n"
                         "    file.write(f'{os.getpid()}\\n')\n", "counted.py")
        parents = self.place.said(EVERY_KIND)
        imported = [int(line) for line in notes.read_text().splitlines()]
        self.assertEqual(len(parents), 10)
        for kind, pids in parents.items():
            with self.subTest(kind=kind):
                self.assertEqual(len(set(pids)), 1, "not all trials are of one fork server")
                self.assertEqual(imported.count(pids[0]), 1, imported)
        self.assertEqual(len(imported), len(parents), "something else imported it, too")
        self.place.wait_gone()

    def test_a_fork_server_imports_once_what_its_trials_import(self) -> None:
        self.check_every_kind()

    def test_a_fork_server_of_the_installed_package_does_so_too(self) -> None:
        self.place.use_installed()
        self.check_every_kind()


class ExamplesTest(unittest.TestCase):
    def setUp(self) -> None:
        self.place = Place()
        self.addCleanup(self.place.close)
        self.place.use_installed()

    def test_digits_searched_with_the_installed_package(self) -> None:
        done = self.place.run_file(ROOT / "examples/digits/digits.py", "--api", "class",
                                   "--samples", "4", "--epochs", "4")
        self.assertIn("failed: 0", done.stdout)
        accuracy = re.search(r"best accuracy: ([\d.]+)", done.stdout)
        self.assertGreater(float(accuracy[1]), 0.5)
        self.place.wait_gone()

    def test_advisors_searched_with_the_installed_package(self) -> None:
        done = self.place.run_file(ROOT / "examples/advisors/advisors.py", "--samples", "4")
        self.assertIn("failed: 0", done.stdout)
        self.place.wait_gone()

    def test_listings_searched_with_the_installed_package(self) -> None:
        for name, said in (("tuner_objective", "'a'"), ("init_first", "'x'")):
            with self.subTest(name=name):
                done = self.place.run_file(ROOT / f"examples/listings/{name}.py")
                self.assertIn(said, done.stdout)
        self.place.wait_gone()


if __name__ == "__main__":
    unittest.main()
