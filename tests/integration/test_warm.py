"""Warm start: trials that a server forks are like fresh processes, and outlive the server."""

import json
import os
import pathlib
import signal
import unittest

from harness import ROOT, Cluster, wait_until
from script import PYTHON, Place

FACTS = """
import json, os, random, signal, subprocess, sys, threading
from rt import tune

def facts(config):
    import numpy
    import noisy
    random_now = [random.random(), float(numpy.random.random()), os.urandom(4).hex()]
    mine = os.environ["RT_TRIAL_ID"]
    shown = open("/proc/self/environ").read().rstrip(chr(0)).split(chr(0))
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    same = {
        "environment": sorted(name for name in os.environ),
        "shown": sorted(name.split("=")[0] for name in shown),
        "shown_right": sorted(shown) == sorted(f"{k}={v}" for k, v in os.environ.items()),
        "c_sees": subprocess.check_output(["printenv", "RT_TRIAL_ID"]).decode().strip() == mine,
        "plain": {k: v for k, v in os.environ.items() if not k.startswith("RT_")},
        "cwd": os.getcwd(), "path": sys.path, "argv": sys.argv, "umask": status["Umask"],
        "main": sys.modules["__main__"].__name__ + sys.modules["__main__"].__file__,
        "blocked": status["SigBlk"], "ignored": status["SigIgn"], "caught": status["SigCgt"],
        "leader": os.getsid(0) == os.getpid() == os.getpgid(0),
        "threads": len(os.listdir("/proc/self/task")), "python_threads": threading.active_count(),
        "open": sorted(link.split(":")[0] for link in map(files, os.listdir("/proc/self/fd"))),
        "input": sys.stdin.read(), "name": threading.current_thread().name,
        "trial_dir": os.path.isdir(os.environ["RT_TRIAL_DIR"]),
    }
    tune.report({"same": same, "random": random_now, "pid": os.getpid(),
                 "parent": open(f"/proc/{os.getppid()}/comm").read().strip()})

def files(name):
    try:
        return os.readlink("/proc/self/fd/" + name)
    except OSError:
        return "gone"

results = tune.Tuner(facts, param_space={"i": tune.grid_search([0, 1, 2, 3])},
                     run_config=tune.RunConfig(name=sys.argv[1])).fit()
print(json.dumps([[each.metrics[k] for k in ("same", "random", "pid", "parent")]
                  for each in results]))
"""

ENDS = """
import ctypes, json, os, signal, subprocess, sys, time
from rt import tune

def leaves():
    subprocess.Popen(["sleep", "1000"], start_new_session=True)
    if os.fork() == 0:
        os.setsid()
        time.sleep(1000)
    os._exit(5)

ways = {
    "returns": lambda: None,
    "exits": lambda: sys.exit(0),
    "exits_4": lambda: sys.exit(4),
    "leaves": leaves,
    "os_exits": lambda: os._exit(0),
    "raises": lambda: {}["nothing"],
    "crashes": lambda: ctypes.string_at(0),
    "is_killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "aborts": os.abort,
}

def ends(config):
    print("out of", config["way"], flush=True)
    os.system(f"echo err of {config['way']} >&2")
    tune.report({"way": config["way"]})
    ways[config["way"]]()

results = tune.Tuner(ends, param_space={"way": tune.grid_search(list(ways))},
                     run_config=tune.RunConfig(name=sys.argv[1])).fit()
told = {}
for each in results:
    path = each.path
    told[each.metrics["way"]] = [
        type(each.error).__name__ if each.error else None, str(each.error or ""),
        open(path + "/stdout").read(), open(path + "/stderr").read().splitlines()[:1]]
print(json.dumps(told))
"""

