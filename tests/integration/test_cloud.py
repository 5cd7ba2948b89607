"""`provider: aws` from one file and one command, on a cloud in a box: a head, workers by demand,
results at home, and nothing left in the account."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from typing import Any

from cloud_box import Cloud, Instance, enter_network_of_its_own
from harness import BIN, ROOT, driver_python, wait_until
from packed import put_programs
from ssh_hosts import make_key

# The listing of "Large-Scale Distributed Training with Ray Tune" (BAIR, 2020), byte for byte.
ARTICLE = (ROOT / "tests/data/article_cluster.yaml").read_text()
# As the article's, with a model that needs no PyTorch. Each trial takes all cpus of the head.
EXPERIMENT = """
import os, sys, time
from rt import tune

assert sys.argv[1:] == ["--address=auto"], sys.argv
assert open("/home/ubuntu/files/note").read() == "for the nodes"

class TrainLine(tune.Trainable):
    def _setup(self, config):
        assert open("/home/ubuntu/files/note").read() == "for the nodes"
        self.x, self.lr = 4.0, config["lr"]

    def _train(self):
        self.x -= self.lr * 2 * self.x
        time.sleep(0.3)
        return {"mean_accuracy": 1 / (1 + abs(self.x))}

    def _save(self, checkpoint_dir):
        path = os.path.join(checkpoint_dir, "x")
        open(path, "w").write(str(self.x))
        return path

    def _restore(self, path):
        self.x = float(open(path).read())

analysis = tune.run(
    TrainLine, name="lines", stop={"training_iteration": 20},
    resources_per_trial={"cpu": min(8, os.cpu_count())},
    config={"lr": tune.grid_search([0.001, 0.003, 0.01, 0.03, 0.1])})
