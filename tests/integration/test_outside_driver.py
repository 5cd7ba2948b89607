"""A driver outside of the cluster: its bytes go to the executors through the head (adr/0041)."""

from __future__ import annotations

import pathlib
import socket
import subprocess
import sys
import tempfile
import unittest
from typing import Any

from harness import BIN, ROOT, Bridge, ClusterTest, driver_python, wait_until
from test_executors import ECHO, Session
from test_task_nodes import bytes_received

# The directories of executors are out of the driver's reach, as on a machine of its own.
SCRIPT = """
import os, pathlib, sys, time
import rt as ray
import rt.core._session as session

session.boot_id = lambda: "elsewhere"
files = pathlib.Path(sys.argv[1])

def await_file(name):
    while not (files / name).exists():
        time.sleep(0.01)

@ray.remote(max_retries=-1)
def square(n):
    if n == 30:
        (files / "thirty").touch()
        await_file("go")
    return n * n

@ray.remote(max_retries=-1)
def nested(numbers):
    return sum(ray.get([square.remote(n) for n in numbers]))

@ray.remote(max_retries=-1)
def length(value):
    return len(value), value[-1]

@ray.remote(max_restarts=-1, max_task_retries=-1)
class Sums:
    def total(self, *values):
        return sum(values)

refs = [square.remote(n) for n in range(60)]
value = ray.put(b"x" * 20_000_000)
sizes = [length.remote(value) for _ in range(6)]
print("answer", sum(ray.get(refs)), ray.get(nested.remote(list(range(20)))),
      ray.get(Sums.remote().total.remote(*refs[:4])), set(ray.get(sizes)))
"""
ANSWER = f"answer {sum(n * n for n in range(60))} {sum(n * n for n in range(20))} 14 " \
    "{(20000000, 120)}"


# Directories that are on no path of the driver's.
WITH_CODE = """
import os, sys
import rt as ray
import rt.core._session as session

session.boot_id = lambda: "elsewhere"
code, pack = sys.argv[1] + "/code", sys.argv[1] + "/mods/pack"
ray.init(runtime_env={"working_dir": code, "env_vars": {"WHO": "init"}})

@ray.remote
def look():
    import helper
    return helper.VALUE, open("data.txt").read(), os.path.exists("left-out"), os.environ["WHO"]

@ray.remote
class Packed:
    def name(self):
        import helper, pack
        return pack.NAME, helper.VALUE, os.environ["WHO"], os.path.exists(code)

env = {"py_modules": [pack], "env_vars": {"WHO": "options"}}
print(ray.get(look.remote()), ray.get(Packed.options(runtime_env=env).remote().name.remote()))
try:
    import helper
except ImportError:
    print("not here")
"""


# One script makes it, others call it from elsewhere: from outside, and from another node.
DETACHED = """
import os, pathlib, sys, time
import rt as ray
import rt.core._detached as detached
import rt.core._session as session

if "near" not in sys.argv:
    session.boot_id = detached.boot_id = lambda: "elsewhere"

files = pathlib.Path(sys.argv[1])

@ray.remote
class Keeps:
    def __init__(self):
        self.longest = b""
    def add(self, value):
        self.longest = max(self.longest, value, key=len)
        return len(value), os.getpid()
    def get(self):
        return self.longest

def call_again(keeps):
    while True:
        try:
            return ray.get(keeps.add.remote(b"x"), timeout=120)
        except ray.exceptions.ActorUnavailableError:
            pass  # The way there has ended, or the process.

if sys.argv[2] == "make":
    keeps = Keeps.options(name="keeps", lifetime="detached", max_restarts=1).remote()
    print(ray.get(keeps.add.remote(b"x")))
elif sys.argv[2] == "kill":
    keeps = ray.get_actor("keeps")
    before = ray.get(keeps.add.remote(b"x"))
    (files / "met").touch()
    while not (files / "away").exists():
        time.sleep(0.01)
    ray.kill(keeps, no_restart=False)
    print("another", call_again(keeps) != before)
else:
    keeps = ray.get_actor("keeps")
    print(ray.get(keeps.add.remote(os.urandom(int(sys.argv[2])))), len(ray.get(keeps.get.remote())))
"""