STEPS = """
import json, os, sys, time
from rt import tune

def steps(config):
    me = str(config["i"])
    open(os.path.join(sys.argv[0] and config["notes"], me + "." + os.environ["RT_ATTEMPT"]),
         "w").write(f"{os.getpid()} {os.getppid()}")
    for step in range(6):
        while not os.path.exists(config["notes"] + "/go") and step == 3:
            time.sleep(0.01)
        tune.report({"step": step + 1, "i": config["i"],
                     "attempt": int(os.environ["RT_ATTEMPT"])})

notes = sys.argv[1]
results = tune.Tuner(steps, param_space={"i": tune.grid_search(list(range(6))), "notes": notes},
                     run_config=tune.RunConfig(name="steps")).fit()
print(json.dumps([[each.metrics["step"], each.metrics["attempt"], str(each.error or "")]
                  for each in results]))
"""


class WarmTest(unittest.TestCase):
    def setUp(self) -> None:
        self.place = Place()
        self.addCleanup(self.place.close)
        self.place.write("import sys, time\nprint('an import prints')\n"
                         "print('also here', file=sys.stderr)\n", "noisy.py")

    def said(self, text: str, *args: str, warm: bool = True):
        self.place.env["RT_WARM_START"] = "1" if warm else "0"
        said = self.place.said(text, *args)
        self.place.wait_gone()
        return said

    def test_a_forked_trial_cannot_tell_itself_from_a_fresh_process(self) -> None:
        warm = self.said(FACTS, "warm")
        cold = self.said(FACTS, "cold", warm=False)
        self.assertEqual({parent for *_, parent in warm}, {"python"})
        self.assertEqual({parent for *_, parent in cold}, {"rt-shim"})
        self.maxDiff = None
        for facts in [same for same, *_ in warm] + [same for same, *_ in cold]:
            for name, fact in facts.items():
                self.assertEqual(fact, cold[0][0][name], name)
        drawn = [tuple(draws) for _, draws, _, _ in warm]
        for place in range(3):
            self.assertEqual(len({draws[place] for draws in drawn}), 4, drawn)
        self.assertEqual(len({pid for _, _, pid, _ in warm}), 4)
        for run in ("warm", "cold"):
            for folder in (self.place.results / run).glob("facts_*"):
                self.assertEqual((folder / "stdout").read_text(), "an import prints\n")
                self.assertEqual((folder / "stderr").read_text(), "also here\n")

    def test_every_end_is_the_same_as_cold_and_leaves_nothing(self) -> None:
        warm = self.said(ENDS, "warm")
        cold = self.said(ENDS, "cold", warm=False)
        self.maxDiff = None
        self.assertEqual(warm, cold)
        self.assertEqual({way for way, told in warm.items() if told[0] is None},
                         {"returns", "exits", "os_exits"})
        self.assertEqual(warm["raises"][2], "out of raises\n")
        self.assertEqual(warm["leaves"][3], ["err of leaves"])

    def begin(self):
        """Six trials, of which two run and wait, and what each noted: {number: (pid, parent)}."""
        notes = self.place.root / "notes"
        notes.mkdir()
        self.place.env["RT_WARM_START"] = "1"
        process = self.place.start(self.place.write(STEPS), str(notes))
        self.addCleanup(process.communicate, timeout=100)
        self.addCleanup((notes / "go").touch)  # Before: else the trials of a failed test wait on.
        cpus = len(os.sched_getaffinity(0))

        def running():
            found = {path.name: path.read_text().split() for path in notes.glob("?.1")}
            ready = len(found) == min(cpus, 6) and all(len(text) == 2 for text in found.values())
            return {name: tuple(map(int, text)) for name, text in found.items()} if ready else None
        began = wait_until("trials have begun", running)
        wait_until("they wait", lambda: len(list(
            self.place.results.glob("steps/*/result.json"))) == len(began))
        return process, notes, began

    def finish(self, process, notes):
        (notes / "go").touch()
        out, err = process.communicate(timeout=100)
        self.assertEqual(process.returncode, 0, err)
        ended = json.loads(out.splitlines()[-1])
        self.assertEqual([[step, error] for step, _, error in ended], [[6, ""]] * 6, err)
        self.place.wait_gone()
        return [attempt for _, attempt, _ in ended]

    def test_resources_of_a_trials_own_need_no_server_of_their_own(self) -> None:
        said = self.place.said("""
import json, os
from rt import tune
def train(config):
    given = tune.get_context().get_trial_resources()
    return {"parent": os.getppid(), "cpu": given["cpu"]}
asks = tune.with_resources(train, lambda config: {"cpu": config["x"]})
results = tune.Tuner(asks, param_space={"x": tune.grid_search([0.25, 0.5, 1])}).fit()
print(json.dumps([[each.metrics["cpu"], each.metrics["parent"]] for each in results]))
""")
        self.assertEqual([cpu for cpu, _ in said], [0.25, 0.5, 1])
        self.assertEqual(len({parent for _, parent in said}), 1, said)

    def test_killing_the_server_kills_no_trial(self) -> None:
        process, notes, began = self.begin()
        servers = {parent for _, parent in began.values()}
        self.assertEqual(len(servers), 1)
        os.kill(servers.pop(), signal.SIGKILL)
        wait_until("the trials are the shim's", lambda: all(
            parent_name(pid) == "rt-shim" for pid, _ in began.values()))
        self.assertEqual(self.finish(process, notes), [1] * 6)

    def test_a_server_that_is_killed_while_it_loads_is_followed_by_another(self) -> None:
        loads = self.place.root / "loads"
        process = self.place.start(self.place.write("""
import json, os, sys, time
from rt import tune

def loaded(note):
    if "RT_TRIAL_ID" not in os.environ and not os.path.exists(note):  # The first server.
        with open(note + ".part", "w") as file:
            file.write(str(os.getpid()))
        os.rename(note + ".part", note)
        time.sleep(1000)
    return objective

def objective(config):
    tune.report({"parent": open(f"/proc/{os.getppid()}/comm").read().strip()})

class Slow:
    def __call__(self, config): pass
    def __reduce__(self): return loaded, (sys.argv[1],)

results = tune.Tuner(Slow(), param_space={"x": tune.grid_search([1, 2, 3])},
                     tune_config=tune.TuneConfig(max_concurrent_trials=1)).fit()
print(json.dumps([each.metrics["parent"] for each in results]))
"""), str(loads))
        self.addCleanup(process.communicate, timeout=100)
        wait_until("the server loads", loads.exists)
        os.kill(int(loads.read_text()), signal.SIGKILL)
        out, err = process.communicate(timeout=100)
        self.assertEqual(process.returncode, 0, err)
        first, *others = json.loads(out.splitlines()[-1])
        self.assertEqual(first, "rt-shim")  # It was started cold.
        self.assertNotIn("rt-shim", others)
        self.place.wait_gone()

    def test_killing_the_shim_of_a_group_restarts_its_trials(self) -> None:
        process, notes, began = self.begin()
        server = next(iter(began.values()))[1]
        os.kill(parent(server), signal.SIGKILL)
        wait_until("all of it is gone", lambda: not any(
            pathlib.Path(f"/proc/{pid}").exists() for pids in began.values() for pid in pids))
        attempts = self.finish(process, notes)
        self.assertEqual(sum(attempt == 2 for attempt in attempts), len(began), attempts)

    def test_a_trainable_that_leaves_a_thread_starts_cold_and_says_so(self) -> None:
        self.place.write("import threading, time\nthreading.Thread(target=time.sleep, args=(9e9,),"
                         " daemon=True, name='my poller').start()\n", "poller.py")
        said = self.said("""
import json, os
from rt import tune
def objective(config):
    import poller
    worker = os.path.dirname(os.environ["RT_TRIAL_DIR"]) + "/../../log"
    lines = [line for line in open(worker) if "cold start" in line]
    tune.report({"parent": open(f"/proc/{os.getppid()}/comm").read().strip(), "lines": lines})
results = tune.Tuner(objective, param_space={"x": tune.grid_search([1, 2, 3])}).fit()
print(json.dumps([[each.metrics["parent"], each.metrics["lines"]] for each in results]))
""")
        self.assertEqual({name for name, _ in said}, {"rt-shim"})
        lines = said[-1][1]
        self.assertEqual(len(lines), 1, lines)
        self.assertIn("its import left the thread 'my poller', which does not survive", lines[0])

    def test_an_object_that_can_be_reset_is_set_up_once(self) -> None:
        reuse = """
import json, os, sys, threading
from rt import tune
class Reused(tune.Trainable):
    def setup(self, config):
        open(os.path.join(config["notes"], str(os.getpid())), "w").close()
        self.data, self.made_with, self.steps = [0] * 1000, config["x"], 0
        if config["threads"]:
            threading.Thread(target=threading.Event().wait, daemon=True).start()
    def reset_config(self, new_config):
        self.now = new_config["x"]
        return new_config["x"] != 3
    def step(self):
        self.steps += 1
        return {"done": self.steps == 2, "x": self.config["x"], "now": getattr(self, "now", None),
                "made_with": self.made_with, "steps": self.steps, "pid": os.getpid()}
notes, threads = sys.argv[1], sys.argv[2] == "threads"
os.makedirs(notes)
results = tune.Tuner(
    Reused, param_space={"x": tune.grid_search([0, 1, 2, 3]), "notes": notes, "threads": threads},
    tune_config=tune.TuneConfig(reuse_actors=sys.argv[2] != "anew")).fit()
rows = [[each.metrics[k] for k in ("x", "now", "made_with", "steps")] for each in results]
print(json.dumps([rows, len(os.listdir(notes)), len({each.metrics["pid"] for each in results})]))
"""
        notes = str(self.place.root / "notes")
        rows, set_up, processes = self.said(reuse, notes + "1", "reuse")
        drawn = rows[0][2]
        self.assertIn(drawn, range(4))
        self.assertEqual(rows[:3], [[x, x, drawn, 2] for x in range(3)])
        self.assertEqual(rows[3], [3, None, 3, 2])  # It could not be reset.
        self.assertEqual((set_up, processes), (2, 4))
        for number, kind in (("2", "anew"), ("3", "threads")):
            rows, set_up, processes = self.said(reuse, notes + number, kind)
            self.assertEqual(rows, [[x, None, x, 2] for x in range(4)], kind)
            self.assertEqual((set_up, processes), (4 + (kind == "threads"), 4), kind)

    def test_what_does_not_load_fails_as_in_a_cold_start(self) -> None:
        done = self.place.run("""
from rt import tune
class Broken:
    def __call__(self, config): pass
    def __reduce__(self): return (__import__, ("no_such_module_anywhere",))
tune.run(Broken(), name="broken", raise_on_failed_trial=False)
""")
        self.assertIn("no_such_module_anywhere", done.stderr)
        self.place.wait_gone()

    def test_a_restart_goes_on_from_the_checkpoint(self) -> None:
        said = self.said("""
import json, os, tempfile
from rt import tune, train
def objective(config):
    start = 0
    if tune.get_checkpoint():
        with tune.get_checkpoint().as_directory() as path:
            start = int(open(path + "/step").read())
    for step in range(start + 1, 5):
        with tempfile.TemporaryDirectory() as path:
            open(path + "/step", "w").write(str(step))
            tune.report({"step": step, "attempt": int(os.environ["RT_ATTEMPT"])},
                        checkpoint=train.Checkpoint.from_directory(path))
        if step == 2:
            os.abort()
results = tune.Tuner(objective, param_space={"x": tune.grid_search([1, 2])}, run_config=
    tune.RunConfig(failure_config=tune.FailureConfig(max_failures=1))).fit()
print(json.dumps([[each.metrics["step"], each.metrics["attempt"],
                   each.metrics["training_iteration"]] for each in results]))
""")
        self.assertEqual(said, [[4, 2, 4]] * 2)


