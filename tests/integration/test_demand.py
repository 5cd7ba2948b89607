"""`provider: local` by demand: workers come with the work and go when they are idle."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import unittest
from typing import Any

from harness import BIN, ROOT, Cluster, wait_until

SLEEPS = """
experiment: {name}
command: [{python}, -c, "import time; print('slept', flush=True); time.sleep({seconds})"]
space: {{x: {{grid: [{grid}]}}}}
resources: {{cpu: 1}}
"""


class DemandTest(unittest.TestCase):
    def make(self, least: int = 0, most: int = 3, idle_s: float = 3, more: str = "") -> Cluster:
        cluster = Cluster()
        cluster.by_demand = True
        self.addCleanup(cluster.close)
        cluster.yaml.write_text(
            f"cluster_name: it\nprovider: {{type: local}}\nmax_workers: {most}\n"
            f"min_workers: {least}\nidle_timeout_minutes: {idle_s / 60}\n"
            "available_node_types:\n  cpu: {node_config: {}, resources: {CPU: 1}}\n" + more)
        self.cluster = cluster
        self.folder = cluster.home / "home/clusters/it"
        return cluster

    def workers(self) -> set[str]:
        return {path.name for path in self.folder.glob("worker-*")}

    def pool(self) -> Any:
        return self.cluster.json("status")["pools"][0]

    def search(self, name: str, trials: int, seconds: float) -> int:
        grid = ", ".join(str(number) for number in range(trials))
        return self.cluster.submit(name, SLEEPS.format(name=name, python=sys.executable,
                                                       seconds=seconds, grid=grid))

    def wait_nobody(self) -> None:
        wait_until("the workers have gone", lambda: not self.workers(), 60)
        wait_until("nothing is being removed",
                   lambda: self.pool()["releasing"] == 0 and self.pool()["nodes"] == 0)

    def daemons(self) -> list[pathlib.Path]:
        """State directories of worker daemons, one for each process."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            mine = str(self.folder).encode()
            if words[0].endswith(b"/rt-worker") and any(w.startswith(mine) for w in words):
                found.append(pathlib.Path(words[words.index(b"--state-dir") + 1].decode()))
        return found

    def test_workers_come_with_a_burst_and_go_when_idle(self) -> None:
        cluster = self.make()
        done = cluster.rt("up", str(cluster.yaml))
        self.assertIn("0 workers are READY, up to 3 by demand", done.stderr)
        self.assertEqual(self.workers(), set())
        number = self.search("burst", 5, 1.5)
        wait_until("three workers run", lambda: len(self.daemons()) == 3)
        self.assertEqual(self.pool()["max_workers"], 3)
        reasons = " ".join(str(one["reason"]) for one in cluster.json("status")["pending"])
        if reasons:
            self.assertIn("pool cpu: ", reasons)
        done_experiment = cluster.wait_experiment(number)
        self.assertEqual(done_experiment["trials_by_state"]["COMPLETED"], 5)
        self.wait_nobody()
        self.assertEqual(self.daemons(), [])
        # Their logs were fetched before they went.
        for trial in range(5):
            self.assertEqual(cluster.rt("logs", f"{number}/{trial}").stdout, "slept\n")
        # The next one begins again from nothing.
        cluster.wait_experiment(self.search("again", 1, 0.1))
        self.wait_nobody()
        nodes = cluster.node_items()
        self.assertEqual({node["state"] for node in nodes}, {"GONE"})
        self.assertLessEqual(len(nodes), 4)

    def test_min_workers_are_there_at_once_and_stay(self) -> None:
        cluster = self.make(least=1, most=2, idle_s=1)
        cluster.up()
        self.assertEqual(len(self.daemons()), 1)
        first = self.workers()
        cluster.wait_experiment(self.search("two", 4, 1))
        wait_until("one of the two goes", lambda: len(self.workers()) == 1, 60)
        # One that dies is started again as itself.
        name = next(iter(self.workers()))
        pid = cluster.kill(name)
        wait_until("it is back", lambda: (self.folder / name / "pid").exists() and
                   cluster.pid(name) != pid)
        self.assertEqual(len(first), 1)
        cluster.wait_experiment(self.search("one", 1, 0.1))

    def test_a_head_that_is_killed_leaves_nothing_behind_and_starts_nothing_twice(self) -> None:
        points = ["head.provider.before_create", "head.provider.after_create",
                  "head.provider.before_terminate", "head.provider.after_terminate"]
        cluster = self.make(idle_s=1)
        for round_number, point in enumerate(points):
            cluster.env["RT_FAILPOINTS"] = f"{point}=kill"
            cluster.up()
            head = cluster.pid("head")
            number = self.search(f"round{round_number}", 3, 0.5)
            cluster.env.pop("RT_FAILPOINTS")

            def is_dead(pid: int = head) -> bool:
                try:
                    state = pathlib.Path(f"/proc/{pid}/stat").read_text().split(") ")[1]
                    return state.startswith("Z")
                except OSError:
                    return True
            wait_until(f"the head dies at {point}", is_dead, 60)
            cluster.up()
            done = cluster.wait_experiment(number)
            self.assertEqual(done["trials_by_state"]["COMPLETED"], 3, point)
            self.assertLessEqual(len(self.daemons()), 3, point)
            self.assertEqual(len(set(self.daemons())), len(self.daemons()), point)
            self.wait_nobody()
            self.assertEqual(self.daemons(), [], point)
            os.kill(cluster.pid("head"), signal.SIGKILL)

    def test_a_head_that_is_killed_finds_its_workers_again(self) -> None:
        cluster = self.make(most=2, idle_s=60)
        cluster.up()
        number = self.search("long", 2, 4)
        wait_until("both run",
                   lambda: cluster.experiment(number)["trials_by_state"]["RUNNING"] == 2)
        before = {name: cluster.pid(name) for name in self.workers()}
        cluster.kill("head")
        cluster.up()
        done = cluster.wait_experiment(number)
        self.assertEqual(done["trials_by_state"]["COMPLETED"], 2)
        self.assertEqual({name: cluster.pid(name) for name in self.workers()}, before)
        self.assertEqual({trial["attempt"] for trial in cluster.trials(number)}, {1})

    def request(self, arguments: str) -> str:
        """What went wrong; empty: nothing."""
        script = f"from rt.autoscaler.sdk import request_resources; request_resources({arguments})"
        env = {**self.cluster.env, "RT_CLUSTER": "it", "RT_BIN": str(BIN),
               "PYTHONPATH": str(ROOT / "python")}
        done = subprocess.run([sys.executable, "-c", script], env=env, cwd=self.cluster.work,
                              text=True, capture_output=True, timeout=120)
        return done.stderr.strip()

    def test_requested_workers_come_and_stay_until_the_request_ends(self) -> None:
        cluster = self.make(idle_s=0.5)
        cluster.up()
        self.assertEqual(self.request("num_cpus=2"), "")
        wait_until("two workers run", lambda: self.pool()["nodes"] == 2)
        cluster.kill("head")  # The journal has the request.
        cluster.up()
        self.assertIn("ValueError: asks for 9 cpu", self.request("bundles=[{'CPU': 9}]"))
        self.assertEqual(self.request("num_cpus=4"), "")
        wait_until("three workers are READY", lambda:
                   cluster.json("status")["requested_resources"]["unmet"] == 1)
        asked = cluster.json("status")["requested_resources"]
        self.assertEqual(asked["bundles"][0]["count"], 4)
        self.assertEqual(asked["reason"], "pool cpu: at max_workers 3")
        said = cluster.rt("status").stdout
        self.assertRegex(said, r"request 4 x 1 cpu by .*; 1 not met: pool cpu: at max_workers 3")
        cluster.wait_experiment(self.search("some", 2, 1.5))  # Longer than the idle time.
        self.assertEqual(self.pool()["nodes"], 3)
        self.assertEqual(self.request("bundles=[]"), "")
        self.wait_nobody()
        self.assertIsNone(cluster.json("status")["requested_resources"])

    def test_hooks_are_told_and_a_failing_one_changes_nothing(self) -> None:
        log = pathlib.Path(self.make().home) / "hooks.jsonl"
        hook = self.cluster.work / "hook.py"
        hook.write_text("import os, sys\n"
                        "text = sys.stdin.read()\n"
                        f"open({str(log)!r}, 'a').write(text)\n"
                        "assert os.environ['RT_CLUSTER'] == 'it'\n"
                        "if os.environ['RT_HOOK'] == 'node_ready': sys.exit('no $HOME; `x`')\n")
        command = json.dumps([sys.executable, str(hook), "an argument; $(touch x)"])
        text = self.cluster.yaml.read_text() + "autoscaling:\n  hook_timeout: 20s\n  hooks:\n"
        for event in ("scale_up", "scale_down", "node_ready"):
            text += f"    {event}: {command}\n"
        self.cluster.yaml.write_text(text)
        self.cluster.up()
        number = self.search("hooked", 2, 0.3)
        self.assertEqual(
            self.cluster.wait_experiment(number)["trials_by_state"]["COMPLETED"], 2)
        wait_until("the failure is shown", lambda: self.cluster.json("status")["hook_problem"])
        problem = self.cluster.json("status")["hook_problem"]
        self.assertEqual(problem, "hook node_ready: exit code 1: no $HOME; `x`")
        self.wait_nobody()

        def events() -> list[Any]:
            return [json.loads(line) for line in log.read_text().splitlines()]
        wait_until("all is told", lambda: sum(
            one["count"] for one in events() if one["event"] == "scale_down") == 2)
        ups = [one for one in events() if one["event"] == "scale_up"]
        self.assertEqual(sum(one["count"] for one in ups), 2)
        self.assertEqual((ups[0]["schema"], ups[0]["cluster"], ups[0]["pool"]), (1, "it", "cpu"))
        self.assertEqual(ups[0]["demand"][0]["shape"]["cpu"], 1)
        ready = [node["name"] for one in events() if one["event"] == "node_ready"
                 for node in one["nodes"]]
        self.assertEqual(sorted(ready), ["worker-1", "worker-2"])
        # Without a port; unknown until the worker has joined.
        addresses = [(one["event"], node["address"]) for one in events() for node in one["nodes"]]
        self.assertEqual({each for each in addresses if each[0] != "scale_up"},
                         {("node_ready", "127.0.0.1"), ("scale_down", "127.0.0.1")})
        self.assertIn(("scale_up", None), addresses)
        self.assertIsNone(self.cluster.json("status")["hook_problem"])  # scale_down succeeded.

    def test_a_cluster_changes_between_all_workers_and_workers_by_demand(self) -> None:
        cluster = self.make(least=2, most=2)
        cluster.up()
        self.assertEqual(self.workers(), {"worker-1", "worker-2"})
        self.assertEqual(cluster.json("status")["pools"], [])
        fixed = cluster.yaml.read_text()
        cluster.yaml.write_text(fixed.replace("min_workers: 2", "min_workers: 0"))
        cluster.up()
        wait_until("the workers go", lambda: not self.daemons())
        cluster.wait_experiment(self.search("some", 2, 0.2))
        cluster.yaml.write_text(fixed)
        cluster.up()
        self.assertEqual(sorted(path.name for path in self.daemons()), ["worker-1", "worker-2"])
        cluster.wait_experiment(self.search("more", 2, 0.2))
        self.assertEqual(sum(node["state"] == "READY"
                             for node in cluster.node_items()), 2)


if __name__ == "__main__":
    unittest.main()