print("Best hyperparameters: ", analysis.get_best_config(metric="mean_accuracy", mode="max"))
"""
STEPS = 20


class Box:
    is_open = False


def setUpModule() -> None:
    driver_python()  # It may have to be installed, from outside.
    Box.is_open = enter_network_of_its_own()


class CloudTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        if Box.is_open:
            cls.cloud = Cloud()
            cls.addClassCleanup(cls.cloud.close)

    def setUp(self) -> None:
        if not Box.is_open:
            self.skipTest("network and mount namespaces cannot be made here (needs root)")
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="rt-it-"))
        self.addCleanup(shutil.rmtree, self.root, ignore_errors=True)
        self.env = self.client("home")
        put_programs(self.root / "home")
        (self.root / "CLUSTER.yaml").write_text(ARTICLE)
        (self.root / "my_files").mkdir()
        (self.root / "my_files/note").write_text("for the nodes")
        (self.root / "tune_experiment.py").write_text(EXPERIMENT)
        self.before = len(self.cloud.instances())
        self.addCleanup(self.assert_nothing_is_left)

    def client(self, name: str) -> dict[str, str]:
        """The environment of somebody with credentials and nothing else."""
        env = {key: value for key, value in os.environ.items() if not key.startswith("RT_")}
        return env | self.cloud.environment | {
            "NO_COLOR": "1", "RT_HOME": str(self.root / name),
            "RT_RESULTS": str(self.root / "results")}

    def rt(self, *args: str, env: dict[str, str] | None = None,
           expect: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run([BIN / "rt", *args], env=env or self.env, cwd=self.root, text=True,
                              capture_output=True, timeout=300, stdin=subprocess.DEVNULL)
        if done.returncode != expect:
            raise AssertionError(f"rt {' '.join(args)} -> {done.returncode}\n{done.stdout}\n"
                                 f"{done.stderr}\n{self.cloud.logs()}")
        return done

    def made(self) -> list[str]:
        """Instances that this test has made."""
        return [one["id"] for one in self.cloud.instances()[self.before:]]

    def assert_nothing_is_left(self) -> None:
        self.assertEqual({kind: names for kind, names in self.cloud.left().items() if names}, {})

    def test_the_command_of_the_article(self) -> None:
        with open(self.root / "said", "w+") as said:
            submit = subprocess.Popen(
                [BIN / "rt", "submit", "CLUSTER.yaml", "--start", "--stop", "tune_experiment.py",
                 "--args=--address=auto"], env=self.env, cwd=self.root, text=True,
                stdin=subprocess.DEVNULL, stdout=said, stderr=said)
            try:
                moved = self.notice_in_the_middle(submit)
                code = submit.wait(timeout=200)
            finally:
                submit.kill()
                submit.wait()
        text = (self.root / "said").read_text()
        self.assertEqual(code, 0, text + self.cloud.logs())
        self.assertEqual(moved, 1, text)
        self.assertIn("Best hyperparameters:  {'lr': 0.1}", text)
        results = list((self.root / "results").glob("lines*/*/result.json"))
        self.assertEqual([len(one.read_text().splitlines()) for one in results], [STEPS] * 5)
        self.assertGreaterEqual(len(self.made()), 3)  # The head, and workers by demand.
        head = self.cloud.booted[self.made()[0]]
        workers = [one for one in map(self.cloud.booted.get, self.made()) if one != head]
        for machine in [head, workers[0]]:
            self.assertEqual((machine.home / "pip-ran").read_text(),
                             "pip install ray numpy pandas\n")
            # The mounts are there before the setup commands run.
            self.assertEqual((machine.home / "note-at-setup").read_text(), "for the nodes")
        self.assertEqual(list((self.root / "home/clusters").glob("*")), [])
        self.assert_nothing_is_left()

    def notice_in_the_middle(self, submit: subprocess.Popen[str]) -> int:
        """EC2 will take the first worker's machine; the preemptions of the trial that ran there."""
        def trial_on_a_worker() -> str:
            if submit.poll() is not None:
                raise AssertionError((self.root / "said").read_text() + self.cloud.logs())
            nodes = {one["id"]: one["name"] for one in self.items("node", "list")}
            for trial in self.items("trial", "list"):
                names = [nodes.get(one, "head") for one in trial["node_ids"] or []]
                if trial["state"] == "RUNNING" and names != ["head"] and trial["reports"]:
                    return str(trial["id"])
            return ""

        # Each takes six seconds: one is found by looking less often, too.
        trial = wait_until("a trial runs on a worker", trial_on_a_worker, 120, lasting=True)
        workers = [one for one in self.cloud.of_role("worker") if one.root.name in self.made()]
        workers[0].give_notice(100)

        def preemptions() -> int:
            found = [one for one in self.items("trial", "list") if one["id"] == trial]
            return int(found[0]["preemptions"]) if found else 0
        return wait_until("the trial was moved", preemptions, 60, lasting=True)

    def test_a_cluster_whose_client_vanished_ends_itself(self) -> None:
        short = EXPERIMENT.replace('"training_iteration": 20', '"training_iteration": 12')
        (self.root / "tune_experiment.py").write_text(short)
        submit = subprocess.Popen(
            [BIN / "rt", "submit", "CLUSTER.yaml", "--start", "--stop", "--keep", "5s",
             "tune_experiment.py", "--args=--address=auto"], env=self.env, cwd=self.root,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_until("a trial has reported", lambda: any(
                one["reports"] for one in self.items("trial", "list")), 120, lasting=True)
            watcher = self.watcher_of(submit.pid)
        finally:  # The machine of the client is off.
            submit.kill()
            submit.wait()
        os.kill(watcher, signal.SIGKILL)
        head = self.cloud.booted[self.made()[0]]
        os.kill(self.head_of(head), signal.SIGKILL)  # Nobody is there to start it again.
        wait_until("all machines have ended", lambda: not any(
            one["there"] for one in self.cloud.instances()[self.before:]), 120, lasting=True)
        self.assertTrue(head.has_ended_itself, self.cloud.logs())
        # The work went on to its end before.
        results = list(head.home.glob(".rt-node/**/lines*/*/result.json"))
        self.assertEqual([len(one.read_text().splitlines()) for one in results], [12] * 5,
                         self.cloud.logs())
        # Somebody with the credentials alone finds what is left by its tags.
        left = self.cloud.left()
        self.assertEqual([len(left[kind]) for kind in ("keys", "groups", "roles")], [1, 1, 1], left)
        down = self.rt("down", "CLUSTER.yaml", env=self.client("other"))
        self.assertIn("is gone", down.stderr)
        self.assert_nothing_is_left()

    def head_of(self, machine: Instance) -> int:
        """The process of the head there, as this machine numbers it."""
        for comm in pathlib.Path("/proc").glob("[0-9]*/comm"):
            try:
                home = comm.parent / "root/home/ubuntu"
                if comm.read_text() == "rt-head\n" and home.samefile(machine.home):
                    return int(comm.parent.name)
            except OSError:
                continue
        raise AssertionError("no head runs there")

    def watcher_of(self, client: int) -> int:
        """The process that takes a cluster down for a client that was killed."""
        for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                parent = int(stat.read_text().rsplit(") ", 1)[1].split()[1])
                words = (stat.parent / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if parent == client and b"__teardown" in words:
                return int(stat.parent.name)
        raise AssertionError("the client has no watcher")

    def items(self, *args: str) -> list[Any]:
        """Of a list; none while there is no cluster to ask."""
        done = subprocess.run([BIN / "rt", "-c", "tune-default", *args, "-o", "json"],
                              env=self.env, text=True, capture_output=True, timeout=60,
                              stdin=subprocess.DEVNULL)
        return list(json.loads(done.stdout)["items"]) if done.returncode == 0 else []

    def test_an_up_whose_client_was_killed_continues_with_the_same_machine(self) -> None:
        keyless = {key: value for key, value in self.env.items() if not key.startswith("AWS_")}
        keyless |= {"HOME": str(self.root), "AWS_EC2_METADATA_DISABLED": "true"}
        refused = self.rt("up", "CLUSTER.yaml", env=keyless, expect=2)
        self.assertIn("no AWS credentials were found", refused.stderr)
        self.assertEqual(list((self.root / "home/clusters").glob("*")), [])
        up = subprocess.Popen([BIN / "rt", "up", "CLUSTER.yaml"], env=self.env, cwd=self.root,
                              stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              start_new_session=True)
        wait_until("EC2 has made an instance", self.made)
        os.killpg(up.pid, signal.SIGKILL)
        up.wait()
        self.rt("up", "CLUSTER.yaml", expect=-signal.SIGKILL,
                env=self.env | {"RT_FAILPOINTS": "client.up.after_setup=kill"})
        left = self.cloud.left()
        self.assertEqual(sorted(left["ports"]), [22, 6379])
        self.assertRegex(" ".join(left["ssh_from"]), r"^[0-9.]+/32$")  # This client's own.
        # The head closes what the killed client left open, once its time is over.
        self.cloud.end_ssh_rules()
        wait_until("port 22 is closed", lambda: self.cloud.left()["ports"] == [6379], 90,
                   lasting=True)
        # A key that opens nothing is said at once, and not tried until the machine should be up.
        key = self.root / "home/clusters/tune-default/ssh_key"
        key.rename(self.root / "kept")
        make_key(self.root / "wrong_key")
        shutil.copy(self.root / "wrong_key", key)
        before = time.monotonic()
        denied = self.rt("up", "CLUSTER.yaml", expect=4)
        self.assertIn("Permission denied", denied.stderr)
        self.assertLess(time.monotonic() - before, 60)
        (self.root / "kept").rename(key)
        again = self.rt("up", "CLUSTER.yaml")
        self.assertIn("up to 3 by demand", again.stderr)
        self.assertEqual(len(self.made()), 1)
        # Nothing but the head's one port is open to everybody.
        self.assertEqual(self.cloud.left()["ports"], [6379])
        # One that changes nothing, and one whose head was killed.
        self.rt("up", "CLUSTER.yaml")
        # Somebody with the credentials alone can end it, but is told what would be lost.
        other = self.client("other")
        refused = self.rt("down", "CLUSTER.yaml", env=other, expect=1)
        self.assertIn("no key of this client opens the head's machine", refused.stderr)
        self.assertIn("--no-download", refused.stderr)
        self.assertEqual(len(self.cloud.left()["instances"]), 1)
        self.rt("down", "CLUSTER.yaml", "--no-download", env=other)
        self.assert_nothing_is_left()
        # Whoever started it learns that it is gone, and forgets it.
        gone = self.rt("down", "CLUSTER.yaml")
        self.assertIn("is gone", gone.stderr)
        self.assertFalse((self.root / "home/clusters/tune-default").exists())


if __name__ == "__main__":
    unittest.main()
