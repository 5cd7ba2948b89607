"""Executors: capacity for a driver's session, requested through `rt bridge`; docs/adr/0041."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest
from typing import Any

from harness import BIN, Cluster, ClusterTest, wait_until

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


class Bridge:
    """A driver outside of jobs: one `rt bridge`, and a call after the other."""

    def __init__(self, cluster: Cluster) -> None:
        self.child = subprocess.Popen([str(BIN / "rt"), "-c", "it", "bridge"], env=cluster.env,
                                      cwd=cluster.work, text=True, stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE)

    def ask(self, op: str, **fields: Any) -> Any:
        """The whole answer, which may be an error."""
        assert self.child.stdin is not None and self.child.stdout is not None
        self.child.stdin.write(json.dumps({"id": 1, "op": op, **fields}) + "\n")
        self.child.stdin.flush()
        return json.loads(self.child.stdout.readline())

    def call(self, op: str, **fields: Any) -> Any:
        answer = self.ask(op, **fields)
        assert answer["ok"], answer
        return answer["result"]

    def close(self) -> None:
        assert self.child.stdin is not None and self.child.stdout is not None
        self.child.stdin.close()
        self.child.stdout.close()
        self.child.wait(timeout=30)


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


if __name__ == "__main__":
    unittest.main()
