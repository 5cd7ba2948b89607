"""A node that is to go is emptied: by a file, a cloud, a signal, a person; and false alarms."""

import json
import signal
import subprocess
import textwrap
import time
import unittest
from typing import Any

from fake_metadata import FakeMetadata
from harness import BIN, ClusterTest, wait_until

# Waits at each step until it may go on, or is asked to save.
ASKS = """
import os, pathlib, time
from rt import tune
gate = pathlib.Path({gate!r})
def train(config):
    start = 0
    checkpoint = tune.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as path:
            start = int((pathlib.Path(path) / "step").read_text())
    for step in range(start + 1, 11):
        while not (gate / "go").exists() and tune.checkpoint_requested() is None:
            time.sleep(0.01)
        saved = None
        if tune.checkpoint_requested() is not None:
            path = pathlib.Path(os.environ["RT_TRIAL_DIR"]) / "saved"
            path.mkdir(exist_ok=True)
            (path / "step").write_text(str(step))
            saved = tune.Checkpoint(str(path))
        tune.report({{"step": step}}, checkpoint=saved)
tune.Tuner(train).fit()
"""
# Saves whenever the signal comes, through `rt report`, and ends once it was restored.
TRAPS = """
[ -n "$RT_CHECKPOINT_DIR" ] && exit 0
save() { mkdir -p "$RT_TRIAL_DIR/s"; echo 1 > "$RT_TRIAL_DIR/s/x"
         rt report loss=1 --checkpoint "$RT_TRIAL_DIR/s"; }
trap save USR2
touch "$1"
while :; do sleep 0.05; done
"""
ACTION = "/latest/meta-data/spot/instance-action"


