"""A head that is restarted: jobs, their drivers and foreground submits wait until it is back."""

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

from harness import BIN, ROOT, driver_python, processes_of, wait_until

# Longer than a command retries (HeadClient::kRetryFor) that waits for nothing.
AWAY_S = 18
COMMAND_S = 10  # Before the end of that a job asks the head something.
# Its trial ends while the head is away.
WAITS = """
import pathlib, time
from rt import tune

place = pathlib.Path({place!r})

def objective(config):
    (place / "waits").touch()
    while not (place / "away").exists():
        time.sleep(0.02)
    tune.report({{"loss": 1}})

print(len(tune.run(objective, verbose=0).trials), "trial")
"""
# Its first call to the head is made while that is away.
BEGINS = """
import pathlib, time
from rt import tune

place = pathlib.Path({place!r})
(place / "begins").touch()
while not (place / "away").exists():
    time.sleep(0.02)
print(len(tune.run(lambda config: {{"loss": 1}}, verbose=0).trials), "trial")
"""
# A command's first call to the head, from inside a job.
ASKS = """#!/bin/sh
touch {place}/asks
while [ ! -e {place}/ask ]; do sleep 0.02; done
rt -c far status -o quiet > {place}/answer && echo answered
"""


class HeadRestartTest(unittest.TestCase):
    def setUp(self) -> None:
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="rt-restart-"))
        self.addCleanup(shutil.rmtree, self.root, True)
        self.addCleanup(self.end_all)
        self.work = self.root / "work"
        self.work.mkdir()
        python = pathlib.Path(driver_python()).parent
        self.env = {**os.environ, "RT_HOME": str(self.root / "home"), "NO_COLOR": "1",
                    "RT_RESULTS": str(self.root / "results"), "PYTHONPATH": str(ROOT / "python"),
                    "PATH": f"{python}:{os.environ['PATH']}"}
        self.env.pop("RT_CLUSTER", None)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        self.start_head()
        state = self.root / "head"
        self.rt("context", "add", "far", "--from", str(state / "admin"))
        token = self.root / "token"
        token.write_text(self.rt("token", "create", "--role", "worker").stdout)
        self.daemon("rt-worker", "--head", self.address, "--token-file", str(token), "--name",
                    "n1", "--state-dir", str(self.root / "worker"), "--resources", "cpu=4")
        wait_until("the node is READY", lambda: "READY" in self.rt("node", "list").stdout)

    def end_all(self) -> None:
        for pid in processes_of(self.root):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        wait_until("all have ended", lambda: not processes_of(self.root))

    def daemon(self, *argv: str) -> "subprocess.Popen[bytes]":
        with open(self.root / f"{argv[0]}.log", "ab") as log:
            process = subprocess.Popen([str(BIN / argv[0]), *argv[1:]], env=self.env,
                                       stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def start_head(self) -> None:
        (self.root / "head/address").unlink(missing_ok=True)
        self.head = self.daemon("rt-head", "--state-dir", str(self.root / "head"), "--listen",
                                self.address)
        wait_until("the head serves", (self.root / "head/address").exists)

    def rt(self, *words: str) -> "subprocess.CompletedProcess[str]":
        done = subprocess.run([str(BIN / "rt"), "-c", "far", *words], env=self.env, text=True,
                              cwd=self.work, capture_output=True, stdin=subprocess.DEVNULL,
                              timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def submit(self, name: str, text: str) -> "subprocess.Popen[str]":
        path = self.work / name
        path.write_text(text.format(place=str(self.root)))
        path.chmod(0o755)
        process = subprocess.Popen([str(BIN / "rt"), "-c", "far", "submit", name], env=self.env,
                                   text=True, cwd=self.work, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def test_jobs_and_foreground_submits_wait_for_the_next_head(self) -> None:
        jobs = {self.submit("waits.py", WAITS): "1 trial\n",
                self.submit("begins.py", BEGINS): "1 trial\n",
                self.submit("asks.sh", ASKS): "answered\n"}
        for name in ("waits", "begins", "asks"):
            wait_until(f"{name} has begun", (self.root / name).exists)
        self.head.kill()
        self.head.wait()
        (self.root / "away").touch()
        back_at = time.monotonic() + AWAY_S
        wait_until("a command is given", lambda: time.monotonic() >= back_at - COMMAND_S)
        (self.root / "ask").touch()
        wait_until("the head is started", lambda: time.monotonic() >= back_at)
        for job in jobs:
            self.assertIsNone(job.poll())
        self.start_head()
        for job, said in jobs.items():
            out, err = job.communicate(timeout=60)
            self.assertEqual((job.returncode, out), (0, said), err)


if __name__ == "__main__":
    unittest.main()
