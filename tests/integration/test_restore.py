"""Going back to a search that was interrupted, or whose trials failed."""

import json
import pathlib
import signal
import unittest

from harness import Cluster, driver_python, wait_until
from script import Place

SEARCH = """
import json, os, sys, time
from pathlib import Path
from rt import tune
from rt.tune import Checkpoint, RunConfig, Tuner

def objective(config):
    print("attempt of", config["x"], "from", tune.get_checkpoint() is not None, flush=True)
    start = 0
    if tune.get_checkpoint() is not None:
        start = int((Path(tune.get_checkpoint().path) / "step").read_text())
    for step in range(start + 1, 7):
        folder = Path(os.environ["RT_TRIAL_DIR"]) / f"at{step}"
        folder.mkdir()
        (folder / "step").write_text(str(step))
        tune.report({"v": config["x"] * step, "began": start}, checkpoint=Checkpoint(str(folder)))
        if config["x"] == 2 and step == 3 and not WHOLE:
            time.sleep(1_000) if BROKEN is None else exec(BROKEN)

def show(results):
    print(json.dumps([[r.config["x"], r.metrics.get("v"), r.metrics.get("training_iteration"),
                       r.metrics.get("began"), r._trial.state] for r in results]))
"""
FIRST = """
WHOLE, BROKEN = False, None
show(Tuner(objective, param_space={"x": tune.grid_search([1, 2, 3])},
           tune_config=tune.TuneConfig(max_concurrent_trials=1),
           run_config=RunConfig(name="kept", callbacks=[tune.Callback()])).fit())
"""
AGAIN = """
WHOLE, BROKEN = True, None
show(Tuner.restore(sys.argv[1], objective, **json.loads(sys.argv[2])).fit())
"""
ENDS = [[1, 6, 6, 0, "COMPLETED"], [2, 12, 6, 3, "COMPLETED"], [3, 18, 6, 0, "COMPLETED"]]