class OutsideDriverTest(ClusterTest):
    workers, cpus = 2, 4

    def setUp(self) -> None:
        self.files = pathlib.Path(tempfile.mkdtemp(dir=self.cluster.work))

    def run_script(self, text: str = SCRIPT, *arguments: str) -> subprocess.Popen[str]:
        (self.files / "script.py").write_text(text)
        env = {**self.cluster.env, "PYTHONPATH": str(ROOT / "python"), "RT_CLUSTER": "it",
               "RT_BIN": str(BIN)}
        return subprocess.Popen([driver_python(), "script.py", str(self.files), *arguments],
                                env=env, cwd=self.files, text=True, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE)  # fmt: skip

    def finish(self, script: subprocess.Popen[str]) -> None:
        out, err = script.communicate(timeout=120)
        self.assertEqual((script.returncode, out.strip()), (0, ANSWER), err)

    def no_executors(self) -> bool:
        return not self.cluster.json("status")["executors"]["total"]

    def test_tasks_values_and_actors_go_through_the_head(self) -> None:
        before = bytes_received(self.cluster.pid("head"))
        script = self.run_script()
        wait_until("a task waits", (self.files / "thirty").exists)
        # The value once for each of the two nodes: from the bridge, and nothing to speak of back.
        wait_until("the value has crossed",
                   lambda: bytes_received(self.cluster.pid("head")) - before > 20_000_000)
        (self.files / "go").touch()
        self.finish(script)
        wait_until("all executors are released", self.no_executors)

    def test_a_kill_of_the_head_loses_nothing(self) -> None:
        script = self.run_script()
        wait_until("a task waits", (self.files / "thirty").exists)
        head = self.cluster.kill("head")
        wait_until("another head", lambda: self.cluster.json("status") and
                   self.cluster.pid("head") != head)
        (self.files / "go").touch()
        self.finish(script)

    def test_code_of_the_driver_reaches_other_nodes(self) -> None:
        for path, text in {"code/helper.py": "VALUE = 7", "code/data.txt": "text",
                           "code/left-out": "x", "code/.rtignore": "left-out",
                           "mods/pack/__init__.py": "NAME = 'packed'"}.items():
            (self.files / path).parent.mkdir(parents=True, exist_ok=True)
            (self.files / path).write_text(text)
        out, err = self.run_script(WITH_CODE).communicate(timeout=60)
        self.assertEqual(out, "(7, 'text', False, 'init') ('packed', 7, 'options', True)\n"
                              "not here\n", err)
        (self.files / "code/helper.py").write_text("VALUE = 8")
        out, err = self.run_script(WITH_CODE).communicate(timeout=60)
        self.assertIn("(8, 'text'", out, err)

    def test_a_detached_actor_is_reached_from_elsewhere(self) -> None:
        """With values that would be descriptors on its own node."""
        def answer(*arguments: str) -> tuple[str, str]:
            out, err = self.run_script(DETACHED, *arguments).communicate(timeout=60)
            self.assertTrue(out, err)
            size, pid, longest = out.replace("(", "").replace(")", ",").replace(",", "").split()
            return f"{size} {longest}", pid

        made, err = self.run_script(DETACHED, "make", "near").communicate(timeout=60)
        self.assertIn("(1, ", made, err)
        pid = made.split()[1].rstrip(")\n")
        self.assertEqual(answer("20000000"), ("20000000 20000000", pid))
        self.assertEqual(answer("300000", "near"), ("300000 20000000", pid))
        # From a job of the same user, which may run on another node than the actor.
        env = {**self.cluster.env, "PYTHONPATH": str(ROOT / "python")}
        env["PATH"] = f"{pathlib.Path(driver_python()).parent}:{env['PATH']}"
        job = subprocess.run([str(BIN / "rt"), "-c", "it", "submit", "script.py", "--",
                              str(self.files), "400000"], env=env, cwd=self.files, text=True,
                             capture_output=True, timeout=90)  # fmt: skip
        self.assertIn(f"(400000, {pid}) 20000000", job.stdout, job.stderr)
        self.assertIn("keeps", self.cluster.rt("actor", "list").stdout)
        own = Bridge(self.cluster)
        self.addCleanup(own.close)
        number = own.ask("actor_get", name="keeps")["result"]["id"]
        for op, fields in (("actor_get", {"name": "keeps"}),
                           ("executor_dial", {"executor": number, "session": "any"})):
            error = self.other_person(f"{op[:5]}-bob", "user").ask(op, **fields)["error"]
            self.assertEqual(error["code"], "NOT_FOUND", op)
        self.assertTrue(own.ask("actor_kill", name="keeps", reason="the test ends")["ok"])
        wait_until("the actor has ended", self.no_executors)

    def test_a_kill_from_elsewhere_waits_for_a_head_that_is_away(self) -> None:
        made, err = self.run_script(DETACHED, "make", "near").communicate(timeout=60)
        self.assertIn("(1, ", made, err)
        script = self.run_script(DETACHED, "kill")
        wait_until("it is connected", (self.files / "met").exists)
        self.cluster.kill("head")
        (self.files / "away").touch()
        out, err = script.communicate(timeout=180)
        self.assertEqual(out, "another True\n", err)
        (listed,) = self.cluster.json("actor", "list")["items"]
        self.assertEqual((listed["state"], listed["restarts"]), ("RUNNING", 1))
        own = Bridge(self.cluster)
        self.addCleanup(own.close)
        self.assertTrue(own.ask("actor_kill", name="keeps", reason="the test ends")["ok"])
        wait_until("the actor has ended", self.no_executors)

    def test_only_the_driver_of_a_session_comes_to_its_executors(self) -> None:
        bridge = Bridge(self.cluster)
        self.addCleanup(bridge.close)
        session = Session(bridge, "mine")
        numbers = session.request(2, argv=[sys.executable, "-c", ECHO])
        for number in numbers:
            session.wait_for(number, "RUNNING")

        def refused(by: Bridge, **fields: Any) -> tuple[str, str]:
            error = by.ask("executor_dial", **fields)["error"]
            return error["code"], error["message"]

        code, why = refused(bridge, executor=numbers[0], session="another")
        self.assertEqual(code, "NOT_FOUND")
        self.assertIn(f"no executor {numbers[0]} of the caller's session", why)
        self.assertEqual(refused(bridge, executor=numbers[0])[0], "INVALID_ARGUMENT")
        self.assertEqual(refused(bridge, executor=99_999, session="mine")[0], "NOT_FOUND")
        self.assertEqual(refused(self.other_person("bob", "user"), executor=numbers[0],
                                 session="mine")[0], "NOT_FOUND")
        code, why = refused(self.other_person("eve", "viewer"), executor=numbers[0],
                            session="mine")
        self.assertEqual(code, "PERMISSION_DENIED")
        self.assertIn("may not reach executors", why)
        self.assertEqual(self.echo(bridge, numbers[0]), b"HELLO")
        session.release(numbers[1])
        self.assertIn(refused(bridge, executor=numbers[1], session="mine")[0],
                      ("FAILED_PRECONDITION", "NOT_FOUND"))
        session.release()

    def other_person(self, name: str, role: str) -> Bridge:
        """A bridge of another user, with a context of its own."""
        token = self.cluster.rt("token", "create", "--role", role, "--name", name).stdout
        home = self.files / name
        address = (self.cluster.home / "home/clusters/it/head/address").read_text().strip()
        env = {**self.cluster.env, "RT_HOME": str(home)}
        subprocess.run([str(BIN / "rt"), "context", "add", "it", "--head", address,
                        "--token-file", "-"], env=env, input=token, text=True, check=True,
                       capture_output=True, timeout=60)  # fmt: skip
        bridge = Bridge(self.cluster, env)
        self.addCleanup(bridge.close)
        return bridge

    def echo(self, bridge: Bridge, number: int) -> bytes:
        def way() -> Any:
            answer = bridge.ask("executor_dial", executor=number, session="mine")
            return answer["result"]["socket"] if answer["ok"] else None

        name = wait_until("the executor listens", way)
        self.assertTrue(name.startswith("@"), name)
        with socket.socket(socket.AF_UNIX) as wire:
            wire.settimeout(30)
            wire.connect("\0" + name[1:])
            wire.sendall(b"hello")
            got = wire.recv(5)
            wire.sendall(b"y" * 1_000_000)
            rest = 0
            while rest < 1_000_000:
                rest += len(wire.recv(1 << 16))
            wire.shutdown(socket.SHUT_WR)
            self.assertEqual(wire.recv(1), b"")
        return got


if __name__ == "__main__":
    sys.exit(unittest.main())