JOB = """
import os, signal, sys, time
from rt import tune
import beside

def objective(config):
    import beside
    while not os.path.exists(config["go"]) and config["end"] == "waits":
        time.sleep(0.01)
    tune.report({"parent": open(f"/proc/{os.getppid()}/comm").read().strip(), "x": beside.X,
                 "file": open("data.txt").read()})
    if config["end"] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if config["end"] == "exits":
        os._exit(9)

tune.Tuner(objective, param_space={"end": tune.grid_search(sys.argv[2].split(",")),
                                   "go": sys.argv[3]},
           run_config=tune.RunConfig(name=sys.argv[1])).fit()
"""


class SubmittedTest(unittest.TestCase):
    def setUp(self) -> None:
        self.cluster = Cluster(workers=1)
        self.addCleanup(self.cluster.close)
        env = self.cluster.env
        env["PATH"] = f"{PYTHON.parent}:{env['PATH']}"
        env["PYTHONPATH"] = str(ROOT / "python")
        self.cluster.up()
        for name, text in (("search.py", JOB), ("beside.py", "X = 3\n"), ("data.txt", "data")):
            (self.cluster.work / name).write_text(text)

    def submit(self, name: str, ends: list[str]) -> int:
        self.cluster.rt("submit", "--detach", "search.py", "--", name, ",".join(ends),
                        str(self.cluster.home / "go"))
        return wait_until("it is there", lambda: next(
            (item["id"] for item in self.cluster.experiments()
             if item["name"] == name), 0))

    def attempts(self, experiment: int) -> list:
        shown = [self.cluster.trial(trial["id"])
                 for trial in self.cluster.trials(experiment)]
        return [[(one["number"], one["outcome"], one["exit_code"], one["signal"])
                 for one in trial["attempts"]] for trial in shown]

    def test_a_submitted_search_has_its_files_and_its_ends(self) -> None:
        number = self.submit("ends", ["returns", "killed", "exits"])
        self.cluster.wait_experiment(number)
        self.assertEqual([ends[0][1:] for ends in self.attempts(number)],
                         [("SUCCEEDED", 0, None), ("FAILED", None, 9), ("FAILED", 9, None)])
        metrics = [trial["metrics"] for trial in self.cluster.trials(number)]
        self.assertEqual([(row["parent"][:6], row["x"], row["file"]) for row in metrics],
                         [("python", 3, "data")] * 3)

    def test_a_daemon_that_is_killed_and_comes_back_has_its_forked_trials(self) -> None:
        number = self.submit("waits", ["waits"] * 6)
        wait_until("two run", lambda: [t["state"] for t in self.cluster.trials(number)].count(
            "RUNNING") == 2)
        old = self.cluster.kill("worker-1")
        wait_until("another daemon", lambda: self.cluster.pid("worker-1") != old)
        servers = [text for text in self.cluster.leftovers().values() if "RT_WARM_SERVER=" in text]
        self.assertLessEqual(len(servers), 1)
        (self.cluster.home / "go").touch()
        self.cluster.wait_experiment(number)
        self.assertEqual([[end[:2] for end in ends] for ends in self.attempts(number)],
                         [[(1, "SUCCEEDED")]] * 6, self.cluster.logs())
        self.cluster.wait_no_trials()


def parent(pid: int) -> int:
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


def parent_name(pid: int) -> str:
    """Empty when the parent has ended since its number was read: the process gets another one."""
    try:
        return pathlib.Path(f"/proc/{parent(pid)}/comm").read_text().strip()
    except FileNotFoundError:
        return ""


if __name__ == "__main__":
    unittest.main()