class PlainScriptTest(unittest.TestCase):
    """`python script.py`: the embedded cluster's state outlives an interrupted script."""

    def setUp(self) -> None:
        self.place = Place()
        self.addCleanup(self.place.close)
        self.results = self.place.results / "kept"

    def restore(self, **options: object) -> list:
        path = self.place.write(SEARCH + AGAIN, "again.py")
        done = self.place.run_file(path, str(self.results), json.dumps(options))
        self.place.wait_gone()
        return json.loads(done.stdout.splitlines()[-1])

    def test_an_interrupted_search_goes_on(self) -> None:
        for number in (signal.SIGINT, signal.SIGKILL):
            with self.subTest(signal=number):
                process = self.place.start(self.place.write(SEARCH + FIRST))
                self.addCleanup(process.communicate)
                wait_until("the second trial is under way", lambda: '"began":0' in "".join(
                    path.read_text() for path in self.results.glob("*_00001/result.json")))
                wait_until("it is at its third step", lambda: any(
                    '"training_iteration":3' in path.read_text().replace(" ", "")
                    for path in self.results.glob("*_00001/result.json")))
                process.send_signal(number)
                _, err = process.communicate(timeout=60)
                self.place.wait_gone()
                self.assertTrue((self.results / ".rt-state").is_dir(), err)
                if number == signal.SIGINT:
                    self.assertIn(f"Tuner.restore('{self.results}', trainable).fit()", err)
                self.assertEqual(self.restore(), ENDS)
                self.assertFalse((self.results / ".rt-state").exists())
                rows = [path.read_text().count("\n")
                        for path in sorted(self.results.glob("*/result.json"))]
                self.assertEqual(rows, [6, 6, 6])
                said = [path.read_text() for path in sorted(self.results.glob("*/stdout"))]
                self.assertEqual(said, ["attempt of 1 from False\n",
                                        "attempt of 2 from False\nattempt of 2 from True\n",
                                        "attempt of 3 from False\n"])
                self.results.rename(self.place.results / f"by{number}")

    def interrupted(self) -> None:
        """A search of which the first trial has ended, the second was cut off at its third step."""
        process = self.place.start(self.place.write(SEARCH + FIRST))
        self.addCleanup(process.communicate)
        wait_until("the second trial is at its third step", lambda: any(
            '"training_iteration":3' in path.read_text().replace(" ", "")
            for path in self.results.glob("*_00001/result.json")))
        process.kill()
        process.communicate(timeout=60)
        self.place.wait_gone()

    def resumed(self, config: str) -> list:
        done = self.place.run(SEARCH + f"""
WHOLE, BROKEN = True, None
trials = tune.run(objective, name="kept", config={{"x": tune.grid_search([1, 2, 3])}},
                  resume=True, max_concurrent_trials=1,
                  resume_config=tune.ResumeConfig({config})).trials
print(json.dumps([[t.config["x"], t.last_result["training_iteration"], t.last_result["began"],
                   t.state] for t in trials]))
""")
        self.place.wait_gone()
        return json.loads(done.stdout.splitlines()[-1])

    def test_who_comes_right_after_a_kill_finds_it(self) -> None:
        # The private cluster is still ending; values are of a class that another process made.
        script = self.place.write("""
import sys, time
from pathlib import Path
from rt import tune

class Kernel:
    def __init__(self, size):
        self.size = size

def endless(config):
    assert type(config["kernel"]) is Kernel and config["shape"] == (2, 3)
    Path("began").touch()
    while True:
        tune.report({"v": 0})
        time.sleep(0.1)

def searched():
    kernel = tune.sample_from(lambda spec: Kernel(spec.config.x))
    space = {"x": tune.choice([7]), "kernel": kernel, "shape": tune.sample_from(lambda: (2, 3))}
    return tune.Tuner(endless, param_space=space, run_config=tune.RunConfig(name="kept"))

path = sys.argv[1]
if not tune.Tuner.can_restore(path):
    searched().fit()
def quick(config):
    assert type(config["kernel"]) is Kernel and config["shape"] == (2, 3)
    tune.report({"v": config["kernel"].size})
(one,) = tune.Tuner.restore(path, quick).fit()
print(one.metrics["v"], type(one.config["kernel"]) is Kernel)
""")
        first = self.place.start(script, str(self.results))
        self.addCleanup(first.communicate)
        wait_until("the trial is under way", (self.place.work / "began").exists)
        first.kill()
        first.wait(timeout=60)
        again = self.place.run_file(script, str(self.results))
        self.assertEqual(again.stdout.splitlines()[-1], "7 True")
        self.assertEqual([each.name for each in self.place.results.iterdir()], ["kept"])
        self.assertFalse((self.results / ".rt-running").exists())
        self.place.wait_gone()

    def test_what_was_cut_off_may_stay_so(self) -> None:
        self.interrupted()
        ends = self.restore(resume_unfinished=False)
        self.assertEqual(ends[0], ENDS[0])
        self.assertEqual(ends[1], [2, 6, 3, 0, "STOPPED"])
        self.assertEqual(ends[2], ENDS[2])

    def test_what_was_cut_off_or_had_ended_may_begin_anew(self) -> None:
        self.interrupted()
        ends = self.resumed("unfinished='RESTART'")
        self.assertEqual(ends, [[x, 6, 0, "COMPLETED"] for x in (1, 2, 3)])

    def test_what_had_ended_may_go_on(self) -> None:
        self.interrupted()
        ends = self.resumed("finished='RESTART', unfinished='SKIP'")
        self.assertEqual(ends, [[1, 6, 0, "COMPLETED"], [2, 3, 0, "STOPPED"],
                                [3, 6, 0, "COMPLETED"]])

    def test_a_search_whose_directory_was_moved_is_read(self) -> None:
        self.interrupted()
        self.results.rename(self.place.results / "moved")
        done = self.place.run(SEARCH + """
show(Tuner.restore("moved", objective).get_results())
""")
        self.assertEqual([each[:2] for each in json.loads(done.stdout.splitlines()[-1])],
                         [[1, 6], [2, 6]])

    def test_failed_trials_are_retried_with_repaired_code(self) -> None:
        broken = FIRST.replace("BROKEN = False, None", "BROKEN = False, 'raise OSError(7)'")
        self.place.run(SEARCH + broken)
        self.place.wait_gone()
        self.assertEqual(self.restore()[1], [2, 6, 3, 0, "FAILED"])  # Kept as it was.
        self.assertEqual(len(list(self.results.glob("*/error.txt"))), 1)
        self.assertEqual(self.restore(resume_errored=True), ENDS)
        self.assertEqual(list(self.results.glob("*/error.txt")), [])
        self.assertFalse((self.results / ".rt-state").exists())
        done = self.place.run(SEARCH + """
print(Tuner.can_restore(sys.argv[1]))
Tuner.restore(sys.argv[1], objective)
""", str(self.results) + "-not", code=1)
        self.assertEqual(done.stdout, "False\n")
        self.assertIn("there is no search in", done.stderr)

    def test_a_search_whose_stop_function_raised_goes_on_with_a_corrected_one(self) -> None:
        raises = """
def stop(trial_id, result):
    if result["v"] >= 4:
        raise KeyError("mine")
    return False
WHOLE = True
Tuner(objective, param_space={"x": tune.grid_search([1, 2, 3])},
      tune_config=tune.TuneConfig(max_concurrent_trials=1),
      run_config=RunConfig(name="kept", stop=stop)).fit()
"""
        done = self.place.run(SEARCH + raises, code=1)
        self.place.wait_gone()
        says = (r"KeyError: 'mine'\nrt: stop function stop \(script.py:\d+\) stopped the search. "
                r".*correct the script, and continue with\n"
                rf"rt:   tune.Tuner.restore\('{self.results}', trainable, "
                r"run_config=tune.RunConfig\(stop=...\)\).fit\(\)")
        self.assertRegex(done.stderr, says)
        # Without one the function is the old one, as in Ray.
        path = self.place.write(SEARCH + AGAIN, "again.py")
        done = self.place.run_file(path, str(self.results), "{}", code=1)
        self.place.wait_gone()
        self.assertIn("KeyError: 'mine'", done.stderr)
        refused = self.place.run(SEARCH + """
print(Tuner.restore(sys.argv[1], objective, tune_config=tune.TuneConfig(num_samples=7)).fit())
""", str(self.results), code=1)
        self.place.wait_gone()
        self.assertIn("num_samples is 1, and cannot become 7", refused.stderr)
        mended = self.place.run(SEARCH + """
WHOLE = True
config = RunConfig(stop=lambda trial_id, result: result["training_iteration"] >= 5)
show(Tuner.restore(sys.argv[1], objective, run_config=config).fit())
""", str(self.results))
        self.place.wait_gone()
        ended = json.loads(mended.stdout.splitlines()[-1])
        self.assertEqual([each[:3] + each[4:] for each in ended],
                         [[x, 5 * x, 5, "COMPLETED"] for x in (1, 2, 3)])

    def test_a_search_that_had_ended_is_read_from_its_directory(self) -> None:
        self.place.run(SEARCH + FIRST.replace("False, None", "True, None"))
        self.place.wait_gone()
        moved = self.results.rename(self.place.results / "moved")
        done = self.place.run(SEARCH + """
def never(config):
    raise OSError(7)
tuner = Tuner.restore(sys.argv[1], never)
early = [r.config["x"] for r in tuner.get_results()]
grid = tuner.fit()
show(grid)
best = grid.get_best_result("v", "min")
(first, row), *_ = best.best_checkpoints
seen = tune.ExperimentAnalysis(sys.argv[1], default_metric="v", default_mode="max")
again = tune.run(never, name="moved", resume="AUTO")
print(json.dumps([Tuner.can_restore(sys.argv[1]), early, len(best.best_checkpoints),
                  (Path(first.path) / "step").read_text(), row["v"],
                  (Path(best.get_best_checkpoint("v", "max").path) / "step").read_text(),
                  seen.best_config["x"], [t.status for t in again.trials]]))
""", str(moved))
        shown, found = map(json.loads, done.stdout.splitlines())
        self.assertEqual(shown, [[x, 6 * x, 6, 0, "COMPLETED"] for x in (1, 2, 3)])
        self.assertEqual(found, [True, [1, 2, 3], 6, "1", 1, "6", 3, 3 * ["TERMINATED"]])
        self.assertEqual(done.stderr.count("nothing is left to run"), 2)

    def test_what_there_is_so_far_is_read_without_going_on(self) -> None:
        self.place.run(SEARCH + FIRST.replace("BROKEN = False, None",
                                              "BROKEN = False, 'raise OSError(7)'"))
        self.place.wait_gone()
        for _ in range(2):
            done = self.place.run(SEARCH + """
show(Tuner.restore(sys.argv[1], objective).get_results())
print(tune.ExperimentAnalysis(sys.argv[1]).get_best_config("v", "max")["x"])
""", str(self.results))
            shown, best = map(json.loads, done.stdout.splitlines())
            self.assertEqual([shown[1], best], [[2, 6, 3, 0, "FAILED"], 3])
            self.place.wait_gone()
            self.assertTrue((self.results / ".rt-state").is_dir())
        self.assertEqual(self.restore(resume_errored=True), ENDS)

    def test_trials_begin_from_a_checkpoint_of_another_search(self) -> None:
        done = self.place.run(SEARCH + """
class Counter(tune.Trainable):
    def setup(self, config):
        self.count = 0
    def step(self):
        self.count += 1
        return {"count": self.count}
    def save_checkpoint(self, path):
        Path(path, "count").write_text(str(self.count))
    def load_checkpoint(self, path):
        self.count = int(Path(path, "count").read_text())

def run(steps, **options):
    analysis = tune.run(Counter, stop={"training_iteration": steps}, checkpoint_at_end=True,
                        **options)
    return analysis.trials[0]

def objective(config):
    return {"v": int((Path(tune.get_checkpoint().path) / "count").read_text())}

first = run(3)
second = run(5, restore=first.checkpoint)
rows = [[row["training_iteration"], row["count"]] for row in second.rows]
third = run(6, restore=str(Path(second.checkpoint.path) / "count"), name="third")
fourth = tune.run_experiments({"fourth": {
    "run": Counter, "stop": {"training_iteration": 7}, "restore": third.checkpoint}})[0]
function = tune.run(objective, restore=third.checkpoint.path).trials[0].last_result["v"]
try:
    run(1, restore="/nowhere")
except ValueError as error:
    counts = [third.last_result["count"], fourth.last_result["count"], function]
    print(json.dumps([rows, counts, str(error)]))
""")
        self.assertEqual(json.loads(done.stdout.splitlines()[-1]),
                         [[[4, 4], [5, 5]], [6, 7, 6],
                          "restore: there is no checkpoint in '/nowhere'"])

    def test_run_resumes_by_name(self) -> None:
        text = """
WHOLE = len(sys.argv) > 1
BROKEN = "raise OSError(7)"
analysis = tune.run(objective, name="kept", config={"x": tune.grid_search([1, 2, 3])},
                    resume=sys.argv[1] if WHOLE else "AUTO", raise_on_failed_trial=False)
print(json.dumps([t.last_result["began"] for t in analysis.trials]))
"""
        done = self.place.run(SEARCH + text)
        self.assertEqual(json.loads(done.stdout.splitlines()[-1]), [0, 0, 0])
        done = self.place.run(SEARCH + text, "AUTO+RESTART_ERRORED")
        self.assertEqual(json.loads(done.stdout.splitlines()[-1]), [0, 0, 0])
        self.assertFalse((self.results / ".rt-state").exists())
        done = self.place.run(SEARCH + text, "LOCAL")
        self.assertIn("nothing is left to run", done.stderr)
        done = self.place.run(SEARCH + text.replace('"kept"', '"other"'), "LOCAL", code=1)
        self.assertIn("no search called 'other'", done.stderr)


class ClusterTest(unittest.TestCase):
    def test_a_stopped_search_is_restored_by_name(self) -> None:
        place = Place()
        self.addCleanup(place.close)
        cluster = Cluster(workers=1, cpus=1)
        self.addCleanup(cluster.close)
        cluster.env["PATH"] = str(pathlib.Path(driver_python()).parent) + ":" + cluster.env["PATH"]
        cluster.up()
        place.env |= {"RT_HOME": cluster.env["RT_HOME"], "RT_CLUSTER": "it"}
        process = place.start(place.write(SEARCH + FIRST))
        self.addCleanup(process.communicate)
        wait_until("the second trial has begun", lambda: [
            trial for trial in cluster.json("trial", "list")["items"]
            if trial["number"] == 1 and trial["step"] == 3])
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        self.assertEqual(cluster.experiment(1)["state"], "STOPPED")
        again = place.write(SEARCH + AGAIN, "again.py")
        done = place.run_file(again, "kept", "{}")
        self.assertEqual(json.loads(done.stdout.splitlines()[-1]), ENDS)
        self.assertEqual(cluster.experiment(1)["state"], "COMPLETED")


if __name__ == "__main__":
    unittest.main()
