"""tune.search.Optimizer: the head's algorithms asked through `rt bridge --optimize`."""

from __future__ import annotations

import concurrent.futures
import copy
import math
import os
import pickle
import signal
import sys
import tempfile
import unittest
import warnings
from pathlib import Path

from harness import ROOT

sys.path.insert(0, str(ROOT / "python"))

from rt import tune  # noqa: E402
from rt.tune.search import Optimizer, TPESearch  # noqa: E402


class Marker:
    """A value that JSON cannot hold."""

    def __init__(self, name: str) -> None:
        self.name = name


class OptimizerTest(unittest.TestCase):
    def optimizer(self, space: "dict[str, object]", **arguments: object) -> Optimizer:
        made = Optimizer(space, **arguments)  # type: ignore[arg-type]
        self.addCleanup(made.close)
        return made

    def restored(self, optimizer: Optimizer) -> Optimizer:
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "state")
            optimizer.save(path)
            made = Optimizer.restore(path)
        self.addCleanup(made.close)
        return made

    def test_each_algorithm_finds_the_minimum(self) -> None:
        for algorithm in ("tpe", "cmaes", "gp", "auto", "bohb", "dehb", "mobster",
                          TPESearch(startup_trials=8, random_state=3)):
            optimizer = self.optimizer({"x": tune.uniform(-1, 1)}, algorithm=algorithm,
                                       seed=1 if isinstance(algorithm, str) else None)
            for _ in range(40):
                trial = optimizer.ask()
                optimizer.tell(trial, (trial.config["x"] - 0.3) ** 2)
            assert optimizer.best is not None and optimizer.best.value is not None
            self.assertLess(optimizer.best.value, 1e-3, str(algorithm))

    def test_a_restored_optimizer_proposes_what_would_have_come_next(self) -> None:
        space = {"x": tune.loguniform(1e-4, 1), "n": {"k": tune.randint(1, 9)},
                 "kind": tune.choice([Marker("a"), Marker("b")]),
                 "twice": tune.sample_from(lambda config: config["n"]["k"] * 2)}
        optimizer = self.optimizer(space, metric="acc", mode="max", algorithm="tpe", seed=5)
        for trial in optimizer.ask(n=30):
            if trial.number % 5 == 0:
                continue  # Stays open.
            if trial.number % 7 == 0:
                optimizer.tell(trial, error="out of memory")
            else:
                optimizer.tell(trial.number, {"acc": -trial.config["x"], "other": 1})
        again = self.restored(optimizer)
        assert again.best is not None and optimizer.best is not None
        self.assertEqual(again.best.config["x"], optimizer.best.config["x"])
        for ours, theirs in zip(optimizer.ask(n=5), again.ask(n=5)):
            self.assertEqual(ours.number, theirs.number)
            self.assertEqual((ours.config["x"], ours.config["n"], ours.config["kind"].name),
                             (theirs.config["x"], theirs.config["n"], theirs.config["kind"].name))
            self.assertEqual(ours.config["twice"], 2 * ours.config["n"]["k"])
        again.tell(0, {"acc": 1.0})
        self.assertEqual(again.best.number, 0)

    def test_a_grid_is_used_up(self) -> None:
        space = {"x": tune.grid_search([1, 2]), "y": tune.grid_search(["p", "q"])}
        optimizer = self.optimizer(space, algorithm="random")
        self.assertEqual(len(optimizer.ask(n=9)), 4)
        self.assertIsNone(optimizer.ask())

    def test_the_best_intermediate_value_counts(self) -> None:
        optimizer = self.optimizer({"x": tune.uniform(0, 1)}, algorithm="random", seed=2)
        first, second, third = optimizer.ask(n=3)
        optimizer.tell(first, 0.5)
        optimizer.tell(second, 0.9, intermediate=[0.8, 0.2, math.nan])
        optimizer.tell(third, math.inf)
        self.assertTrue(third.error)
        self.assertIs(optimizer.best, second)
        self.assertEqual(second.value, 0.2)

    def test_lists_of_one_are_one_objective(self) -> None:
        space = {"x": tune.uniform(0, 1)}
        for constraints, told in (({}, [0.5]), ({"memory": {"<=": 1}}, [0.5, 0.7])):
            optimizer = self.optimizer(space, metric=["loss"], mode=["max"], algorithm="random",
                                       seed=2, constraints=constraints)
            first, second = optimizer.ask(n=2)
            optimizer.tell(first, {"loss": 0.2, "memory": 0.1})
            optimizer.tell(second, told)
            self.assertIs(optimizer.best, second)
            self.assertEqual(optimizer.best_trials, [second])
            again = self.restored(optimizer)
            self.assertEqual(again.best.value, 0.5)
            again.tell(again.ask(), [0.9] * len(told))
            self.assertEqual(again.best.value, 0.9)

    def test_several_objectives_constraints_and_conditions(self) -> None:
        space = {"kind": tune.choice(["a", "b"]), "x": tune.uniform(0, 1),
                 "net": tune.choice([{"of": "b", "y": tune.uniform(0, 1)}, "none"])}
        for algorithm in ("tpe", "gp"):
            optimizer = self.optimizer(space, metric=["loss", "speed"], mode=["min", "max"],
                                       algorithm=algorithm, seed=3,
                                       constraints={"memory": {"<=": 0.6}})
            for trial in optimizer.ask(n=25):
                config = trial.config
                y = config["net"]["y"] if isinstance(config["net"], dict) else 1.0
                if trial.number % 9 == 0:
                    optimizer.tell(trial, error="out of memory")
                elif trial.number % 2 == 0:
                    optimizer.tell(trial, {"loss": config["x"] + y, "speed": -y,
                                           "memory": config["x"]})
                else:
                    optimizer.tell(trial, [config["x"] + y, -y, config["x"]])
            front = optimizer.best_trials
            self.assertTrue(front)
            for trial in front:
                assert trial.values is not None
                self.assertLessEqual(trial.values[2], 0.6)
            again = self.restored(optimizer)
            self.assertEqual([one.number for one in again.best_trials],
                             [one.number for one in front])
            self.assertEqual([one.config for one in optimizer.ask(n=3)],
                             [one.config for one in again.ask(n=3)])
        with self.assertRaisesRegex(ValueError, "must be a list of loss, speed, memory"):
            optimizer.tell(optimizer.ask(), [1.0, 2.0])
        with self.assertRaisesRegex(ValueError, "'memory' is not in what was told"):
            optimizer.tell(optimizer.ask(), {"loss": 1, "speed": 2})

    def test_what_is_not_valid_is_refused_and_changes_nothing(self) -> None:
        optimizer = self.optimizer({"x": tune.uniform(0, 1)}, metric="loss", seed=1)
        trial = optimizer.ask()
        for told, words in (({"lss": 1}, "'loss' is not in what was told"), ("a", "a number"),
                            ([0.5], "a number"), (10 ** 400, "must be a number, not 1000"),
                            (None, "needs a value")):
            with self.assertRaisesRegex(ValueError, words):
                optimizer.tell(trial, told)
        with self.assertRaisesRegex(ValueError, "was not asked for"):
            optimizer.tell(7, 1.0)
        optimizer.tell(trial, 1.0)
        with self.assertRaisesRegex(ValueError, "told before"):
            optimizer.tell(trial, 0.1)
        self.assertEqual(trial.value, 1.0)
        for told in ("1.0", b"1"):  # As a row's metric on a cluster.
            with self.assertRaisesRegex(ValueError, "the value must be a number, not b?'1"):
                optimizer.tell(optimizer.ask(), told)
        for count, words in ((0, "n must be at least 1, not 0"), (2 ** 70, "n must be at most"),
                             (1.5, "n must be a whole number, not 1.5")):
            with self.assertRaisesRegex(ValueError, words):
                optimizer.ask(n=count)  # type: ignore[arg-type]
        with self.assertRaisesRegex(ValueError, "x: tune.uniform is the function, not a"):
            Optimizer({"x": tune.uniform})
        with self.assertRaisesRegex(ValueError, "metric must be the name of a value, not ''"):
            Optimizer({"x": tune.uniform(0, 1)}, metric="")
        with self.assertRaisesRegex(ValueError, "tpe does not search a grid"):
            Optimizer({"x": tune.grid_search([1])}, algorithm="tpe")
        with self.assertRaisesRegex(ValueError, "unknown search algorithm 'tpee'"):
            Optimizer({"x": tune.uniform(0, 1)}, algorithm="tpee")
        with self.assertRaisesRegex(ValueError, "'rat' is not in the search space; did you mean "
                                                "'rate'"):
            Optimizer({"rate": tune.uniform(0, 1)}, points_to_evaluate=[{"rat": 0.5}])

    def test_nothing_is_learned_from_what_lies_outside_the_space(self) -> None:
        space = {"x": tune.uniform(0, 1), "kind": tune.choice([
            {"name": "a", "rate": tune.uniform(0, 1)}, {"name": "b", "rate": tune.uniform(5, 9)}])}

        def proposed(added: list, check: object = None) -> list:
            optimizer = self.optimizer(space, seed=1, startup_trials=2)
            for config in added:
                optimizer.add(config, -1.0)
            for number in range(4):
                optimizer.tell(optimizer.ask(), float(number))
            again = self.restored(optimizer)
            found = optimizer.ask(3)
            self.assertEqual([t.config for t in again.ask(3)], [t.config for t in found])
            return [trial.config for trial in found]
        inside = {"x": 0.5, "kind": {"name": "b", "rate": 6.0}}
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            learned = proposed([inside])
        outside = [{**inside, "x": 1.5}, {"x": 0.5, "kind": {"name": "b", "rate": 3.0}}, {"x": 0.5}]
        with self.assertWarnsRegex(UserWarning, "lies outside the space or lacks a parameter"):
            ignored = proposed(outside)
        nothing = [{"x": -1.0, "kind": {"name": "c"}}] * 3
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.assertEqual(ignored, proposed(nothing))
        self.assertNotEqual(ignored, learned)
        with self.assertRaisesRegex(ValueError, "1.5 lies outside the range of space/x, from 0 to "
                                                "1"):
            self.optimizer(space, points_to_evaluate=[{"x": 1.5}])

    def test_slips_in_arguments_are_named(self) -> None:
        space = {"x": tune.uniform(0, 1), "n": {"k": tune.randint(1, 9)}}
        optimizer = self.optimizer(space, seed=1)
        trial = optimizer.ask()
        for intermediate in (3, ["a"]):
            with self.assertRaisesRegex(ValueError, "intermediate must be a list of numbers"):
                optimizer.tell(trial, 1.0, intermediate=intermediate)  # type: ignore[arg-type]
        with self.assertRaisesRegex(ValueError, "config: y is not in the search space"):
            optimizer.add({"x": 0.5, "y": 1}, 1.0)
        with self.assertRaisesRegex(ValueError, "config is a dict with all parameters, not 'x'"):
            optimizer.add("x", 1.0)  # type: ignore[arg-type]
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # It is a configuration of the space.
            optimizer.add({"x": 0.5, "n/k": 3}, 1.0)
        optimizer.tell(trial, 1.0)
        with self.assertRaisesRegex(ValueError, "constraints is a dict such as"):
            Optimizer(space, constraints=[1])  # type: ignore[arg-type]
        with self.assertRaisesRegex(ValueError, "^constraints/m/<=: must be a finite number, not "
                                                "nan"):
            Optimizer(space, constraints={"m": {"<=": math.nan}})
        optimizer.close()
        with self.assertRaisesRegex(ValueError, "this Optimizer was closed"):
            optimizer.ask()

    def test_what_is_added_has_numbers_that_the_space_could_draw(self) -> None:
        space = {"lr": tune.uniform(0, 1), "n": {"k": tune.randint(1, 9)},
                 "net": tune.choice([{"of": "a", "w": tune.lograndint(4, 64)},
                                     {"of": "b", "w": tune.uniform(0, 1)}])}
        good = {"lr": 0.5, "n": {"k": 3}, "net": {"of": "a", "w": 8}}
        for algorithm in ("tpe", "random"):
            optimizer = self.optimizer(space, metric="loss", algorithm=algorithm, seed=1)
            for config, value, words in (
                    ({**good, "n": {"k": 2.5}}, 1.0,
                     "config/n/k: must be a whole number, not 2.5 .give a value such as "
                     "space/n/k draws"),
                    ({**good, "n/k": True}, 1.0, "config/n/k: must be a whole number, not true"),
                    ({**good, "lr": "0.5"}, 1.0, "config/lr: must be a number, not \"0.5\""),
                    ({**good, "lr": math.nan}, 1.0, "config/lr: must be a"),
                    (good, "x", "the value must be a number, not 'x'"),
                    (good, None, "needs a value"),
                    (good, {"los": 1}, "'loss' is not in what was told")):
                with self.assertRaisesRegex(ValueError, words):
                    optimizer.add(config, value)
            self.assertEqual(optimizer.trials, [])
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                optimizer.add({**good, "n": {"k": 3.0}}, 1.0)
                optimizer.add({**good, "net": {"of": "b", "w": 0.5}}, 2.0)
            self.assertEqual([trial.number for trial in optimizer.trials], [0, 1])
            self.assertEqual(optimizer.ask().number, 2)  # The program counts the same trials.

    def test_a_trial_is_told_to_the_optimizer_that_was_asked(self) -> None:
        space = {"x": tune.uniform(0, 1)}
        first, second = self.optimizer(space, seed=1), self.optimizer(space, seed=2)
        trial, other = first.ask(), second.ask()
        with self.assertRaisesRegex(ValueError, "trial 0 is of another Optimizer"):
            second.tell(trial, 1.0)
        self.assertIsNone(other.value)
        self.restored(first).tell(trial, 1.0)  # It is the same search.
        first.tell(trial, 1.0)

    def test_threads_get_the_configurations_of_their_numbers(self) -> None:
        space = {"x": tune.uniform(0, 1)}
        expected = [trial.config for trial in
                    self.optimizer(space, algorithm="random", seed=3).ask(n=400)]
        optimizer = self.optimizer(space, algorithm="random", seed=3)

        def work(_: int) -> None:
            trial = optimizer.ask()
            optimizer.tell(trial, trial.config["x"])
        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        self.addCleanup(sys.setswitchinterval, interval)
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(work, range(400)))
        self.assertEqual([trial.config for trial in optimizer.trials], expected)
        self.assertEqual([trial.number for trial in optimizer.trials], list(range(400)))

    def test_an_interrupted_exchange_changes_nothing(self) -> None:
        space = {"x": tune.uniform(0, 1), "fails": tune.sample_from(lambda config: 1 // fails[0])}
        fails = [1]
        optimizer = self.optimizer(space, seed=1, startup_trials=3)
        expected = self.optimizer(space, seed=1, startup_trials=3)
        for number in range(6):
            optimizer.tell(optimizer.ask(), number)
            expected.tell(expected.ask(), number)
        call = optimizer._bridge.call

        def interrupted(op: str, **fields: object) -> None:
            call(op, **fields)
            raise KeyboardInterrupt
        optimizer._bridge.call = interrupted  # type: ignore[method-assign]
        with self.assertRaises(KeyboardInterrupt):
            optimizer.ask()
        self.assertEqual(optimizer.ask().config, expected.ask().config)
        os.kill(optimizer._bridge._child.pid, signal.SIGKILL)
        with self.assertRaisesRegex(RuntimeError, "the process of this Optimizer ended: rt bridge "
                                                  "was killed by signal 9 .the next call starts"):
            optimizer.tell(6, 6.0)
        optimizer.tell(6, 6.0)
        expected.tell(6, 6.0)
        self.assertEqual(optimizer.ask().config, expected.ask().config)
        fails[0] = 0
        with self.assertRaises(ZeroDivisionError):
            optimizer.ask()
        fails[0] = 1
        self.assertEqual(optimizer.ask().config, expected.ask().config)
        self.assertEqual(self.restored(optimizer).ask().config, expected.ask().config)

    def test_an_optimizer_belongs_to_its_process(self) -> None:
        optimizer = self.optimizer({"x": tune.uniform(0, 1)}, seed=1)
        with self.assertRaisesRegex(TypeError, "it has a process; use save"):
            copy.deepcopy(optimizer)
        pid = os.fork()
        if pid == 0:
            try:
                optimizer.ask()
            except ValueError as error:
                os._exit(7 if "belongs to the process that made it" in str(error) else 1)
            os._exit(0)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 7)
        self.assertEqual(optimizer.ask().number, 0)

    def test_a_point_may_have_flat_names(self) -> None:
        space = {"net": {"x": tune.uniform(0, 1), "y": tune.uniform(0, 1), "of": "b"},
                 "a/b": tune.uniform(0, 1)}
        point = {"net/x": 0.5, "a/b": 0.25, "net": {"y": 0.75}}
        for algorithm in ("random", "tpe"):
            optimizer = self.optimizer(space, algorithm=algorithm, points_to_evaluate=[point])
            self.assertEqual(optimizer.ask().config,
                             {"net": {"x": 0.5, "y": 0.75, "of": "b"}, "a/b": 0.25})
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                optimizer.add({**point, "net/of": "b"}, 1.0)

    def test_a_choice_of_nan_is_nan(self) -> None:
        optimizer = self.optimizer({"x": tune.choice([math.nan]), "y": math.inf}, seed=1)
        config = optimizer.ask().config
        self.assertTrue(math.isnan(config["x"]))
        self.assertEqual(config["y"], math.inf)

    def test_a_file_that_names_what_is_not_there_was_not_saved_by_an_optimizer(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "state"
            # A name that is not there; texts that are not in UTF-8, and too large; other dicts.
            for content in (b"cnowhere\nnothing\n.", b"X\x01\x00\x00\x00\xff.",
                            b"\x8d" + b"\x7f" * 8, pickle.dumps({"format": 1}), b""):
                path.write_bytes(content)
                with self.assertRaisesRegex(ValueError, "was not written by Optimizer.save"):
                    Optimizer.restore(str(path))


if __name__ == "__main__":
    unittest.main()
