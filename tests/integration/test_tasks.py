"""Tasks and actors on real clusters: embedded, in a job, in a trial; with a kill of each party."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import textwrap
import unittest

from harness import BIN, ROOT, ClusterTest, driver_python, processes_of, wait_until

# Nested gets, actors and large values; a gate holds it in the middle.
WORK = """
import os, pathlib, sys, time
import rt as ray

files, size = pathlib.Path(sys.argv[1]), int(sys.argv[2])

@ray.remote
def square(n):
    return n * n

@ray.remote
def twice(n):
    return 2 * ray.get(square.remote(n))

@ray.remote(max_restarts=-1, max_task_retries=-1)
class Sums:
    def total(self, *values):
        return sum(values)

refs = [twice.remote(n) for n in range(size)]
sums = Sums.remote()
ready, _ = ray.wait(refs, num_returns=size // 10)
(files / "began").write_text(str(os.getpid()))
while len(sys.argv) > 3 and not (files / "go").exists():
    time.sleep(0.01)
refs += [twice.remote(n) for n in range(size)]
big = ray.put(b"x" * 1_000_000)
length = ray.remote(len)
print("answer", ray.get(sums.total.remote(*refs[:50])), sum(ray.get(refs)),
      ray.get(length.remote(big)))
"""


def expected(size: int) -> str:
    one = sum(2 * n * n for n in range(size))
    return f"answer {sum(2 * n * n for n in range(50))} {2 * one} 1000000"


# A driver without cpus of its own.
NO_CPUS = """
import rt as ray

ray.init(num_cpus=0)

@ray.remote(num_cpus=0)
def one():
    return 1

@ray.remote
class Two:
    def value(self):
        return 2

assert "CPU" not in ray.cluster_resources()
try:
    ray.get(ray.remote(one._function).remote())
except ray.exceptions.TaskUnschedulableError as error:
    print("answer", ray.get([one.remote(), Two.remote().value.remote()]), "no cpu" in str(error))
"""


# A driver whose bridge, and with it the embedded cluster, is killed while tasks run and wait.
LOSES = """
import os, signal, time
import rt as ray
from rt import _driver

ray.init(num_cpus=1)

@ray.remote
def waits(seconds):
    time.sleep(seconds)

@ray.remote
class Actor:
    def get(self):
        return 1

actor = Actor.remote()
print("before", ray.get([actor.get.remote(), waits.remote(0)]), flush=True)
refs = [waits.remote(100), waits.remote(100)]
os.kill(_driver._current._child.pid, signal.SIGKILL)
found = []
for ref in (*refs, waits.remote(0)):
    try:
        ray.get(ref, timeout=60)
    except ray.exceptions.RayError as error:
        found.append("rt bridge was killed by signal 9" in str(error))
try:
    while True:  # Its process may be there for a moment.
        ray.get(actor.get.remote(), timeout=60)
except (ray.exceptions.ActorDiedError, ray.exceptions.ActorUnschedulableError):
    print("answer", found)
"""


# Two trials that have both cpus, and whose tasks submit tasks.
FULL = """
import sys
import rt as ray
from rt import tune

@ray.remote
def square(n):
    return n * n

@ray.remote
def shifted(n, by):
    return ray.get(square.remote(n)) + by

def train(config):
    assert ray.get_runtime_context().get_assigned_resources() == {"CPU": 1.0}
    tune.report({"total": sum(ray.get([shifted.remote(n, config["by"]) for n in range(10)]))})

ray.init(num_cpus=2)
space = {"by": tune.grid_search([0, 4])}
results = tune.Tuner(train, param_space=space,
                     run_config=tune.RunConfig(storage_path=sys.argv[1] + "/results")).fit()
print("answer", sorted(one.metrics["total"] for one in results))
"""


class EmbeddedTasksTest(unittest.TestCase):
    def setUp(self) -> None:
        self.directory = tempfile.TemporaryDirectory(prefix="rt-tasks-")
        self.addCleanup(self.directory.cleanup)
        self.files = pathlib.Path(self.directory.name)
        (self.files / "script.py").write_text(WORK)
        self.env = {
            **{name: value for name, value in os.environ.items() if not name.startswith("RT_")},
            "RT_BIN": str(BIN), "PYTHONPATH": str(ROOT / "python"),
            "RT_HOME": str(self.files / "home"), "TMPDIR": str(self.files),
        }  # fmt: skip

    def start(self, *args: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [driver_python(), str(self.files / "script.py"), str(self.files), *args],
            env=self.env, cwd=self.files, text=True, stdout=subprocess.PIPE)  # fmt: skip

    def test_a_plain_script_runs_tasks_and_leaves_nothing(self) -> None:
        script = self.start("300")
        out, _ = script.communicate(timeout=120)
        self.assertEqual((script.returncode, out.splitlines()[-1]), (0, expected(300)))
        wait_until("all processes have ended", lambda: not processes_of(self.files),
                   lasting=True)

    def test_an_embedded_cluster_has_the_resources_of_init(self) -> None:
        (self.files / "script.py").write_text("""
import rt as ray
ray.init(num_cpus=1, resources={"license": 2})
f = ray.remote(resources={"license": 1})(lambda n: n)
print(ray.cluster_resources()["license"], ray.get([f.remote(n) for n in range(4)]))
try:
    ray.get(f.options(resources={"license": 3}).remote(1))
except ray.exceptions.TaskUnschedulableError as error:
    print("license" in str(error))
""")
        out, _ = self.start().communicate(timeout=120)
        self.assertEqual(out.splitlines(), ["2.0 [0, 1, 2, 3]", "True"])

    def test_a_driver_without_cpus_runs_what_needs_none(self) -> None:
        (self.files / "script.py").write_text(NO_CPUS)
        out, _ = self.start().communicate(timeout=120)
        self.assertEqual(out.splitlines(), ["answer [1, 2] True"])

    def test_tasks_end_with_an_error_when_the_bridge_is_killed(self) -> None:
        (self.files / "script.py").write_text(LOSES)
        out, _ = (script := self.start()).communicate(timeout=120)
        self.assertEqual((script.returncode, out.splitlines()[-1]),
                         (0, "answer [True, True, True]"))
        wait_until("all processes have ended", lambda: not processes_of(self.files),
                   lasting=True)

    def test_trials_that_fill_the_cluster_run_tasks_in_their_own_capacity(self) -> None:
        (self.files / "script.py").write_text(FULL)
        script = self.start()
        out, _ = script.communicate(timeout=120)
        self.assertEqual((script.returncode, out.splitlines()[-1]), (0, "answer [285, 325]"))
        wait_until("all processes have ended", lambda: not processes_of(self.files),
                   lasting=True)

    def test_a_driver_that_is_killed_leaves_nothing(self) -> None:
        script = self.start("300", "waits")
        wait_until("it has begun", (self.files / "began").exists)
        script.kill()
        script.communicate()
        wait_until("all processes have ended", lambda: not processes_of(self.files),
                   lasting=True)


# A trial that uses tasks.
TRIAL = """
import sys
import rt as ray
from rt import tune

def train(config):
    @ray.remote
    def square(n):
        return n * n
    tune.report({"total": sum(ray.get([square.remote(n) for n in range(20)]))})

results = tune.Tuner(train, param_space={"x": tune.grid_search([1, 2])},
                     tune_config=tune.TuneConfig(metric="total", mode="max")).fit()
print("trials", [each.metrics["total"] for each in results])
"""


# Three sessions of one user and an actor that outlives each of them.
KEEPS = """
import os
import rt as ray

@ray.remote
class Counter:
    def __init__(self, start):
        self.value = start

    def add(self, n=1):
        self.value += n
        return self.value

    def pid(self):
        return os.getpid()

    def square(self, n):
        @ray.remote
        def square(n):
            return n * n
        return ray.get(square.remote(n))

counter = Counter.options(name="keep", lifetime="detached", max_restarts=1).remote(5)
print("made", ray.get([counter.add.remote() for _ in range(3)]))
"""
FINDS = """
import os, signal
import rt as ray
from rt import exceptions

counter = ray.get_actor("keep")
found = [ray.get(counter.add.remote(10)), ray.get(counter.square.remote(7))]

@ray.remote
def add():
    return ray.get(ray.get_actor("keep").add.remote())

found.append(ray.get(add.remote()))
try:
    ray.get(counter.add.remote(ray.put([ray.put(1)])))
except ValueError as error:
    found.append("values" in str(error))
os.kill(ray.get(counter.pid.remote()), signal.SIGKILL)
while True:
    try:
        found.append(ray.get(counter.add.remote()))  # It was made anew.
        break
    except exceptions.ActorUnavailableError:
        pass
print("found", found)
"""
ENDS = """
import rt as ray

ray.kill(ray.get_actor("keep"))
while True:
    try:
        ray.get_actor("keep")
    except ValueError as error:
        print("gone", "keep" in str(error))
        break
"""


# A detached actor whose constructor raises, as its driver and a later one see it.
RAISES = """
import sys
import rt as ray
from rt import exceptions

made = sys.argv[1] + "/made"

@ray.remote
class Broken:
    def __init__(self, raises):
        with open(made, "a") as file:
            file.write("x")
        if raises:
            raise KeyError("no data")

    def get(self):
        return 1

def says(error):
    return "constructor of Broken raised" in str(error) and "no data" in str(error)

kept = Broken.options(name="broken", lifetime="detached", max_restarts=-1)
found = []
try:
    ray.get(kept.remote(True).get.remote(), timeout=60)
except exceptions.ActorDiedError as error:
    found.append(says(error))
try:
    ray.get_actor("broken")
except ValueError as error:
    found.append(says(error))
print("broken", found, len(open(made).read()))
"""
# Two sessions: the second one ends the process of the actor, and the actor is made anew.
MAKES_AGAIN = """
import os, sys, time
import rt as ray
from rt import exceptions

@ray.remote
class Named:
    def pid(self):
        return os.getpid()

kept = Named.options(name="again", lifetime="detached", max_restarts=1, get_if_exists=True)
actor = kept.remote()
before = ray.get(actor.pid.remote())
end = time.monotonic() + 60
if sys.argv[2] == "kills":
    ray.kill(actor, no_restart=False)
    after = before
    while after == before and time.monotonic() < end:
        try:
            after = ray.get(actor.pid.remote())
        except exceptions.ActorUnavailableError:
            pass
    ray.kill(actor)
    print("another process", after != before)
"""
# The constructor of the first process does not return: its driver is not connected to it when it
# ends it, and the second process takes the calls.
ENDS_UNMET = """
import os, pathlib, sys, threading, time
import rt as ray

met = pathlib.Path(sys.argv[1]) / "met"

@ray.remote
class Slow:
    def __init__(self):
        is_first = not met.exists()
        with met.open("a") as file:
            print(os.getpid(), file=file)
        if is_first:
            threading.Event().wait()
    def pid(self):
        return os.getpid()

end = time.monotonic() + 120
if sys.argv[2:] != ["finds"]:
    slow = Slow.options(name="slow", lifetime="detached", max_restarts=1).remote()
    while not (met.exists() and met.read_text()) and time.monotonic() < end:
        time.sleep(0.01)
if sys.argv[2:] == ["makes"]:
    print("hangs")
    sys.exit()
if sys.argv[2:] == ["finds"]:
    slow = ray.get_actor("slow")
ray.kill(slow, no_restart=False)
pid = ray.get(slow.pid.remote(), timeout=120)
ray.kill(slow)
print("made", [int(each) for each in met.read_text().split()].index(pid))
"""


class ClusterTasksTest(ClusterTest):
    def submit(self, text: str, *args: str) -> subprocess.Popen[str]:
        work = pathlib.Path(tempfile.mkdtemp(dir=self.cluster.work))
        (work / "script.py").write_text(textwrap.dedent(text))
        env = {**self.cluster.env, "PYTHONPATH": str(ROOT / "python")}
        env["PATH"] = f"{pathlib.Path(driver_python()).parent}:{env['PATH']}"
        self.files = work
        return subprocess.Popen(
            [str(BIN / "rt"), "-c", "it", "submit", "script.py", "--", str(work), *args],
            env=env, cwd=work, text=True, stdout=subprocess.PIPE)  # fmt: skip

    def finish(self, submitted: subprocess.Popen[str]) -> str:
        out, _ = submitted.communicate(timeout=180)
        self.assertEqual(submitted.returncode, 0, out)
        return out.splitlines()[-1]

    def test_a_job_runs_tasks(self) -> None:
        self.assertEqual(self.finish(self.submit(WORK, "300")), expected(300))
        wait_until("its executors have ended", self.has_no_executors, lasting=True)

    def has_no_executors(self) -> bool:
        return not any("rt._executor" in line for line in processes_of(self.cluster.home).values())

    def test_a_trial_runs_tasks(self) -> None:
        self.assertEqual(self.finish(self.submit(TRIAL)), "trials [2470, 2470]")

    def test_a_detached_actor_outlives_its_session_and_a_kill(self) -> None:
        self.assertEqual(self.finish(self.submit(KEEPS)), "made [6, 7, 8]")
        (listed,) = self.cluster.json("actor", "list")["items"]
        self.assertEqual((listed["actor"]["name"], listed["state"]), ("keep", "RUNNING"))
        self.assertEqual(self.finish(self.submit(FINDS)), "found [18, 49, 19, True, 6]")
        self.assertEqual(self.finish(self.submit(ENDS)), "gone True")
        self.assertEqual(self.cluster.json("actor", "list")["items"], [])

    def test_a_detached_actor_whose_constructor_raises_ends_and_says_why(self) -> None:
        self.assertEqual(self.finish(self.submit(RAISES)), "broken [True, True] 1")
        (listed,) = self.cluster.json("actor", "list")["items"]
        self.assertEqual((listed["state"], listed["outcome"], listed["restarts"]),
                         ("ENDED", "FAILED", 0))
        self.assertEqual(listed["error"]["class"], "KeyError")
        self.assertIn("raise KeyError(", listed["error"]["traceback"])
        self.assertIn("the constructor of Broken raised KeyError", listed["reason"])

    def test_another_session_ends_the_process_of_a_detached_actor(self) -> None:
        out, _ = self.submit(MAKES_AGAIN, "makes").communicate(timeout=180)
        self.assertEqual(out, "")
        self.assertEqual(self.finish(self.submit(MAKES_AGAIN, "kills")), "another process True")

    def test_a_detached_actor_is_ended_before_its_driver_has_reached_it(self) -> None:
        self.assertEqual(self.finish(self.submit(ENDS_UNMET)), "made 1")
        wait_until("the second kill is for good, though its session has ended",
                   lambda: self.cluster.json("actor", "list")["items"] == [])

    def test_another_session_ends_a_detached_actor_whose_constructor_hangs(self) -> None:
        self.assertEqual(self.finish(self.submit(ENDS_UNMET, "makes")), "hangs")
        made = self.files
        for elsewhere in ("", "import rt.core._session as session, rt.core._detached as detached\n"
                          "session.boot_id = detached.boot_id = lambda: 'elsewhere'\n"):
            (made / "met").write_text((made / "met").read_text().splitlines()[0] + "\n")
            script = elsewhere + ENDS_UNMET.replace("sys.argv[1]", repr(str(made)))
            self.assertEqual(self.finish(self.submit(script, "finds")), "made 1")
            wait_until("it has ended", lambda: "slow" not in [
                each["name"] for each in self.cluster.json("actor", "list")["items"]])
            if not elsewhere:  # Next, a session that reaches it through the daemons.
                (made / "met").unlink()
                again = ENDS_UNMET.replace("sys.argv[1]", repr(str(made)))
                self.assertEqual(self.finish(self.submit(again, "makes")), "hangs")

    def test_the_head_may_be_away(self) -> None:
        submitted = self.submit(WORK, "300", "waits")
        wait_until("it has begun", (self.files / "began").exists)
        self.cluster.kill("head")
        (self.files / "go").touch()
        self.assertEqual(self.finish(submitted), expected(300))

    def test_a_worker_daemon_may_be_killed(self) -> None:
        submitted = self.submit(WORK, "300", "waits")
        wait_until("it has begun", (self.files / "began").exists)
        for part in ("worker-1", "worker-2"):
            self.cluster.kill(part)
        (self.files / "go").touch()
        self.assertEqual(self.finish(submitted), expected(300))

    def test_tasks_run_on_other_machines(self) -> None:
        """Their sockets are out of reach, so everything passes through the daemons."""
        elsewhere = "import rt.core._session as session\nsession.boot_id = lambda: 'elsewhere'\n"
        self.assertEqual(self.finish(self.submit(elsewhere + WORK, "300")), expected(300))

    def test_executors_and_their_processes_may_be_killed(self) -> None:
        submitted = self.submit(WORK, "300", "waits")
        wait_until("it has begun", (self.files / "began").exists)
        killed = 0
        for pid, line in processes_of(self.cluster.home).items():
            if "rt._executor" in line:
                killed += 1
                with contextlib.suppress(ProcessLookupError):  # Its executor was killed before it.
                    os.kill(pid, signal.SIGKILL)
        self.assertGreater(killed, 0)
        (self.files / "go").touch()
        self.assertEqual(self.finish(submitted), expected(300))


if __name__ == "__main__":
    sys.exit(unittest.main())
