"""A head whose machines come from EC2: moto behind tests/contract/ec2.py is the cloud, and each
instance is booted here: its user data runs as on a machine, below a directory of its own. A machine
has a shell and curl, and gets its programs from the head."""

from __future__ import annotations

import base64
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import unittest
import urllib.request
from typing import Any, Optional

from harness import BIN, ROOT, wait_until

VENV = ROOT / "build/venv/bin/python"
PIECE = 11 + (1 << 20)  # Of the answer with the programs: docs/adr/0029.
PLACES = ["/run/rt-boot", "/opt/rt", "/var/lib/rt-worker", "/var/log/rt-worker.log"]


class Machine:
    """Of one instance: the script of its user data with its processes."""

    def __init__(self, root: pathlib.Path, script: str) -> None:
        self.root = root
        tools = root / "tools"
        for folder in (tools, root / "run", root / "opt", root / "var/lib", root / "var/log"):
            folder.mkdir(parents=True)
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


class Ec2Test(unittest.TestCase):
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
        config = {"cluster_name": "demo",
                  "provider": {"type": "aws", "region": "us-west-2", "cluster_name": "demo",
                               "pools": {"cpu": {
                                   "resources": "cpu=1", "setup_commands": setup_commands,
                                   "node_config": {"InstanceType": "c5.large",
                                                   "ImageId": self.told["image"]}}}},
                  "pools": [{"name": "cpu", "resources": "cpu=1", "min_workers": 0,
                             "max_workers": 2, "idle_timeout_s": idle_timeout_s}]}
        (self.root / "head.json").write_text(json.dumps(config))
        state = self.root / "head"
        log = open(self.root / "log", "wb")
        self.addCleanup(log.close)
        argv = [BIN / "rt-head", "--state-dir", state, "--config", self.root / "head.json"]
        self.head = subprocess.Popen(argv, env=self.env, stdout=log, stderr=log)
        self.addCleanup(self.end_machines)
        self.addCleanup(self.head.wait)
        self.addCleanup(self.head.kill)
        wait_until("the head has made an admin's context", lambda: (state / "address").exists()
                   and (state / "admin").exists() and self.head.poll() is None)
        wait_until("its context is added", lambda: self.rt(
            "context", "add", "demo", "--from", str(state / "admin")).returncode == 0)

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
                self.machines[one["id"]] = Machine(self.root / one["id"], script)
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

    def test_machines_come_with_the_work_and_go_after_it(self) -> None:
        # The token is spent before: setup commands may take longer than it lives.
        self.start_head(["echo \"$FROM_PROFILE\" >>set-up", "test -s set-up",
                         "test -s ~/../var/lib/rt-worker/credentials/cert.pem"])
        self.assertEqual(self.instances(), [])
        self.submit()

        def over() -> bool:
            self.follow()
            return bool(self.json("exp", "show", "last")["state"] in ("COMPLETED", "FAILED"))

        try:
            wait_until("the search is over", over, 90)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.logs()}") from None
        self.assertEqual(self.json("exp", "show", "last")["state"], "COMPLETED")
        self.assertLessEqual(len(self.machines), 2)
        names = {one["name"] for one in self.json("node", "list")["items"]}
        self.assertGreaterEqual(len(names), 1)
        wait_until("idle machines are terminated", lambda: not self.follow(), 60)
        self.assertEqual((self.root / "seen").read_text(), "from the profile\n" * 3)
        for machine in self.machines.values():
            self.assertTrue((machine.root / "opt/rt/bin/rt-worker").exists())
            self.assertEqual((machine.home / "set-up").read_text(), "from the profile\n")

    def test_a_machine_whose_setup_fails_is_quarantined_with_its_log(self) -> None:
        self.start_head(["echo no such wheel; exit 4", "touch never"], idle_timeout_s=600)
        self.submit()

        def why() -> str:
            self.follow()
            nodes = self.json("node", "list")["items"]
            return self.rt("node", "why", nodes[0]["name"]).stdout if nodes else ""

        wait_until("the node says why", lambda: "no such wheel" in why(), 60)
        self.assertIn("ended with exit code 4", why())
        for machine in self.machines.values():
            self.assertFalse((machine.home / "never").exists())

    def token(self, *flags: str) -> dict[str, str]:
        made = self.rt("token", "create", *flags)
        self.assertEqual(made.returncode, 0, made.stderr)
        return dict(json.loads(base64.b64decode(made.stdout.strip().removeprefix("rtj1."))))

    def fetch(self, token: Optional[dict[str, str]], out: str, *more: str) -> subprocess.Popen[str]:
        """As the user data does; without a token without a certificate."""
        address = (self.root / "head/address").read_text().strip()
        empty = self.root / "empty"
        if not empty.exists():
            empty.write_bytes(bytes(5))
        (self.root / out).unlink(missing_ok=True)
        argv = ["curl", "-q", "-sS", "--http2", "--noproxy", "*", "--connect-to", f"::{address}",
                "-H", "content-type: application/grpc", "-H", "te: trailers", "--data-binary",
                f"@{empty}", "-D", str(self.root / f"{out}.headers"), "-o",
                str(self.root / out), "--max-time", "120", *more]
        cluster = "x" if token is None else token["cluster"]
        if token is None:
            argv.append("--insecure")
        for name in ("ca", "cert", "key") if token else ():
            file = self.root / f"{out}.{name}"
            file.write_text(token[name] if token else "")
            argv += [f"--{name}" if name != "ca" else "--cacert", str(file)]
        argv.append(f"https://head.{cluster}.rt/rt.v1.BootService/Programs")
        return subprocess.Popen(argv, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def outcome(self, fetched: subprocess.Popen[str], out: str) -> str:
        """The gRPC status, or the error of curl."""
        with fetched:
            _, error = fetched.communicate(timeout=120)
        if fetched.returncode != 0:
            return error
        headers = (self.root / f"{out}.headers").read_text()
        found = re.search(r"^grpc-status: *(\d+)", headers, re.M)
        return found[1] if found else "0"  # curl loses the trailers of an answer that it slows.

    def wait_refused(self, token: Optional[dict[str, str]], what: str) -> None:
        wait_until(f"the token is refused: {what}",
                   lambda: self.outcome(self.fetch(token, what), what) != "0", 20)
        file = self.root / what
        self.assertLess(file.stat().st_size if file.exists() else 0, 100, what)

    def test_programs_are_served_to_whoever_may_join_as_a_worker(self) -> None:
        self.start_head([])
        worker = self.token("--role", "worker")
        for out in ("one", "two"):  # A token is not used up by it.
            self.assertEqual(self.outcome(self.fetch(worker, out), out), "0")
            answer = (self.root / out).read_bytes()
            pieces = [answer[at + 11:at + PIECE] for at in range(0, len(answer), PIECE)]
            (self.root / f"{out}.tar.gz").write_bytes(b"".join(pieces))
            names = subprocess.run(["tar", "-tzf", str(self.root / f"{out}.tar.gz")], check=True,
                                   capture_output=True, text=True).stdout.split()
            self.assertLessEqual({"bin/rt", "bin/rt-worker", "bin/rt-cli"}, set(names))
        expired = self.token("--role", "worker", "--ttl", "1s")
        self.assertEqual(self.rt("token", "revoke", worker["id"]).returncode, 0)
        for what, token in {"person": self.token("--role", "user"), "revoked": worker,
                            "expired": expired, "none": None}.items():
            self.wait_refused(token, what)

    def test_many_who_fetch_at_once_cost_no_memory(self) -> None:
        self.start_head([])
        tokens = [self.token("--role", "worker") for _ in range(25)]
        self.assertEqual(self.outcome(self.fetch(tokens[0], "first"), "first"), "0")
        size = (self.root / "first").stat().st_size
        proc = pathlib.Path(f"/proc/{self.head.pid}")
        (proc / "clear_refs").write_text("5")  # The peak is that from now on.

        def peak() -> int:
            line = re.search(r"VmHWM:\s+(\d+)", (proc / "status").read_text())
            return int(line[1]) * 1024 if line else 0

        before = peak()
        # Slow enough that they meet, and fast enough for the pings of the head.
        fetches = {f"f{i}": self.fetch(tokens[i // 2], f"f{i}", "--limit-rate", "20M")
                   for i in range(50)}
        outcomes = [self.outcome(fetched, out) for out, fetched in fetches.items()]
        self.assertEqual(set(outcomes), {"0", "8"}, outcomes)  # Served, or told to ask again.
        self.assertGreaterEqual(outcomes.count("0"), 16)
        for out, outcome in zip(fetches, outcomes):
            if outcome == "0":
                self.assertEqual((self.root / out).read_bytes(),
                                 (self.root / "first").read_bytes())
        self.assertLess(peak() - before, size + (96 << 20))  # 16 copies: 16 * size.


if __name__ == "__main__":
    unittest.main()
