"""What the user wrote in Python, asked by the head: searchers, schedulers, stoppers, callbacks."""

import collections
import json
import pathlib
import shutil
import signal
import subprocess
import unittest

from harness import ROOT, Cluster, driver_python, wait_until
from script import Place

TRIALS, STEPS = 6, 8


class AskedDriverTest(unittest.TestCase):
    """On a cluster that outlives its driver."""

    def setUp(self) -> None:
        self.python = driver_python()
        self.cluster = Cluster(workers=1, cpus=2)
        self.cluster.env["PYTHONPATH"] = str(ROOT / "python")
        self.addCleanup(self.cluster.close)
        self.cluster.up()
        self.notes = self.cluster.work / "notes"
        self.notes.mkdir()
        source = pathlib.Path(__file__).with_name("advised_program.py")
        self.program = pathlib.Path(shutil.copy(source, self.cluster.work))

    def start(self, pause_s: float) -> subprocess.Popen:
        return subprocess.Popen(
            [self.python, str(self.program), str(self.notes), str(TRIALS), str(STEPS),
             str(pause_s)], cwd=self.cluster.work, env={**self.cluster.env, "RT_CLUSTER": "it"},
            stdin=subprocess.DEVNULL, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def told(self, who: str) -> list[list]:
        path = self.notes / who
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def finish(self, driver: subprocess.Popen) -> dict:
        out, err = driver.communicate(timeout=120)
        self.assertEqual(driver.returncode, 0, err)
        return dict(json.loads(out.splitlines()[-1]))

    def check_ends(self, said: dict) -> None:
        half = STEPS // 2
        expected = [[n + 1, 7, half if n % 2 else STEPS] for n in range(TRIALS)]
        self.assertEqual(said, {"rows": expected, "ended": TRIALS})

    def check_order(self, pid: int) -> None:
        """This process's scheduler saw every result of every trial, in order and once."""
        seen = collections.defaultdict(list)
        for who, number, iteration in self.told("scheduler"):
            if who == pid:
                seen[number].append(iteration)
        for number in range(TRIALS):
            last = STEPS // 2 if number % 2 else STEPS
            self.assertEqual(seen[number], list(range(1, last + 1)), number)

    def test_a_driver_that_comes_back_finds_its_questions(self) -> None:
        first = self.start(pause_s=0.05)
        self.addCleanup(first.kill)
        wait_until("results were judged", lambda: len(self.told("scheduler")) >= 5)
        first.send_signal(signal.SIGKILL)
        first.communicate()
        experiment = self.cluster.json("exp", "list")["items"][-1]

        def reason() -> str:
            return str(self.cluster.experiment(experiment["id"])["reason"])
        wait_until("it says what it waits for", lambda: "its driver, which is away" in reason())
        waiting = self.cluster.json("status")["pending"]
        self.assertIn(f"experiment {experiment['id']}", [each["id"] for each in waiting])
        trials = self.cluster.trials(experiment["id"])
        stuck = [each["reason"] for each in trials if each["state"] == "RUNNING"]
        self.assertTrue(any("decide about iteration" in str(each) for each in stuck), stuck)
        self.cluster.kill("head")
        second = self.start(pause_s=0.05)
        self.addCleanup(second.kill)
        self.check_ends(self.finish(second))
        self.check_order(second.pid)
        self.assertEqual(len(self.cluster.json("exp", "list")["items"]), 1)
        calls = collections.Counter((n, i) for _, n, i in self.told("callback") if n != "end")
        again = [pair for pair, count in calls.items() if count > 1]
        self.assertLessEqual(len(again), 2 + TRIALS // 2, again)  # What was told as it died.
        wanted = {(n, i) for n in range(TRIALS)
                  for i in range(1, (STEPS // 2 if n % 2 else STEPS) + 1)}
        self.assertEqual(set(calls), wanted)
        # What has ended is not gone back to: the same script begins anew.
        self.check_ends(self.finish(self.start(pause_s=0.0)))
        self.assertEqual(len(self.cluster.json("exp", "list")["items"]), 2)

    def test_the_head_dies_while_its_driver_answers(self) -> None:
        driver = self.start(pause_s=0.02)
        self.addCleanup(driver.kill)
        for count in (4, 12):
            wait_until("results were judged", lambda least=count: len(
                self.told("scheduler")) >= least)
            self.cluster.kill("head")
        self.check_ends(self.finish(driver))
        self.check_order(driver.pid)
        calls = collections.Counter((n, i) for _, n, i in self.told("callback") if n != "end")
        self.assertEqual(max(calls.values()), 1)
        self.assertEqual([each for each in self.told("callback") if each[1] == "end"],
                         [[driver.pid, "end", TRIALS]])


SCRIPT = """
import datetime, json
from rt import tune
from rt.tune import stopper
from rt.tune.search import BasicVariantGenerator, ConcurrencyLimiter, Repeater, Searcher

def objective(config):
    for step in range(6):
        tune.report({"v": config["x"] * (step + 1), "flat": 1.0})

def fit(space, search=None, run=None, **options):
    tuner = tune.Tuner(objective, param_space=space, run_config=tune.RunConfig(**(run or {})),
                       tune_config=tune.TuneConfig(search_alg=search, **options))
    return tuner.fit()
"""


class PlainScriptTest(unittest.TestCase):
    """`python script.py`, on its embedded cluster."""

    def setUp(self) -> None:
        self.place = Place()
        self.addCleanup(self.place.close)

    def says(self, text: str) -> object:
        done = self.place.run(SCRIPT + text)
        return json.loads(done.stdout.splitlines()[-1])

    def test_values_are_computed_from_what_was_drawn(self) -> None:
        said = self.says("""
width = tune.sample_from(lambda spec: spec.config.x * 8)
space = {"x": tune.grid_search([1, 2]), "net": {"width": width},
         "depth": tune.sample_from(lambda spec: spec["net"]["width"] // 4),
         "one": tune.sample_from(lambda: 1),
         "list": [5, tune.sample_from(lambda spec: (spec.config.depth, "a"))]}
print(json.dumps([r.config for r in fit(space)]))
""")
        self.assertEqual(said, [
            {"x": x, "net": {"width": 8 * x}, "depth": 2 * x, "one": 1, "list": [5, [2 * x, "a"]]}
            for x in (1, 2)])

    def test_a_trial_gets_what_was_computed_as_what_it_was(self) -> None:
        said = self.says("""
import numpy as np
class Layer:
    pass
class Size(dict):
    pass
def shows(config):
    wide = tune.get_context().get_trial_resources()["cpu"]
    layer, size = config["net"]["layer"], config["size"]
    tune.report({"v": 1, "shapes": repr(config["shapes"]), "array": config["array"].shape,
                 "same": layer is Layer and type(size) is Size, "lr": config["net"]["lr"],
                 "text": repr(config["text"]), "cpu": wide})
def shown(search, **space):
    space = {"net": tune.choice([{"layer": Layer, "lr": tune.loguniform(1e-3, 1e-1)}]),
             "shapes": tune.sample_from(lambda spec: (spec.config.x, (2, "NaN"))),
             "size": tune.sample_from(lambda spec: Size(x=1)), "text": tune.choice(["NaN"]),
             "array": tune.sample_from(lambda spec: np.ones((1, spec.config.x))),
             "x": tune.choice([3]), **space}
    trainable = tune.with_resources(shows, lambda config: {"cpu": 1 + (config["x"] > 2)})
    tuner = tune.Tuner(trainable, param_space=space, tune_config=tune.TuneConfig(search_alg=search))
    results = tuner.fit()
    assert not results.errors, results.errors
    (one,) = results
    assert one.config["shapes"] == (3, (2, "NaN")) and one.config["array"].shape == (1, 3)
    assert one.config["net"]["layer"] is Layer and one.config["net"]["lr"] == one.metrics["lr"]
    keys = ("shapes", "array", "same", "lr", "text", "cpu")
    return [one.metrics[key] for key in keys]
first = shown(BasicVariantGenerator(random_state=3))
point = {"net": {"layer": Layer, "lr": 0.5}}
given = shown(BasicVariantGenerator(points_to_evaluate=[point]))
print(json.dumps([first, shown(BasicVariantGenerator(random_state=3)), given]))
""")
        first, second, given = said
        self.assertEqual(first, second)
        lr = first.pop(3)
        self.assertTrue(1e-3 <= lr <= 1e-1, lr)
        self.assertEqual(first, ["(3, (2, 'NaN'))", [1, 3], True, "'NaN'", 2])
        self.assertEqual(given.pop(3), 0.5)
        self.assertEqual(given, first)

    def test_stoppers_end_trials_exactly(self) -> None:
        said = self.says("""
def steps(stop, **run):
    results = fit({"x": tune.grid_search([1, 2])}, run={"stop": stop, **run})
    return [r.metrics.get("training_iteration", 0) for r in results]
class Both(tune.Stopper):
    ended = False
    def __call__(self, trial_id, result):
        self.ended = self.ended or result["v"] >= 4
        return False
    def stop_all(self):
        return self.ended
print(json.dumps([
    steps(stopper.MaximumIterationStopper(2)),
    steps(lambda trial_id, result: result["v"] >= 4),
    steps(stopper.TrialPlateauStopper("flat", num_results=3, grace_period=3)),
    steps(stopper.CombinedStopper(stopper.MaximumIterationStopper(5),
                                  stopper.FunctionStopper(lambda t, r: r["v"] >= 6))),
    max(steps(Both())) < 6,
]))
""")
        self.assertEqual(said, [[2, 2], [4, 2], [3, 3], [5, 3], True])

    def test_points_come_first_and_a_grid_shares_its_draw(self) -> None:
        said = self.says("""
space = {"x": tune.uniform(0, 1), "g": tune.grid_search([1, 2, 3])}
points = BasicVariantGenerator(points_to_evaluate=[{"x": 5, "g": 9}, {"x": 6}], random_state=1)
shared = BasicVariantGenerator(constant_grid_search=True, random_state=1)
first = [r.config for r in fit(space, points, num_samples=3)]
second = [r.config for r in fit(space, shared, num_samples=2)]
print(json.dumps([first, second]))
""")
        first, second = said
        self.assertEqual(first[:4], [{"x": 5, "g": 9}] + [{"x": 6, "g": g} for g in (1, 2, 3)])
        self.assertEqual([each["g"] for each in first[4:]], [1, 2, 3])
        self.assertEqual([len({each["x"] for each in second[at:at + 3]}) for at in (0, 3)], [1, 1])
        self.assertNotEqual(second[0]["x"], second[3]["x"])

    def test_limits_and_repeats_wrap_a_searcher(self) -> None:
        said = self.says("""
class Up(Searcher):
    def __init__(self):
        super().__init__("v", "max")
        self.n, self.told = 0, []
    def suggest(self, trial_id):
        self.n += 1
        return {"x": self.n} if self.n <= 2 else Searcher.FINISHED
    def on_trial_complete(self, trial_id, result=None, error=False):
        self.told.append(result["v"])
inner = Up()
results = fit({}, ConcurrencyLimiter(Repeater(inner, repeat=2), 2), num_samples=-1, metric="v",
              mode="max", trial_name_creator=lambda trial: f"t{trial.config['x']}",
              trial_dirname_creator=lambda trial: f"dir/{trial.number}")
print(json.dumps([[r.config, r.path.rsplit("/", 1)[1]] for r in results] + [inner.told]))
""")
        self.assertEqual(said, [
            [{"x": 1, "__trial_index__": 0}, "dir_0"], [{"x": 1, "__trial_index__": 1}, "dir_1"],
            [{"x": 2, "__trial_index__": 0}, "dir_2"], [{"x": 2, "__trial_index__": 1}, "dir_3"],
            [6.0, 12.0]])

    def test_the_older_names_and_files(self) -> None:
        said = self.says("""
def talks(config):
    print("out", config["x"], flush=True)
    tune.report({"v": config["x"]})
one = tune.Experiment("one", talks, config={"x": tune.grid_search([1, 2])}, stop={"v": 9})
trials = tune.run_experiments([one, tune.Experiment("two", talks, config={"x": 3})], verbose=0)
results = fit({"x": 4}, run={"name": "logs", "log_to_file": "all.txt"})
plain = tune.run(talks, name="run", config={"x": 5}, log_to_file=("o", "e"), verbose=0)
read = tune.Result.from_path(plain.trials[0].path)
print(json.dumps([[t.last_result["v"] for t in trials], read.metrics["v"], read.config,
                  open(plain.trials[0].path + "/o").read(), len(read.metrics_dataframe)]))
""")
        self.assertEqual(said, [[1, 2, 3], 5, {"x": 5}, "out 5\n", 1])

    def test_a_scheduler_pauses_trials_and_chooses_which_goes_on(self) -> None:
        said = self.says("""
from rt.tune.schedulers import TrialScheduler
class Turns(TrialScheduler):
    "Each trial rests after its 2nd and 4th step; whoever has done least goes on."
    seen, chosen = [], []
    def on_trial_result(self, controller, trial, result):
        self.seen.append([trial.number, result["step"]])
        return self.PAUSE if result["step"] in (2, 4) else self.CONTINUE
    def choose_trial_to_run(self, controller):
        open = [t for t in controller.get_trials() if t.status in ("PENDING", "PAUSED")]
        trial = min(open, key=lambda t: ((t.last_result or {}).get("step", 0), t.number),
                    default=None)
        if trial is not None:
            self.chosen.append(trial.number)
        return trial
class Steps(tune.Trainable):
    def setup(self, config):
        self.n, self.sum = 0, 0
    def step(self):
        self.n += 1
        self.sum += self.n * self.config["x"]
        return {"step": self.n, "sum": self.sum, "done": self.n == 6}
    def save_checkpoint(self, directory):
        return {"n": self.n, "sum": self.sum}
    def load_checkpoint(self, state):
        self.n, self.sum = state["n"], state["sum"]
turns = Turns()
results = tune.Tuner(
    Steps, param_space={"x": tune.grid_search([1, 10])},
    tune_config=tune.TuneConfig(metric="sum", mode="max", scheduler=turns),
    run_config=tune.RunConfig(verbose=0)).fit()
def rows(result):
    table = result.metrics_dataframe  # A list of dicts where pandas is not installed.
    return table if isinstance(table, list) else table.to_dict("records")
print(json.dumps([[[row["step"], row["sum"]] for row in rows(r)] for r in results] +
                 [turns.chosen, turns.seen]))
""")
        sums = [1, 3, 6, 10, 15, 21]
        for at, x in ((0, 1), (1, 10)):
            self.assertEqual(said[at], [[n + 1, x * total] for n, total in enumerate(sums)])
            self.assertEqual([n for number, n in said[3] if number == at],
                             [1, 2, 3, 4, 5])  # The 6th is told as its end.
        self.assertEqual(sorted(said[2]), [0, 0, 0, 1, 1, 1], said[2])

    def test_a_trial_asks_for_what_its_configuration_needs(self) -> None:
        said = self.says("""
import os
def threads(config):
    tune.report({"v": int(os.environ["OMP_NUM_THREADS"])})
class Own(tune.Trainable):
    @classmethod
    def default_resource_request(cls, config):
        return tune.PlacementGroupFactory([{"CPU": config["x"]}])
    def step(self):
        return {"v": int(os.environ["OMP_NUM_THREADS"]), "done": True}
space = {"x": tune.grid_search([1, 2])}
ask = tune.with_resources(threads, lambda config: {"cpu": config["x"]})
print(json.dumps([[r.metrics["v"] for r in tune.Tuner(each, param_space=space).fit()]
                  for each in (ask, Own)]))
""")
        self.assertEqual(said, [[1, 2], [1, 2]])
        done = self.place.run(SCRIPT + """
tune.Tuner(tune.with_resources(objective, lambda config: {"cpu": 1000})).fit()
""", code=1)
        self.assertIn("asks for 1000 cpus; the largest node has", done.stderr)
        self.place.wait_gone()

    def test_what_the_user_raises_ends_the_script(self) -> None:
        done = self.place.run(SCRIPT + """
class Broken(tune.Callback):
    def on_trial_result(self, iteration, trials, trial, result, **info):
        raise KeyError("mine")
fit({"x": 1}, run={"callbacks": [Broken()]})
""", code=1)
        self.assertIn("KeyError: 'mine'", done.stderr)
        self.place.wait_gone()


class LeftTest(unittest.TestCase):
    """A driver that leaves its search lets go of what the search holds."""

    def setUp(self) -> None:
        self.place = Place()
        self.addCleanup(self.place.close)

    def test_after_an_error_in_a_stop_rule_the_next_search_runs(self) -> None:
        said = self.place.said("""
import json
from rt import tune
def train(config):
    for step in range(3):
        tune.report({"v": float("inf")})
def stop(trial_id, result):
    return result["typo"] > 3
space = {"a": tune.grid_search(list(range(8)))}
try:
    tune.Tuner(train, param_space=space, run_config=tune.RunConfig(stop=stop)).fit()
except KeyError as error:
    raised = str(error)
best = tune.TuneConfig(metric="v", mode="min")
print(json.dumps([raised, len(tune.Tuner(train, param_space=space, tune_config=best).fit())]))
""", timeout=60)
        self.assertEqual(said, ["'typo'", 8])

    def test_after_two_interrupts_at_once_the_next_search_runs(self) -> None:
        said = self.place.said("""
import json, os, signal, threading, time
from rt import tune
def slow(config):
    signal.signal(signal.SIGTERM, lambda *_: (time.sleep(0.5), os._exit(1)))
    time.sleep(1_000)
def quick(config):
    return {"v": config["a"]}
class Interrupts(tune.Callback):
    def on_trial_start(self, *_, **__):
        threading.Thread(target=self.twice).start()
    def twice(self):
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.1)
try:
    tune.run(slow, callbacks=[Interrupts()], resources_per_trial={"cpu": os.cpu_count()})
except KeyboardInterrupt:
    print(json.dumps([t.last_result["v"] for t in tune.run(
        quick, config={"a": tune.grid_search([1, 2])}).trials]))
""", timeout=60)
        self.assertEqual(said, [1, 2])


HANGS = """
import sys, time
import rt.tune._hangs
from rt import tune
from rt.tune.schedulers import ResourceChangingScheduler
rt.tune._hangs.ANSWER_LIMIT_S = float(sys.argv[2])
rt.tune._hangs.INTERRUPT_LIMIT_S = 1.0

def objective(config):
    for step in range(3):
        tune.report({"v": step})

def allocate(tune_controller, trial, result, scheduler):
    time.sleep(1_000)

def stop(trial_id, result):
    time.sleep(1_000)

def swallow(tune_controller, trial, result, scheduler):
    while True:
        try:
            time.sleep(1_000)
        except BaseException:
            pass

options = {"stop": {"run_config": tune.RunConfig(stop=stop)},
           "allocation": {"tune_config": tune.TuneConfig(
               scheduler=ResourceChangingScheduler(None, allocate))},
           "swallow": {"tune_config": tune.TuneConfig(
               scheduler=ResourceChangingScheduler(None, swallow))}}[sys.argv[1]]
print("ended", len(tune.Tuner(objective, **options).fit()))
"""


class HangingTest(unittest.TestCase):
    """A function of the user's that does not return, in the script of a job."""

    def setUp(self) -> None:
        self.cluster = Cluster(workers=1, cpus=2)
        self.addCleanup(self.cluster.close)
        environment = str(pathlib.Path(driver_python()).parent)
        self.cluster.env["PATH"] = environment + ":" + self.cluster.env["PATH"]
        self.cluster.env["PYTHONPATH"] = str(ROOT / "python")
        self.cluster.up()
        (self.cluster.work / "hangs.py").write_text(HANGS)

    def submit(self, kind: str, limit_s: int) -> None:
        self.cluster.rt("submit", "--detach", "hangs.py", "--", kind, str(limit_s))

    def job(self) -> dict:
        return dict(self.cluster.json("job", "show", "1"))

    def test_a_search_that_has_ended_says_what_its_script_is_in_and_interrupts_it(self) -> None:
        self.submit("allocation", 10)
        wait_until("the search has ended", lambda: self.cluster.json("exp", "list")["items"]
                   and self.cluster.experiment(1)["state"] == "COMPLETED", lasting=True)
        wait_until("the job says what it is in", lambda: self.job()["reason"], lasting=True)
        reason = self.job()["reason"]
        self.assertRegex(reason, r"^has been in resources_allocation_function allocate "
                         r"\(hangs.py:\d+\) since 20\S+Z, although experiment 1 has ended$")
        self.assertIn("allocate", self.cluster.rt("status").stdout)
        wait_until("the job has ended", lambda: self.job()["state"] == "SUCCEEDED", lasting=True)
        said = self.cluster.rt("job", "logs", "1")
        self.assertEqual(said.stdout, "ended 1\n")
        self.assertIn("it is interrupted, and is not called again", said.stderr)

    def test_a_function_that_cannot_be_interrupted_ends_its_job(self) -> None:
        self.submit("swallow", 1)
        wait_until("the job has ended", lambda: self.job()["state"] == "FAILED", lasting=True)
        self.assertEqual(self.job()["exit_code"], 1)
        said = self.cluster.rt("job", "logs", "1").stderr
        self.assertIn("can neither end nor be interrupted", said)
        self.assertEqual(self.cluster.experiment(1)["state"], "COMPLETED")

    def test_a_trial_that_waits_for_a_function_says_for_which_one(self) -> None:
        self.submit("stop", 2)
        def reason() -> str:
            return str(self.cluster.experiment(1)["reason"])
        wait_until("the job is there", lambda: self.cluster.json("exp", "list")["items"])
        wait_until("the search says what it waits for", lambda: "stop function" in reason())
        self.assertRegex(reason(), r"waits for its driver to decide about iteration 1 of trial "
                         r"1/0: the driver has been in stop function stop \(hangs.py:\d+\) "
                         r"since 20\S+Z")
        trial = self.cluster.json("trial", "show", "1/0")
        self.assertIn("stop function stop", trial["waiting"]["reason"])
        self.assertIn("for experiment 1", self.job()["reason"])
        self.cluster.rt("exp", "stop", "1")
        wait_until("the job has ended", lambda: self.job()["state"] == "SUCCEEDED", lasting=True)
        self.assertEqual(self.cluster.experiment(1)["state"], "STOPPED")


if __name__ == "__main__":
    unittest.main()
