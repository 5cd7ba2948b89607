"""A driver that hangs, on a real daemon and the driver of tests/gpu: the gpu that hangs is
named and quarantined, and the daemon works on without it, also when it starts or ends meanwhile."""

import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

from harness import BIN, wait_until
from own_worker import OwnWorkerCase

SIZE = 80_000_000_000
WHY = "NVML did not answer about it for 10 s"

# Reports, and waits for a file.
PROGRAM = """
import json, os, pathlib, sys, time
print("RT_REPORT " + json.dumps({"seen": os.environ["CUDA_VISIBLE_DEVICES"]}), flush=True)
while not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.01)
"""


def gpu(name: str, health: str = "ok") -> str:
    return f"GPU-{name},NVIDIA H100,{SIZE},{health},used=500000000"


class GpuHangTest(OwnWorkerCase):
    def setUp(self) -> None:
        super().setUp()
        self.file = self.cluster.home / "gpus.txt"
        self.has(gpu("a"), gpu("b"))
        self.cluster.env.update(FAKE_NVML=str(self.file), LD_LIBRARY_PATH=str(BIN / "fake"))
        self.cluster.env.pop("CUDA_VISIBLE_DEVICES", None)
        (self.cluster.work / "program.py").write_text(PROGRAM)
        self.start_worker()
        self.wait_state("READY")
        self.addCleanup(self.has, gpu("a"), gpu("b"))

    def has(self, *gpus: str) -> None:
        """The driver's gpus from now on; whole at once, because it reads at any moment."""
        new = pathlib.Path(f"{self.file}.new")
        new.write_text("\n".join(gpus) + "\n")
        new.rename(self.file)

    def submit(self, name: str, resources: str, more: str = "") -> int:
        command = f"[{sys.executable}, program.py, '{self.end(name)}']"
        return self.cluster.submit(name, f"experiment: {name}\ncommand: {command}\nnum_samples: 1\n"
                                   f"resources: {{{resources}}}\n{more}")

    def end(self, name: str) -> pathlib.Path:
        return self.cluster.work / f"{name}.end"

    def show(self, number: int) -> dict:
        return self.cluster.trial(f"{number}/0")

    def seen(self, number: int) -> str:
        shown = wait_until(f"{number}/0 reports", lambda: next(
            (one for one in [self.show(number)] if one["metrics"]), None))
        return str(shown["metrics"]["seen"])

    def finish(self, number: int, name: str) -> None:
        self.end(name).touch()
        self.assertEqual(self.cluster.wait_experiment(number)["state"], "COMPLETED")

    def check_works(self, name: str) -> None:
        """A trial that needs no gpu runs, and its end is heard."""
        self.finish(self.submit(name, "cpu: 1"), name)
        self.assertEqual(self.node()["state"], "READY")

    def test_the_daemon_works_on_while_nvml_hangs(self) -> None:
        struck = self.submit("struck", "cpu: 0, gpu: 1", "max_failures: 0\n")
        self.assertEqual(self.seen(struck), "GPU-a")
        other = self.submit("other", "cpu: 0, gpu: 1")
        self.assertEqual(self.seen(other), "GPU-b")
        self.has(gpu("a", "hang"), gpu("b"))
        sick, well = wait_until("the gpu that hangs is quarantined", lambda: next(
            (gpus for gpus in [self.node()["gpus"]] if gpus[0]["state"] == "QUARANTINED"), None),
            lasting=True)
        self.assertEqual((sick["uuid"], sick["reason"]), ("GPU-a", WHY))
        self.assertEqual((well["state"], well["reason"]),
                         ("UNHEALTHY", "its driver does not answer: a call about gpu GPU-a hangs"))
        self.check_works("meanwhile")
        self.finish(other, "other")
        lost = wait_until("what ran on it is ended", lambda: next(
            (one for one in self.show(struck)["attempts"] if one["ended_at"]), None), lasting=True)
        self.assertEqual((lost["outcome"], lost["reason"]), ("LOST", f"gpu GPU-a: {WHY}"))
        reason = wait_until("it waits", lambda: (self.show(struck)["waiting"] or {}).get("reason"))
        self.assertIn(f"gpu 0 of far takes no work ({WHY}", reason)
        began = time.monotonic()
        self.stop_worker()
        self.assertLess(time.monotonic() - began, 10)
        # Another daemon starts while NVML hangs.
        self.start_worker()
        wait_until("it starts without its gpus",
                   lambda: "this worker starts without its gpus" in self.log())
        self.wait_state("READY")
        self.check_works("again")
        self.assertEqual([one["state"] for one in self.node()["gpus"]],
                         ["QUARANTINED", "UNHEALTHY"])
        self.has(gpu("a"), gpu("b"))
        wait_until("the other gpu takes work", lambda: [
            one["state"] for one in self.node()["gpus"]] == ["QUARANTINED", "READY"])
        wait_until("the trial continues there", lambda: self.show(struck)["attempt"] == 2)
        self.finish(struck, "struck")
        shown = self.show(struck)
        self.assertEqual((shown["failures"], shown["preemptions"]), (0, 1))
        self.cluster.rt("node", "undrain", "far", "--gpu", "0")
        wait_until("all take work", lambda: {
            one["state"] for one in self.node()["gpus"]} == {"READY"})


class DoctorTest(unittest.TestCase):
    def test_doctor_says_that_the_driver_hangs(self) -> None:
        with tempfile.TemporaryDirectory(prefix="rt-hang-") as folder:
            hang = pathlib.Path(folder) / "hang"
            hang.touch()
            env = {**os.environ, "RT_HOME": f"{folder}/home", "NO_COLOR": "1",
                   "FAKE_NVML": f"{folder}/gpus.txt", "FAKE_NVML_HANG": str(hang),
                   "LD_LIBRARY_PATH": str(BIN / "fake")}
            done = subprocess.run([str(BIN / "rt"), "doctor"], env=env, capture_output=True,
                                  text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("NVML has not answered for 10 s: the driver or a gpu hangs", done.stdout)


if __name__ == "__main__":
    os.chdir(pathlib.Path(__file__).parent)
    unittest.main()
