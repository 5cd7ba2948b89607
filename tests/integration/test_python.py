"""Plain Python scripts on the real head, worker, shim and mTLS: their ends, and what they leave."""

import json
import pathlib
import signal
import subprocess
import unittest

from harness import wait_until
from script import Place

SEARCH = """
import json, os, sys, time
from rt import tune

def objective(config):
    for step in range(config["steps"]):
        tune.report({"v": config["x"] * (step + 1), "dir": os.environ["RT_TRIAL_DIR"],
                     "sockets": os.path.dirname(os.environ["RT_SOCKET"])})
        time.sleep(config["pause"])

def search(steps=3, pause=0.0, **run):
    space = {"x": tune.grid_search([1, 2, 3, 4]), "steps": steps, "pause": pause}
    return tune.Tuner(objective, param_space=space, run_config=tune.RunConfig(**run)).fit()
"""
ENDLESS = SEARCH + """
results = search(100_000, 0.02, name="endless")
print(json.dumps([[each.metrics.get("v"), each.path] for each in results]))
"""


class PlainScriptTest(unittest.TestCase):
    def setUp(self) -> None:
        self.place = Place()
        self.addCleanup(self.place.close)

    def began(self) -> tuple[subprocess.Popen[str], list[pathlib.Path]]:
        """An endless search of which two trials have reported, and its directories in /tmp."""
        process = self.place.start(self.place.write(ENDLESS))
        self.addCleanup(process.communicate)
        results = self.place.results / "endless"
        wait_until("two trials reported",
                   lambda: len(list(results.glob("*/result.json"))) == 2)
        found = self.place.directories()
        self.assertEqual(len(found), 2, found)  # The cluster's own, and the worker's sockets.
        return process, found

    def check_gone(self, found: list[pathlib.Path]) -> None:
        self.place.wait_gone()
        wait_until("its directories are gone", lambda: not any(path.exists() for path in found))
        rows = self.place.rows("endless")
        self.assertEqual([row["training_iteration"] for row in rows],
                         list(range(1, len(rows) + 1)))

    def test_it_runs_on_the_real_stack_and_leaves_only_results(self) -> None:
        for end, code in (("", 0), ("sys.exit(7)", 7), ("raise KeyError('mine')", 1)):
            with self.subTest(end=end):
                done = self.place.run(SEARCH + f"""
from pathlib import Path
def names():
    return sorted({{Path(f"/proc/{{pid}}/comm").read_text().strip() for pid in os.listdir("/proc")
                   if pid.isdigit() and os.environ["HOME"].encode() in environment(pid)}})
def environment(pid):
    try: return Path(f"/proc/{{pid}}/environ").read_bytes()
    except OSError: return b""
results = search(name="ends{code}")
cluster = Path(results[0].metrics["dir"]).parents[3]
identity = sorted(path.name for path in (cluster / "worker-1/credentials").iterdir())
worker = results[0].metrics["sockets"]
values = [each.metrics["v"] for each in results]
print(json.dumps([values, str(cluster), names(), identity, worker]), flush=True)
{end}
""", code=code)
                values, cluster, names, identity, worker = json.loads(done.stdout)
                self.assertEqual(values, [3, 6, 9, 12])
                self.assertLessEqual({"rt-head", "rt-worker"}, set(names))
                self.assertTrue(any("key" in name for name in identity), identity)
                self.place.wait_gone()
                self.assertFalse(pathlib.Path(cluster).exists())
                self.assertFalse(pathlib.Path(worker).exists())
                self.assertEqual(len(list((self.place.results / f"ends{code}").glob("*_0000?"))), 4)
                self.assertFalse((self.place.results / f"ends{code}/.rt-state").exists())
        self.assertFalse((self.place.root / ".rt").exists())

    def test_one_ctrl_c_is_graceful_and_says_how_to_resume(self) -> None:
        process, found = self.began()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, err)
        self.assertIn("goes on with\nrt:   tune.Tuner.restore(", err)
        self.assertIn("interrupted by Ctrl-C", err)
        last = json.loads(out)
        self.assertEqual([value is None for value, _ in last], [False, False, True, True])
        self.check_gone(found)
        self.assertEqual(self.place.rows("endless")[-1]["v"], last[0][0])

    def test_two_ctrl_c_stop_at_once(self) -> None:
        process, found = self.began()
        process.send_signal(signal.SIGINT)
        self.assertIn("Ctrl-C again stops at once", process.stderr.readline())
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, -signal.SIGINT, err)
        self.assertTrue(err.rstrip().endswith("KeyboardInterrupt"), err)
        self.assertNotIn("/rt/tune/", err)
        self.check_gone(found)

    def test_a_killed_script_takes_its_cluster_along(self) -> None:
        for number in (signal.SIGKILL, signal.SIGTERM):
            with self.subTest(signal=number):
                process, found = self.began()
                process.send_signal(number)
                self.assertEqual(process.wait(timeout=60), -number)
                self.check_gone(found)
                (self.place.results / "endless").rename(self.place.results / f"by{number}")

    def test_any_directory_a_module_beside_it_no_input_and_two_at_once(self) -> None:
        place = Place("ünï dir's $(x)")
        self.addCleanup(place.close)
        place.write("SCALE = 7\ndef scaled(x):\n    return x * SCALE\n", "beside.py")
        path = place.write("""
from rt import tune
import beside
from beside import scaled

def objective(config):
    tune.report({"v": scaled(config["x"]) + beside.SCALE})

results = tune.Tuner(objective, param_space={"x": tune.grid_search([1, 2])},
                     run_config=tune.RunConfig(name="ü x")).fit()
print([each.metrics["v"] for each in results])
""", "my script.py")
        shell = ["/bin/sh", "-c", 'exec "$0" "$1" <&-', str(path)]
        both = [place.start(path, cwd="/") for _ in range(2)]
        for process in both:
            out, err = process.communicate(timeout=100)
            self.assertEqual((process.returncode, out), (0, "[14, 21]\n"), err)
        from script import PYTHON
        closed = subprocess.run([*shell[:3], str(PYTHON), str(path)], env=place.env, text=True,
                                capture_output=True, timeout=100, cwd=place.work)
        self.assertEqual((closed.returncode, closed.stdout), (0, "[14, 21]\n"), closed.stderr)
        self.assertEqual(sorted(path.name for path in place.results.iterdir()),
                         ["ü x", "ü x-2", "ü x-3"])
        place.wait_gone()

    def test_trials_change_into_their_directories_where_that_is_asked_for(self) -> None:
        (self.place.work / "data.txt").write_text("the data")
        text = """
import json, os
from rt import tune

def objective(config):
    with open(f"mine-{config['x']}", "w") as file:
        file.write("written here")
    origin = os.environ["TUNE_ORIG_WORKING_DIR"]
    with open(os.path.join(origin, "data.txt")) as file:
        data = file.read()
    home = os.path.realpath(tune.get_context().get_trial_dir()) == os.path.realpath(os.getcwd())
    return {"data": data, "home": home, "files": sorted(os.listdir("."))}

grid = tune.Tuner(objective, param_space={"x": tune.grid_search([1, 2])}).fit()
print(json.dumps([[each.metrics[key] for key in ("data", "home", "files")] for each in grid]))
"""
        for name in ("RT_CHDIR_TO_TRIAL_DIR", "RAY_CHDIR_TO_TRIAL_DIR"):
            with self.subTest(name=name):
                self.place.env[name] = "1"
                self.assertEqual(self.place.said(text), [["the data", True, ["mine-1"]],
                                                         ["the data", True, ["mine-2"]]])
                del self.place.env[name]
        (data, home, files), _ = self.place.said(text)
        self.assertEqual((data, home), ("the data", False))
        self.assertLessEqual({"data.txt", "mine-1", "script.py"}, set(files))
        self.place.env["RT_CHDIR_TO_TRIAL_DIR"] = "yes"
        done = self.place.run(text, code=1)
        self.assertIn("RT_CHDIR_TO_TRIAL_DIR must be 0 or 1, not 'yes'", done.stderr)

    def test_what_a_module_beside_it_defines_can_be_pickled_in_a_trial(self) -> None:
        self.place.write("""
class Net:
    def __init__(self, width):
        self.width = width
def double(net):
    return Net(net.width * 2)
""", "nets.py")
        said = self.place.said("""
import json, multiprocessing, pickle
from nets import Net, double
from rt import tune
def train(config):
    import nets
    with multiprocessing.Pool(1) as pool:
        net = pool.map(double, [pickle.loads(pickle.dumps(Net(config["x"])))])[0]
    return {"width": net.width, "same": float(isinstance(net, nets.Net) and nets.Net is Net)}
grid = tune.Tuner(train, param_space={"x": tune.grid_search([1, 2])}).fit()
print(json.dumps([[each.metrics["width"], each.metrics["same"]] for each in grid]))
""")
        self.assertEqual(said, [[2, 1], [4, 1]])

    def test_what_the_script_itself_defines_can_be_pickled_in_a_trial(self) -> None:
        said = self.place.said("""
import enum, json, multiprocessing, os, pickle
from rt import tune
class Session:  # A name that rt uses, too.
    def __init__(self, width):
        self.width = width
class Kind(enum.Enum):
    WIDE = 2
def double(session):
    return Session(session.width * Kind.WIDE.value)
def train(config):
    with multiprocessing.get_context(config["start"]).Pool(1) as pool:
        session = pool.map(double, [Session(config["x"])])[0]
    where = os.path.abspath(config["start"] + ".pkl")
    with open(where, "wb") as file:
        pickle.dump([session, Kind.WIDE], file)
    tune.report({"file": where, "same": type(session) is Session})
if __name__ == "__main__":
    space = {"x": 3, "start": tune.grid_search(["fork", "spawn", "forkserver"])}
    said = []
    for each in tune.Tuner(train, param_space=space).fit():
        with open(each.metrics["file"], "rb") as file:
            session, kind = pickle.load(file)
        said.append([session.width, kind is Kind.WIDE, each.metrics["same"]])
    print(json.dumps(said))
""")
        self.assertEqual(said, [[6, True, 1]] * 3)

    def test_an_exception_arrives_with_the_users_frames_only(self) -> None:
        done = self.place.run("""
from rt import tune
def helper(x):
    raise OverflowError(f"boom {x}")
def objective(config):
    tune.report({"a": 1})
    print("about to fail")
    helper(config["x"])
tune.run(objective, config={"x": 3}, name="fails")
""", code=1)
        self.assertIn("OverflowError: boom 3", done.stderr)
        self.assertIn(", in helper", done.stderr)
        self.assertIn("TuneError: trials did not complete", done.stderr)
        self.assertNotIn("/python/rt/", done.stderr)
        folder = next((self.place.results / "fails").glob("*_00000"))
        text = (folder / "error.txt").read_text()
        self.assertTrue(text.startswith("Traceback"), text)
        self.assertTrue(text.endswith("OverflowError: boom 3\n"), text)
        self.assertNotIn("/python/rt/", text)
        self.assertEqual((folder / "stdout").read_text(), "about to fail\n")
        self.place.wait_gone()


if __name__ == "__main__":
    unittest.main()
