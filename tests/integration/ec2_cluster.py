"""A cluster whose machines come from EC2, for tests: moto behind tests/contract/ec2.py is the
cloud, and each instance is booted here: its user data runs as on a machine, below a directory of
its own. A machine has a shell and curl, and gets its programs from the head."""

from __future__ import annotations

import base64
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import unittest
import urllib.request
from typing import Any

from harness import BIN, ROOT, wait_until
from packed import put_programs
from ssh_hosts import free_port

VENV = ROOT / "build/venv/bin/python"
PLACES = ["/run/rt-boot", "/opt/rt", "/var/lib/rt-worker", "/var/log/rt-worker.log"]


class Machine:
    """Of one instance: the script of its user data with its processes."""

    def __init__(self, root: pathlib.Path, script: str, has_programs: bool) -> None:
        self.root = root
        tools = root / "tools"
        for folder in (tools, root / "run", root / "opt", root / "var/lib", root / "var/log"):
            folder.mkdir(parents=True)
        if has_programs:  # Those of its image.
            (root / "opt/rt").mkdir()
            (root / "opt/rt/bin").symlink_to(BIN)
        (tools / "shutdown").write_text(f"#!/bin/sh\ntouch {root}/ended\n")
        (tools / "shutdown").chmod(0o755)
        for place in PLACES:
            assert f"={place}\n" in script, script
            script = script.replace(f"={place}\n", f"={root}{place}\n")
        (root / "boot.sh").write_text(script)
        self.home = root / "home"
        self.home.mkdir()
        (self.home / ".bashrc").write_text("export FROM_PROFILE='from the profile'\n")
        env = {"PATH": f"{tools}:{os.environ['PATH']}", "HOME": str(self.home)}
        self.process = subprocess.Popen(["/bin/sh", str(root / "boot.sh")], env=env,
                                        start_new_session=True)

    def end(self) -> None:
        """As a cloud does: everything at once."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        for pid in self.strays():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def strays(self) -> list[int]:
        mark = str(self.root).encode()
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and mark in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
        return found


class Ec2Case(unittest.TestCase):
    """A cloud, a head when start_head is called, and the machines that follow() boots."""

    workers_max = 2
    programs_in_image = False  # They come from the head otherwise.

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="rt-ec2-")
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.cloud = subprocess.Popen([VENV, ROOT / "tests/contract/ec2.py", "--serve"], text=True,
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(self.end_cloud)
        assert self.cloud.stdout is not None
        self.told = json.loads(self.cloud.stdout.readline())
        self.env = {**os.environ, **self.told["environment"], "NO_COLOR": "1",
                    "RT_HOME": str(self.root / "home"), "RT_RESULTS": str(self.root / "results")}
        self.env.pop("RT_CLUSTER", None)
        self.machines: dict[str, Machine] = {}

    def end_cloud(self) -> None:
        assert self.cloud.stdin is not None and self.cloud.stdout is not None
        self.cloud.stdin.close()
        self.cloud.wait(timeout=30)
        self.cloud.stdout.close()

    def start_head(self, setup_commands: list[str], idle_timeout_s: int = 1) -> None:
        config: dict[str, Any] = {"cluster_name": "demo",
                  "provider": {"type": "aws", "region": "us-west-2", "cluster_name": "demo",
                               "pools": {"cpu": {
                                   "resources": "cpu=1", "setup_commands": setup_commands,
                                   "node_config": {"InstanceType": "c5.large",
                                                   "ImageId": self.told["image"]}}}},
                  "pools": [{"name": "cpu", "resources": "cpu=1", "min_workers": 0,
                             "max_workers": self.workers_max, "idle_timeout_s": idle_timeout_s}]}
        if self.programs_in_image:
            config["provider"]["programs"] = "image"
        (self.root / "head.json").write_text(json.dumps(config))
        state = self.root / "head"
        state.mkdir(mode=0o700)
        if not self.programs_in_image:
            put_programs(state)
        self.listen = f"127.0.0.1:{free_port()}"  # One that starts again is found there.
        self.addCleanup(self.end_machines)
        self.addCleanup(self.kill_head)
        self.run_head()
        wait_until("the head has made an admin's context", lambda: (state / "address").exists()
                   and (state / "admin").exists() and self.head.poll() is None)
        wait_until("its context is added", lambda: self.rt(
            "context", "add", "demo", "--from", str(state / "admin")).returncode == 0)

    def run_head(self) -> None:
        argv = [BIN / "rt-head", "--state-dir", self.root / "head", "--listen", self.listen,
                "--config", self.root / "head.json"]
        with open(self.root / "log", "ab") as log:
            self.head = subprocess.Popen(argv, env=self.env, stdout=log, stderr=log)

    def kill_head(self) -> None:
        self.head.kill()
        self.head.wait()

    def end_machines(self) -> None:
        for machine in self.machines.values():
            machine.end()

    def rt(self, *args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([BIN / "rt", "-c", "demo", *args], env=self.env, cwd=self.root,
                              text=True, capture_output=True, timeout=120, check=False,
                              stdin=subprocess.DEVNULL)

    def json(self, *args: str) -> Any:
        done = self.rt(*args, "-o", "json")
        assert done.returncode == 0, done.stderr + (self.root / "log").read_text()
        return json.loads(done.stdout)

    def instances(self) -> list[Any]:
        with urllib.request.urlopen(self.told["endpoint"] + "/instances") as answer:
            return list(json.load(answer))

    def follow(self) -> list[Any]:
        """Boots what EC2 has made since, ends what it has removed, and lists what is there."""
        instances = self.instances()
        for one in instances:
            if one["id"] not in self.machines and one["there"]:
                script = base64.b64decode(one["user_data"]).decode()
                self.machines[one["id"]] = Machine(self.root / one["id"], script,
                                                   self.programs_in_image)
            elif one["id"] in self.machines and not one["there"]:
                self.machines[one["id"]].end()
        return [one for one in instances if one["there"]]

    def logs(self) -> str:
        files = [self.root / "log", *self.root.glob("i-*/var/log/*")]
        return "\n".join(f"--- {one}\n{one.read_text(errors='replace')[-3000:]}" for one in files)

    def submit(self) -> None:
        (self.root / "search.yaml").write_text(
            "experiment: far\ncommand: [sh, -c, 'echo \"$FROM_PROFILE\" >>" + str(self.root) +
            "/seen; echo RT_REPORT {\\\"loss\\\": 1}; sleep 1']\n"
            "space: {seed: {grid: [1, 2, 3]}}\nmetric: loss\nmode: min\nresources: {cpu: 1}\n")
        submitted = self.rt("submit", "--detach", str(self.root / "search.yaml"))
        self.assertEqual(submitted.returncode, 0, submitted.stderr)

