"""Executors: capacity for a driver's session, requested through `rt bridge`; docs/adr/0041."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import sys
import time
import unittest
from typing import Any

from harness import Bridge, Cluster, ClusterTest, wait_until

# Says what it sees, and then runs until it is ended.
PROGRAM = """
import json, os, signal
with open(os.environ["RT_CONFIG"]) as file:
    config = json.load(file)
told = {name: value for name, value in os.environ.items() if name.startswith("RT_")}
with open(os.environ["RT_TRIAL_DIR"] + "/told.tmp", "w") as file:
    json.dump({"config": config, "env": told, "pid": os.getpid()}, file)
os.rename(os.environ["RT_TRIAL_DIR"] + "/told.tmp", os.environ["RT_TRIAL_DIR"] + "/told")
if "code" in config:
    raise SystemExit(config["code"])
signal.pause()
"""

# A driver that is part of an attempt: asks for two executors, tells what it got, and waits.
INSIDE = """
import json, os, signal, socket, sys
wire = socket.socket(socket.AF_UNIX)
wire.connect(os.environ["RT_SOCKET"])
lines = wire.makefile("rw")
def say(**message):
    lines.write(json.dumps(message) + chr(10))
    lines.flush()
    return json.loads(lines.readline())
def call(op, **fields):
    return say(op="driver", id=1, call={"op": op, **fields})
assert say(op="hello", token=os.environ["RT_TOKEN"])["ok"]
told = {"refused": call("experiment_list")}
spec = {"argv": [sys.executable, "-c", "import signal; signal.pause()"], "name": "inside"}
told["asked"] = call("executor_request", session="s", key="k", count=2, spec=spec)["result"]
seen, running = "", {}
while list(running.values()).count("RUNNING") < 2:
    answer = call("executor_wait", session="s", seen=seen, hold_ms=5000)["result"]
    seen = answer["seen"]
    running.update({one["id"]: one["state"] for one in answer["executors"]})
with open(sys.argv[1] + ".tmp", "w") as file:
    json.dump(told, file)
os.rename(sys.argv[1] + ".tmp", sys.argv[1])
signal.pause()
"""

# An executor that answers in capitals, and ends with its first connection.
ECHO = """
import os, socket
os.chdir(os.environ["RT_TRIAL_DIR"])
listener = socket.socket(socket.AF_UNIX)
listener.bind("tasks.sock.tmp")
listener.listen()
os.rename("tasks.sock.tmp", "tasks.sock")
wire, _ = listener.accept()
while data := wire.recv(1 << 16):
    wire.sendall(data.upper())
"""
# A driver in a job: one executor on each node, each of which it reaches through its daemon.
DIALS = """
import json, os, socket, sys, time
wire = socket.socket(socket.AF_UNIX)
wire.connect(os.environ["RT_SOCKET"])
lines = wire.makefile("rw")
def say(**message):
    lines.write(json.dumps(message) + chr(10))
    lines.flush()
    return json.loads(lines.readline())
def call(op, **fields):
    return say(op="driver", id=1, call={"op": op, **fields})
assert say(op="hello", token=os.environ["RT_TOKEN"])["ok"]
spec = {"argv": [sys.executable, "-c", sys.argv[2]], "resources": {"cpu": 2}}
numbers = call("executor_request", session="s", key="k", count=2, spec=spec)["result"]["executors"]
told = {"foreign": call("executor_dial", id=int(sys.argv[3])), "paths": [], "echoes": []}
def echo(path):
    way = socket.socket(socket.AF_UNIX)
    way.connect(path)
    got = b""
    way.sendall(b"hello")
    first = way.recv(5)
    way.sendall(b"x" * 100_000)
    while len(got) < 100_000:
        got += way.recv(1 << 16)
    way.shutdown(socket.SHUT_WR)
    rest = way.recv(1)
    return [first.decode(), got == b"X" * 100_000, rest.decode()]
for number in numbers:
    end = time.monotonic() + 30
    while True:
        way = call("executor_dial", id=number)
        if way["ok"]:
            try:
                told["echoes"].append(echo(way["result"]["socket"]))
                told["paths"].append(way["result"]["socket"])
                break
            except (ConnectionError, FileNotFoundError):
                pass
        if time.monotonic() > end:
            raise SystemExit(f"in vain: {way}")
        time.sleep(0.05)  # It may not listen yet.
with open(sys.argv[1] + ".tmp", "w") as file:
    json.dump(told, file)
