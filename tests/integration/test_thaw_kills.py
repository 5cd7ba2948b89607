"""What dies in the middle of a thaw: the daemon at each of its steps, the program, its fork server;
and a driver that hangs meanwhile. The trial continues or is a loss, and its gpu takes work again
once its memory is free."""

import os
import pathlib
import signal
import subprocess
import unittest

from frozen import Frozen, state_of
from harness import BIN, wait_until
from own_worker import OwnWorkerCase

GPU = "GPU-aaaa,NVIDIA H200,150000000000,ok,used=500000000"
HANGS = GPU.replace(",ok,", ",hang,")
ON_GPU = "resources: {gpu: 1, cpu: 0}\n"


class ThawKillsTest(Frozen, OwnWorkerCase):
    def setUp(self) -> None:
        super().setUp()
        self.gpus, states = self.cluster.home / "gpus.txt", self.cluster.home / "cuda"
        self.has(GPU)
        states.mkdir()
        self.cluster.env.update(FAKE_NVML=str(self.gpus), FAKE_CUDA=str(states),
                                LD_LIBRARY_PATH=str(BIN / "fake"))
        self.cluster.env.pop("CUDA_VISIBLE_DEVICES", None)

    def has(self, gpu: str) -> None:
        new = pathlib.Path(f"{self.gpus}.new")
        new.write_text(gpu + "\n")
        new.rename(self.gpus)

    def frozen_until(self, failpoint: str, name: str) -> tuple[int, dict]:
        """A frozen trial with a gpu, whose daemon dies or waits there when it is thawed."""
        self.start_worker(failpoints=failpoint)
        self.wait_state("READY")
        one = self.submit(name, more=ON_GPU, argument="cuda")
        self.wait_running(one)
        frozen = self.freeze(one)
        self.cluster.rt("trial", "resume", f"{one}/0")
        return one, frozen

    def check_takes_work(self, name: str) -> None:
        number = self.submit(name, suspend=False, more=ON_GPU)
        self.wait_running(number)
        self.finish(number, name)

    def test_the_daemon_is_killed(self) -> None:
        steps = ("after_note", "before_resume", "before_report")
        for step in steps:
            with self.subTest(step):
                one, frozen = self.frozen_until(f"worker.thaw.{step}=kill", step)
                self.assertEqual(self.worker.wait(timeout=60), -signal.SIGKILL)
                self.start_worker()
                trial = self.wait_running(one, frozen["metrics"]["number"])
                if trial["preemptions"] == 0:
                    self.check_continues(one, self.pid_of(frozen), frozen)
                self.assertEqual((trial["failures"], trial["attempt"]),
                                 (0, 1 + trial["preemptions"]))
                self.finish(one, step)
                self.check_takes_work(f"next-{step}")
                if step != steps[-1]:
                    self.stop_worker()

    def test_the_daemon_and_the_program_are_killed(self) -> None:
        one, frozen = self.frozen_until("worker.thaw.before_resume=kill", "both")
        self.worker.wait(timeout=60)
        pid = self.pid_of(frozen)
        (token,) = [entry for entry in pathlib.Path(f"/proc/{pid}/environ").read_text().split("\0")
                    if entry.startswith("RT_TOKEN=")]
        name, _, value = token.partition("=")
        # It is the attempt's, and nothing but its memory of the gpu tells the daemon of it.
        with subprocess.Popen(["/bin/sleep", "600"], env={name: value}) as left:
            try:
                self.has(f"{GPU.replace('used=5', 'used=95')},pid={left.pid},pid_mem=9000000000")
                os.kill(pid, signal.SIGKILL)
                self.start_worker()
                self.assertEqual(left.wait(timeout=60), -signal.SIGKILL)
            finally:
                left.kill()
        self.has(GPU)
        lost = self.wait("is lost", one, lambda t: t["attempts"][0]["ended_at"])
        self.assertEqual((lost["attempts"][0]["outcome"], lost["failures"], lost["preemptions"]),
                         ("LOST", 0, 1))
        self.wait_running(one)
        self.finish(one, "both")
        self.assertEqual(self.node()["gpus"][0]["state"], "READY")
        self.check_takes_work("next")

    def wait_gpu(self, state: str) -> None:
        wait_until(f"the gpu is {state}", lambda: self.node()["gpus"][0]["state"] == state)

    def undrain(self) -> None:
        self.has(GPU)
        self.cluster.rt("node", "undrain", "far", "--gpu", "0")
        self.wait_gpu("READY")

    def test_nvml_hangs(self) -> None:
        self.start_worker()
        self.wait_state("READY")
        one = self.submit("hang", more=ON_GPU, argument="cuda")
        self.wait_running(one)
        frozen = self.freeze(one)
        # A gpu that is known to hang is not given back to the trial, which stays frozen.
        self.has(HANGS)
        self.wait_gpu("QUARANTINED")
        self.cluster.rt("trial", "resume", f"{one}/0")
        waiting = self.wait("waits", one, lambda t: t["state"] == "PENDING")
        self.assertIn("gpu 0 of far takes no work (NVML did not answer", waiting["reason"])
        self.assertEqual(state_of(self.pid_of(frozen)), "T")
        self.undrain()
        self.check_continues(one, self.pid_of(frozen), frozen)
        # A thaw asks NVML nothing. Once the hang is found, the trial is a loss as any other.
        frozen = self.freeze(one)
        self.has(HANGS)
        self.cluster.rt("trial", "resume", f"{one}/0")
        self.check_continues(one, self.pid_of(frozen), frozen)
        lost = self.wait("is lost", one, lambda t: t["attempts"][0]["ended_at"])
        self.assertEqual((lost["attempts"][0]["outcome"], lost["failures"], lost["preemptions"]),
                         ("LOST", 0, 1))
        self.assertEqual(state_of(self.pid_of(frozen)), "")
        self.undrain()
        self.assertEqual(self.wait_running(one)["attempt"], 2)
        self.finish(one, "hang")
        self.check_takes_work("next")

    def test_the_fork_server_is_killed(self) -> None:
        self.start_worker(failpoints="worker.thaw.after_note=stop:3000")
        self.wait_state("READY")
        one, pid, server, frozen = self.freeze_warm()
        self.cluster.rt("trial", "resume", f"{one}/0")
        wait_until("it is being thawed", lambda: any(
            note.read_text().startswith("thawing ") for note in self.folder.rglob("freeze")))
        os.kill(server, signal.SIGKILL)
        wait_until("the server is gone", lambda: state_of(server) in ("", "Z"))
        self.check_continues(one, pid, frozen)
        self.finish(one, "warm")


if __name__ == "__main__":
    os.chdir(pathlib.Path(__file__).parent)
    unittest.main()