class NoticeTest(ClusterTest):
    workers, cpus = 1, 2
    joined = 0

    def join(self, *flags: str) -> str:
        """A worker with one cpu, which small trials fit best; returns its name."""
        type(self).joined += 1
        name = f"spot-{self.joined}"
        folder = self.cluster.home / name
        folder.mkdir()
        token = folder.with_suffix(".token")
        token.write_text(self.cluster.rt("token", "create", "--role", "worker").stdout)
        address = (self.cluster.home / "home/clusters/it/head/address").read_text().strip()
        self.log = folder.with_suffix(".log")
        with open(self.log, "w") as log:
            self.worker = subprocess.Popen(
                [str(BIN / "rt-worker"), "--head", address, "--token-file", str(token),
                 "--state-dir", str(folder), "--name", name, "--resources", "cpu=1",
                 *(flags or ("--notices", "none"))],
                env=self.cluster.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True)
        self.addCleanup(self.leave, self.worker)
        self.wait_node(name, "READY")
        return name

    @staticmethod
    def leave(worker: subprocess.Popen[bytes]) -> None:
        if worker.poll() is None:
            worker.send_signal(signal.SIGINT)
        worker.wait(timeout=20)

    def wait_node(self, name: str, state: str) -> Any:
        def there() -> Any:
            nodes = self.cluster.node_items()
            return next((n for n in nodes if n["name"] == name and n["state"] == state), None)
        return wait_until(f"{name} is {state}", there)

    def driver(self, name: str) -> str:
        """A search of one trial that asks; returns the trial's id."""
        self.gate = self.cluster.work / name
        self.gate.mkdir()
        script = self.cluster.work / f"{name}.py"
        script.write_text(textwrap.dedent(ASKS.format(gate=str(self.gate))))
        job = int(self.cluster.rt("submit", "--detach", script.name, "-o", "quiet").stdout)
        # The driver may have moved to the node whose worker the test ends.
        self.addCleanup(self.wait_job_over, job)

        def made() -> Any:
            ids = self.cluster.json("job", "show", str(job))["experiment_ids"]
            return ids[0] if ids else None
        return f"{wait_until('the driver made its experiment', made)}/0"

    def program(self, name: str, argv: list[str]) -> str:
        path = self.cluster.work / f"{name}.yaml"
        path.write_text(json.dumps({"experiment": name, "command": argv}))
        done = self.cluster.rt("submit", "--detach", path.name, "-o", "quiet")
        return f"{int(done.stdout)}/0"

    def wait_on(self, trial_id: str, node: str, attempt: int = 1) -> Any:
        """The trial, once that attempt of it runs on the node."""
        number = self.cluster.node(node)["id"]

        def there() -> Any:
            trial = self.cluster.trial(trial_id)
            runs = trial["state"] == "RUNNING" and trial["attempt"] == attempt
            return trial if runs and trial["node_ids"] == [number] else None
        return wait_until(f"trial {trial_id} runs on {node}", there)

    def wait_job_over(self, job: int) -> None:
        def over() -> bool:
            state = self.cluster.json("job", "show", str(job))["state"]
            return state in ("SUCCEEDED", "FAILED", "STOPPED")
        wait_until(f"job {job} is over", over)

    def wait_over(self, trial_id: str) -> Any:
        def over() -> Any:
            trial = self.cluster.trial(trial_id)
            return trial if trial["state"] in ("COMPLETED", "FAILED", "STOPPED") else None
        return wait_until(f"trial {trial_id} is over", over)

    def check_moved(self, trial_id: str) -> None:
        """It saved, went on where there is room, and nothing was lost on the way."""
        moved = self.wait_on(trial_id, "worker-1", attempt=2)
        self.assertEqual(moved["attempts"][0]["outcome"], "PREEMPTED")
        self.assertEqual((moved["failures"], moved["preemptions"]), (0, 1))
        self.assertEqual((moved["step"], len(moved["checkpoints"])), (1, 1))
        (self.gate / "go").touch()
        done = self.wait_over(trial_id)
        self.assertEqual((done["state"], done["reports"], done["attempt"]), ("COMPLETED", 10, 2))

    def test_a_file_empties_the_node(self) -> None:
        notice = self.cluster.work / "notice"
        node = self.join("--notices", "none", "--notice-file", str(notice))
        trial = self.driver("by-file")
        self.wait_on(trial, node)
        notice.write_text(json.dumps({"deadline_s": 60, "reason": "the roof leaks"}))
        drains = self.wait_node(node, "DRAINING")
        self.assertEqual(drains["reason"], "the roof leaks")
        self.assertIsNotNone(drains["drain_until"])
        self.check_moved(trial)
        notice.unlink()
        self.assertIsNone(self.wait_node(node, "READY")["reason"])

    def test_a_false_alarm_leaves_who_cannot_save(self) -> None:
        notice = self.cluster.work / "false"
        flag = self.cluster.work / "may-end"
        node = self.join("--notices", "none", "--notice-file", str(notice))
        until = f"until test -e {flag}; do sleep 0.05; done"
        trial = self.program("deaf", ["/bin/sh", "-c", until])
        pid = self.wait_on(trial, node)["attempts"][0]["members"][0]["pid"]
        notice.touch()
        self.wait_node(node, "DRAINING")
        why = self.cluster.rt("trial", "why", trial).stdout
        self.assertIn("was asked for a checkpoint", why)
        self.assertIn(f"{node} (by file) drains", why)
        waiting = self.program("waits", ["/bin/true"])
        other = self.cluster.node("worker-1")["id"]
        self.assertEqual(self.wait_over(waiting)["node_ids"], [other])
        notice.unlink()
        self.wait_node(node, "READY")
        flag.touch()
        done = self.wait_over(trial)
        self.assertEqual((done["state"], done["attempt"]), ("COMPLETED", 1))
        self.assertEqual(done["attempts"][0]["members"][0]["pid"], pid)
        self.assertEqual((done["preemptions"], done["lost_gpu_s"]), (0, 0))

    def test_spot_interruption_on_aws(self) -> None:
        cloud = FakeMetadata()
        self.addCleanup(cloud.close)
        cloud.pages["/latest/api/token"] = (403, "")
        node = self.join("--notices", "aws", "--notice-url", cloud.url)
        trial = self.driver("on-aws")
        self.wait_on(trial, node)
        for page in [(403, ""), (500, "")]:  # No token, then no answer.
            cloud.pages[ACTION] = page
            self.wait_asked(cloud, "/latest/api/token")
        cloud.pages["/latest/api/token"] = (200, "secret")
        for body in ["", "{", "{}", "<html></html>"]:
            cloud.pages[ACTION] = (200, body)
            self.wait_asked(cloud, ACTION)
        cloud.delay_s = 3  # Longer than the daemon waits.
        self.wait_asked(cloud, ACTION)
        cloud.delay_s = 0
        self.assertEqual(self.cluster.node(node)["state"], "READY")
        self.assertEqual(self.log.read_text().count("notices from aws fail"), 1)
        soon = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 120))
        cloud.pages[ACTION] = (200, json.dumps({"action": "terminate", "time": soon}))
        self.assertEqual(self.wait_node(node, "DRAINING")["reason"],
                         "spot interruption (terminate)")
        self.check_moved(trial)
        cloud.pages[ACTION] = (500, "")  # Its last word stands.
        self.wait_asked(cloud, ACTION)
        self.assertEqual(self.cluster.node(node)["state"], "DRAINING")
        del cloud.pages[ACTION]
        self.wait_node(node, "READY")

    @staticmethod
    def wait_asked(cloud: FakeMetadata, path: str) -> None:
        """Until the daemon has had two more answers, so that one began after now."""
        before = cloud.seen.get(path, 0)
        wait_until(f"{path} is asked for", lambda: cloud.seen.get(path, 0) >= before + 2)

    def test_a_person_drains_a_node(self) -> None:
        node = self.join()
        trial = self.driver("by-hand")
        self.wait_on(trial, node)
        self.cluster.rt("node", "drain", node, "--reason", "to clean it")
        drains = self.wait_node(node, "DRAINING")
        self.assertEqual((drains["reason"], drains["drain_until"]), ("to clean it", None))
        self.check_moved(trial)
        self.assertIn("takes no new work", self.cluster.rt("node", "why", node).stdout)
        self.cluster.rt("node", "undrain", node)
        self.wait_node(node, "READY")
        again = self.cluster.rt("node", "undrain", node, check=False)
        self.assertEqual(again.returncode, 1)
        self.assertIn("is not draining", again.stderr)
        self.assertEqual(self.cluster.rt("node", "drain", "none", check=False).returncode, 3)
        late = self.cluster.rt("node", "drain", node, "--deadline", "soon", check=False)
        self.assertEqual(late.returncode, 2)

    def test_the_deadline_of_a_drain_ends_what_is_left(self) -> None:
        node = self.join()
        trial = self.program("stays", ["/bin/sleep", "600"])
        self.wait_on(trial, node)
        self.cluster.rt("node", "drain", node, "--deadline", "500ms")
        moved = self.wait_on(trial, "worker-1", attempt=2)
        self.assertEqual(moved["attempts"][0]["outcome"], "LOST")
        self.assertIn("the deadline has passed", moved["attempts"][0]["reason"])
        self.cluster.rt("trial", "stop", trial)
        self.wait_over(trial)

    def test_a_program_without_a_socket_gets_sigusr2(self) -> None:
        node = self.join()
        ready = self.cluster.work / "trapped"
        trial = self.program("traps", ["/bin/sh", "-c", TRAPS, "sh", str(ready)])
        self.wait_on(trial, node)
        wait_until("it listens", ready.exists)
        self.cluster.rt("node", "drain", node)
        done = self.wait_over(trial)
        self.assertEqual((done["state"], done["attempt"], done["failures"]), ("COMPLETED", 2, 0))
        self.assertEqual(done["attempts"][0]["outcome"], "PREEMPTED")

    def test_sigterm_is_a_notice_where_that_was_asked_for(self) -> None:
        node = self.join("--notices", "sigterm", "--notice-grace", "60s")
        trial = self.driver("by-signal")
        self.wait_on(trial, node)
        self.worker.send_signal(signal.SIGTERM)
        self.check_moved(trial)
        self.assertEqual(self.worker.wait(timeout=30), 0)

    def test_slurm_says_when_its_job_ends(self) -> None:
        self.cluster.env["SLURM_JOB_END_TIME"] = str(int(time.time()) + 3_600)
        self.addCleanup(self.cluster.env.pop, "SLURM_JOB_END_TIME")
        node = self.join("--notices", "slurm")
        self.worker.send_signal(signal.SIGUSR1)
        drains = self.wait_node(node, "DRAINING")
        self.assertEqual(drains["reason"], "signal SIGUSR1")
        self.assertIsNotNone(drains["drain_until"])


if __name__ == "__main__":
    unittest.main()