os.rename(sys.argv[1] + ".tmp", sys.argv[1])
"""


class Session:
    """A session of a driver, and what it has seen of its executors."""

    def __init__(self, bridge: Bridge, name: str) -> None:
        self.bridge, self.name, self.seen = bridge, name, ""
        self.items: dict[int, Any] = {}

    def request(self, count: int = 1, key: str = "", **spec: Any) -> list[int]:
        fields = {"argv": [sys.executable, "-c", PROGRAM], "name": "probe", **spec}
        answer = self.bridge.call("executor_request", session=self.name, key=key, count=count,
                                  spec=fields)
        return list(answer["executors"])

    def wait(self, hold_ms: int = 10_000) -> None:
        answer = self.bridge.call("executor_wait", session=self.name, seen=self.seen,
                                  hold_ms=hold_ms)
        self.seen = answer["seen"]
        self.items.update({one["id"]: one for one in answer["executors"]})

    def wait_for(self, number: int, state: str, deadline_s: float = 30) -> Any:
        def there() -> Any:
            if number not in self.items or self.items[number]["state"] != state:
                self.wait(1_000)
            item = self.items.get(number)
            return item if item is not None and item["state"] == state else None

        return wait_until(f"executor {number} is {state}", there, deadline_s)

    def told(self, item: Any) -> Any:
        path = pathlib.Path(item["run_dir"]) / "trial/told"
        return json.loads(wait_until("it has said what it sees",
                                     lambda: path.exists() and path.read_text()))

    def release(self, *numbers: int) -> None:
        chosen = {"executors": list(numbers)} if numbers else {}
        self.bridge.call("executor_release", session=self.name, **chosen)


class ExecutorsTest(ClusterTest):
    def setUp(self) -> None:
        self.bridge = Bridge(self.cluster)
        self.addCleanup(self.bridge.close)

    def test_a_session_hears_that_others_wait_for_capacity(self) -> None:
        first, second = Session(self.bridge, "has-all"), Session(self.bridge, "waits")
        numbers = first.request(4, resources={"cpu": 1})
        for number in numbers:
            first.wait_for(number, "RUNNING")

        def ask(**fields: Any) -> Any:
            return self.bridge.call("executor_wait", session=first.name, seen=first.seen, **fields)

        self.assertFalse(ask(hold_ms=50, yields=True)["wanted"])
        (late,) = second.request(resources={"cpu": 1})
        self.assertTrue(ask(hold_ms=10_000, yields=True)["wanted"])
        self.assertFalse(ask(hold_ms=50)["wanted"])
        first.release(numbers[0])
        second.wait_for(late, "RUNNING")
        first.release()
        second.release()

    def test_an_executor_is_requested_runs_and_is_released(self) -> None:
        session = Session(self.bridge, "first")
        (number,) = session.request(params={"secret": "s3"}, env={"MINE": "1"},
                                    resources={"cpu": 1})
        item = session.wait_for(number, "RUNNING")
        self.assertEqual(item["name"], "probe")
        self.assertEqual(item["attempt"], 1)
        self.assertTrue(item["run_dir"].endswith(f"/attempts/x{number}.a1.r0"))
        self.assertTrue(item["run_dir"].startswith(item["node"]["state_dir"]))
        told = session.told(item)
        self.assertEqual(told["config"], {"secret": "s3"})
        self.assertEqual(told["env"]["RT_EXECUTOR_ID"], str(number))
        self.assertNotIn("RT_TRIAL_ID", told["env"])
        self.assertNotIn("RT_JOB_ID", told["env"])
        session.release(number)
        ended = session.wait_for(number, "ENDED")
        self.assertEqual(ended["outcome"], "STOPPED")
        self.assertFalse(pathlib.Path(f"/proc/{told['pid']}").exists())

    def test_an_executor_that_ends_by_itself_is_not_placed_again(self) -> None:
        session = Session(self.bridge, "ends")
        (good,) = session.request(params={"code": 0})
        (bad,) = session.request(params={"code": 3})
        self.assertEqual(session.wait_for(good, "ENDED")["outcome"], "SUCCEEDED")
        ended = session.wait_for(bad, "ENDED")
        self.assertEqual((ended["outcome"], ended["exit_code"], ended["attempt"]), ("FAILED", 3, 1))
        session.wait(0)  # Both were seen: they are not told again.
        answer = self.bridge.call("executor_wait", session="ends", seen=session.seen, hold_ms=0)
        self.assertEqual(answer["executors"], [])

    def test_a_repeated_request_is_answered_with_the_same_executors(self) -> None:
        session = Session(self.bridge, "again")
        first = session.request(count=3, key="k1", resources={"cpu": 0})
        self.assertEqual(len(first), 3)
        self.assertEqual(session.request(count=3, key="k1", resources={"cpu": 0}), first)
        self.assertNotEqual(session.request(count=3, key="k2", resources={"cpu": 0}), first)
        session.release()
        for number in first:
            session.wait_for(number, "ENDED")

    def inside(self, name: str) -> pathlib.Path:
        """The driver of INSIDE as a program, and where it tells what it got."""
        program = self.cluster.work / "inside.py"
        program.write_text(INSIDE)
        return self.cluster.work / name

    def told_by(self, path: pathlib.Path) -> Any:
        wait_until("the driver has its executors", path.exists)
        return json.loads(path.read_text())

    def executor(self, number: int) -> Any:
        return self.bridge.call("executor_get", executor=number)

    def wait_ended(self, number: int) -> Any:
        return wait_until(f"executor {number} has ended", lambda: (
            lambda item: item if item["state"] == "ENDED" else None)(self.executor(number)))

    def test_executors_of_a_job_end_with_it(self) -> None:
        path = self.inside("of-job")
        self.cluster.rt("submit", "--detach", "inside.py", "--", str(path))
        told = self.told_by(path)
        self.assertTrue(told["refused"]["ok"])
        numbers = told["asked"]["executors"]
        self.assertEqual(len(numbers), 2)
        shown = self.executor(numbers[0])
        self.assertEqual(shown["state"], "RUNNING")
        job = self.cluster.json("job", "list")["items"][-1]
        self.assertEqual(shown["opened_by"], f"job {job['id']}")
        attempt = self.cluster.json("job", "show", str(job["id"]))["attempts"][-1]
        os.kill(attempt["members"][0]["pid"], signal.SIGKILL)
        for number in numbers:
            ended = self.wait_ended(number)
            self.assertEqual(ended["outcome"], "STOPPED")
            self.assertIn(f"job {job['id']}, which had opened its session, has ended",
                          ended["reason"])
        self.cluster.wait_no_trials()

    def test_a_trial_may_use_executors_and_nothing_else(self) -> None:
        path = self.inside("of-trial")
        number = self.cluster.submit("tasks", f"""
experiment: tasks
command: [{sys.executable}, inside.py, {path}]
resources: {{cpu: 0}}
""")
        told = self.told_by(path)
        self.assertEqual(told["refused"]["error"]["code"], "PERMISSION_DENIED")
        self.assertIn("experiment_list is not for trial", told["refused"]["error"]["message"])
        self.assertTrue(told["refused"]["error"]["hint"])
        self.cluster.rt("exp", "stop", str(number))
        for one in told["asked"]["executors"]:
            self.assertEqual(self.wait_ended(one)["outcome"], "STOPPED")
        self.cluster.wait_no_trials()

    def test_a_request_that_no_node_could_hold_says_so(self) -> None:
        answer = self.bridge.ask("executor_request", session="large", key="k", count=1,
                                 spec={"argv": ["x"], "resources": {"cpu": 64}})
        self.assertEqual(answer["error"]["code"], "INVALID_ARGUMENT")
        self.assertIn("64 cpu", answer["error"]["message"])

    def test_kill_of_the_head_and_of_the_daemon_ends_no_executor(self) -> None:
        session = Session(self.bridge, "kills")
        (number,) = session.request(resources={"cpu": 1})
        item = session.wait_for(number, "RUNNING")
        pid = session.told(item)["pid"]
        head = self.cluster.kill("head")
        self.cluster.json("status")  # Any client brings a local head back.
        wait_until("another head", lambda: self.cluster.pid("head") != head)
        self.assertEqual(session.wait_for(number, "RUNNING")["attempt"], 1)
        self.cluster.kill(item["node"]["name"])
        # It runs on, unless the daemon was back too late: then it is lost, and stays so.
        session.wait(2_000)
        state = session.items[number]["state"]
        if state == "RUNNING":
            self.assertTrue(pathlib.Path(f"/proc/{pid}").exists())
            session.release(number)
        ended = session.wait_for(number, "ENDED")
        self.assertIn(ended["outcome"], ("STOPPED", "LOST"))
        self.assertEqual(ended["attempt"], 1)
        self.cluster.wait_no_trials()

    def test_an_executor_on_another_node_is_reached_through_the_daemons(self) -> None:
        session = Session(self.bridge, "foreign")
        (foreign,) = session.request(resources={"cpu": 0})
        session.wait_for(foreign, "RUNNING")
        (self.cluster.work / "dials.py").write_text(DIALS)
        path = self.cluster.work / "dialled"
        self.cluster.rt("submit", "--detach", "dials.py", "--", str(path), ECHO, str(foreign))
        told = self.told_by(path)
        self.assertEqual(told["foreign"]["error"]["code"], "NOT_FOUND")
        self.assertEqual(told["echoes"], [["HELLO", True, ""]] * 2)
        through = ["/dial-" in one for one in told["paths"]]
        self.assertEqual(sorted(through), [False, True], told["paths"])
        session.release()

    def test_a_detached_actor_restarts_is_listed_and_is_killed_by_name(self) -> None:
        session = Session(self.bridge, "detached")
        (number,) = session.request(detached=True, max_restarts=1,
                                    actor={"name": "store", "class": "Store"})
        item = session.wait_for(number, "RUNNING")
        os.kill(session.told(item)["pid"], signal.SIGKILL)
        wait_until("it runs again", lambda: (lambda one: one["state"] == "RUNNING" and
                                             one["attempt"] == 2)(self.executor(number)))
        actor = self.bridge.call("actor_get", name="store")
        self.assertEqual((actor["id"], actor["actor"], actor["restarts"]),
                         (number, {"name": "store", "class": "Store"}, 1))
        listed = self.cluster.json("actor", "list")["items"]
        self.assertEqual([one["id"] for one in listed], [number])
        self.assertRegex(self.cluster.rt("actor", "list").stdout, r"store +Store +RUNNING")
        self.assertRegex(self.cluster.rt("status").stdout, r"tasks   \d+ executors? of \d+ session")
        self.assertGreaterEqual(self.cluster.json("status")["executors"]["by_state"]["RUNNING"], 1)
        again = self.bridge.ask("executor_request", session="other", key="k", count=1, spec={
            "argv": ["x"], "detached": True, "actor": {"name": "store"}})
        self.assertEqual(again["error"]["code"], "ALREADY_EXISTS")
        self.bridge.call("actor_kill", name="store")
        self.assertEqual(self.wait_ended(number)["outcome"], "STOPPED")
        gone = self.bridge.ask("actor_get", name="store")
        self.assertEqual(gone["error"]["code"], "NOT_FOUND")

    def test_a_person_sees_and_stops_executors(self) -> None:
        session = Session(self.bridge, "shown")
        (number,) = session.request(params={"secret": "s3cret"}, resources={"cpu": 1})
        (waits,) = session.request(count=1, resources={"cpu": 2})
        session.wait_for(number, "RUNNING")
        shown = self.cluster.rt("executor", "show", str(number), "-o", "json").stdout
        self.assertNotIn("s3cret", shown)
        self.assertEqual(json.loads(shown)["session"], "shown")
        listed = self.cluster.json("executor", "list", "--state", "running")["items"]
        self.assertIn(number, [one["id"] for one in listed])
        acted = self.cluster.json("executor", "stop", f"{number},{waits}")["items"]
        self.assertEqual([one["kind"] for one in acted], ["executor", "executor"])
        self.assertEqual(self.wait_ended(number)["outcome"], "STOPPED")
        self.wait_ended(waits)
        self.assertEqual(self.cluster.rt("executor", "show", "99999", check=False).returncode, 3)

    def test_kill_of_an_executor_is_told_at_once(self) -> None:
        session = Session(self.bridge, "killed")
        (number,) = session.request()
        item = session.wait_for(number, "RUNNING")
        os.kill(session.told(item)["pid"], signal.SIGKILL)
        ended = session.wait_for(number, "ENDED")
        self.assertEqual((ended["outcome"], ended["signal"]), ("FAILED", 9))

    def test_fifty_a_second(self) -> None:
        session = Session(self.bridge, "many")
        (first,) = session.request(argv=["/bin/sleep", "1000"])
        session.wait_for(first, "RUNNING")
        start = time.monotonic()
        numbers = session.request(count=50, argv=["/bin/sleep", "1000"])
        wait_until("all run", lambda: session.wait(1_000) or all(
            session.items.get(one, {}).get("state") == "RUNNING" for one in numbers))
        took = time.monotonic() - start
        print(f"50 executors run after {took:.2f} s")
        session.release()
        for number in numbers:
            session.wait_for(number, "ENDED")


if __name__ == "__main__":
    unittest.main()
