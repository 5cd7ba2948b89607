"""What a worker does with its gpus, on real daemons and the tests' own driver (tests/gpu): samples,
faults, memory that stays in use, errors of the user's memory."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from harness import BIN, Cluster, wait_until

SIZE = 80_000_000_000

# Waits for a file, then ends as it was told to.
PROGRAM = """
import json, os, pathlib, sys, time
print("RT_REPORT " + json.dumps({"seen": os.environ["CUDA_VISIBLE_DEVICES"],
                                 "pid": os.getpid()}), flush=True)
while not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.01)
if len(sys.argv) > 2:
    raise RuntimeError(sys.argv[2])
"""


# Reports, waits for a file, and reports again.
ROWS = """
import pathlib, sys, time
print('RT_REPORT {"loss": 1}', flush=True)
while not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.01)
print('RT_REPORT {"loss": 0.5}', flush=True)
"""


def gpu(name: str, **told: int) -> str:
    told = {"util": 0, "used": 500_000_000, "temp": 40, "power": 70_000, "sm": 345, **told}
    return f"GPU-{name},NVIDIA H100,{SIZE},ok," + ",".join(f"{k}={v}" for k, v in told.items())


class GpuCareTest(unittest.TestCase):
    def setUp(self) -> None:
        self.cluster = Cluster(workers=1, cpus=8)
        self.addCleanup(self.cluster.close)
        self.file = self.cluster.home / "gpus.txt"
        self.has(gpu("a"), gpu("b"))
        self.cluster.env.update(FAKE_NVML=str(self.file), LD_LIBRARY_PATH=str(BIN / "fake"))
        self.cluster.env.pop("CUDA_VISIBLE_DEVICES", None)
        self.cluster.up()
        (self.cluster.work / "program.py").write_text(PROGRAM)
        self.go = self.cluster.home / "go"

    def has(self, *gpus: str) -> None:
        """The driver's gpus from now on; whole at once, because it reads at any moment."""
        new = pathlib.Path(f"{self.file}.new")
        new.write_text("\n".join(gpus) + "\n")
        new.rename(self.file)

    def submit(self, name: str, gpus: int, *argv: str, more: str = "") -> int:
        command = ", ".join([sys.executable, "program.py", str(self.go),
                             *(f"'{one}'" for one in argv)])
        return self.cluster.submit(name, f"experiment: {name}\ncommand: [{command}]\n"
                                   f"num_samples: 1\nresources: {{cpu: 0, gpu: {gpus}}}\n{more}")

    def show(self, number: int) -> dict:
        return self.cluster.trial(f"{number}/0")

    def running(self, number: int, attempt: int = 1) -> dict:
        return wait_until(f"attempt {attempt} of {number}/0 reports", lambda: next(
            (one for one in [self.show(number)]
             if one["attempt"] == attempt and one["metrics"]
             and one["attempts"][-1]["last_seq"] > 0), None))

    def device(self, index: int = 0) -> dict:
        return self.cluster.node("worker-1")["gpus"][index]

    def test_what_a_gpu_does_is_shown_of_the_node_and_of_the_trial(self) -> None:
        number = self.submit("busy", 1)
        pid = int(self.running(number)["metrics"]["pid"])
        self.has(gpu("a", util=90, used=30_000_000_000, power=600_000, throttle=4, links=18,
                     ecc=3, pid=pid, pid_mem=29_000_000_000), gpu("b"))
        told = wait_until("the node shows it", lambda: next(
            (one for one in [self.device()["telemetry"]]
             if one and one["utilisation_percent"] == 90 and one["nvlinks_up"] == 18), None),
            lasting=True)
        self.assertEqual((told["power_w"], told["throttled_by"], told["nvlinks_up"],
                          told["ecc_corrected"], told["retired_pages"]),
                         (600, ["power"], 18, 3, None))
        self.assertEqual([(one["pid"], one["memory_bytes"], one["attempt"])
                          for one in told["processes"]],
                         [(pid, 29_000_000_000, f"t{number}-0.a1.r0")])
        live = wait_until("the trial shows it so far", lambda: next(
            (one for one in [self.show(number)["attempts"][0]["gpu"]]
             if one and one["utilisation_peak_percent"] == 90), None))
        self.assertEqual(live["devices"], 1)
        self.has(gpu("a"), gpu("b"))
        self.go.touch()
        self.assertEqual(self.cluster.wait_experiment(number)["state"], "COMPLETED")
        use = self.show(number)["attempts"][0]["gpu"]
        self.assertEqual((use["utilisation_peak_percent"], use["memory_peak_bytes"],
                          use["memory_size_bytes"], use["power_peak_w"]),
                         (90, 30_000_000_000, SIZE, 600))
        self.assertTrue(0 < use["utilisation_mean_percent"] <= 90, use)
        self.assertGreater(use["gpu_s"], 0)
        self.assertIn(f"t{number}-0.a1.r0: its gpus are free", self.cluster.logs())

    def test_rows_have_what_the_gpus_did_if_the_experiment_asks(self) -> None:
        (self.cluster.work / "rows.py").write_text(ROWS)
        command = f"command: [{sys.executable}, rows.py, '{self.go}']\nnum_samples: 1\n"
        number = self.cluster.submit("rows", f"experiment: rows\n{command}"
                                     "resources: {cpu: 0, gpu: 1}\nenv: {RT_GPU_METRICS: 1}\n")
        wait_until("its first row", lambda: self.show(number)["metrics"])
        self.has(gpu("a", util=50, used=2 << 30, power=300_000), gpu("b"))
        wait_until("it was sampled", lambda: next(
            (one for one in [self.show(number)["attempts"][0]["gpu"]]
             if one and one["utilisation_peak_percent"] == 50 and one["samples"] > 2), None))
        self.go.touch()
        self.cluster.wait_experiment(number)
        metrics = self.show(number)["metrics"]
        did = metrics["gpu"]
        self.assertEqual(metrics["training_iteration"], 2)
        self.assertGreater(did["utilisation_percent"], 0)
        self.assertLessEqual(did["utilisation_percent"], 50)
        self.assertTrue(0 < did["memory_used_gib"] <= 2, metrics)
        self.assertTrue(70 < did["power_w"] <= 300, metrics)

    def test_a_trial_whose_gpu_fails_goes_on_elsewhere_and_a_person_clears_the_gpu(self) -> None:
        number = self.submit("struck", 1, "CUDA error: unspecified launch failure",
                             more="max_failures: 0\n")
        self.assertEqual(self.running(number)["metrics"]["seen"], "GPU-a")
        waits = self.submit("waits", 2)
        self.has(gpu("a", xid=79), gpu("b"))
        sick = wait_until("it is quarantined", lambda: next(
            (one for one in [self.device()] if one["state"] == "QUARANTINED"), None))
        self.assertEqual(sick["reason"], "Xid 79: the gpu has fallen off the bus")
        self.go.touch()
        wait_until("its attempt is lost", lambda: self.show(number)["attempts"][0]["ended_at"])
        first = self.show(number)["attempts"][0]
        self.assertEqual((first["outcome"], "Xid 79" in first["reason"]), ("LOST", True), first)
        shown = wait_until("the next attempt ends", lambda: next(
            (one for one in [self.show(number)] if one["state"] == "FAILED"), None))
        self.assertEqual((shown["attempt"], shown["failures"], shown["preemptions"]), (2, 1, 1))
        self.assertEqual(shown["metrics"]["seen"], "GPU-b")
        self.go.unlink()
        reason = self.show(waits)["waiting"]["reason"]
        self.assertIn("gpu 0 of worker-1 takes no work (Xid 79", reason)
        self.assertEqual(self.cluster.rt("node", "undrain", "worker-1", "--gpu", "1",
                                         check=False).returncode, 1)
        self.cluster.rt("node", "undrain", "worker-1", "--gpu", "0")
        self.assertEqual(self.running(waits)["metrics"]["seen"], "GPU-a,GPU-b")
        self.go.touch()
        self.cluster.wait_experiment(waits)

    def test_memory_that_stays_in_use_keeps_the_gpu_from_the_next_trial(self) -> None:
        number = self.submit("first", 2)
        self.running(number)
        with subprocess.Popen(["/bin/sleep", "120"], env={}) as foreign:
            try:
                self.has(gpu("a", used=9_000_000_000, pid=foreign.pid, pid_mem=8_000_000_000),
                         gpu("b"))
                self.go.touch()
                self.cluster.wait_experiment(number)
                sick = self.device()
                self.assertEqual(sick["state"], "UNHEALTHY")
                self.assertIn(f"by pid {foreign.pid} (sleep)", sick["reason"])
                waits = self.submit("second", 2)
                self.assertIn("gpu 0 of worker-1 takes no work", self.show(waits)["waiting"]
                              ["reason"])
                self.assertIsNone(foreign.poll())  # It is nobody's of ours.
            finally:
                foreign.kill()
        self.has(gpu("a"), gpu("b"))
        self.assertEqual(self.cluster.wait_experiment(waits)["state"], "COMPLETED")

    def test_out_of_gpu_memory_has_a_class_of_its_own_and_a_rule(self) -> None:
        number = self.submit("full", 1, "CUDA out of memory. Tried to allocate 20.00 GiB.",
                             more="max_failures: 3\nretry: [{oom: true, then: fail}]\n")
        pid = int(self.running(number)["metrics"]["pid"])
        self.has(gpu("a", used=79_000_000_000), gpu("b"))
        wait_until("a sample has seen it", lambda: self.device()["telemetry"]
                   ["memory_used_bytes"] == 79_000_000_000)
        self.go.touch()
        wait_until("the program ends", lambda: not pathlib.Path(f"/proc/{pid}").exists())
        self.has(gpu("a"), gpu("b"))
        self.cluster.wait_experiment(number)
        shown = self.show(number)
        self.assertEqual((shown["error"]["class"], len(shown["attempts"]),
                          shown["attempts"][0]["retry_rule"]), ("CudaOutOfMemory", 1, 1))
        self.assertIn("73.6 GiB of the gpu's 74.5 GiB", shown["error"]["message"])


class SuspendTest(unittest.TestCase):
    """rt-gpu-suspend against a driver whose suspended processes are stopped ones."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="rt-cuda-")
        self.addCleanup(folder.cleanup)
        self.env = {**os.environ, "FAKE_CUDA": folder.name, "LD_LIBRARY_PATH": str(BIN / "fake")}
        self.child = subprocess.Popen(["/bin/sleep", "60"], stdin=subprocess.DEVNULL)
        self.addCleanup(self.child.wait)
        self.addCleanup(self.child.kill)

    def ask(self, *argv: str, code: int = 0, **env: str) -> dict:
        done = subprocess.run([str(BIN / "rt-gpu-suspend"), *argv], env={**self.env, **env},
                              capture_output=True, text=True, timeout=30, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return json.loads(done.stdout) if done.stdout else {}

    def state(self) -> str:
        return pathlib.Path(f"/proc/{self.child.pid}/stat").read_text().rsplit(") ", 1)[1][0]

    def test_a_process_is_suspended_and_resumed(self) -> None:
        pid = str(self.child.pid)
        self.assertIsNone(self.ask("check")["error"])
        self.assertEqual(self.ask("state", pid)["state"], "running")
        self.assertEqual(self.ask("suspend", pid)["state"], "suspended")
        wait_until("it is stopped", lambda: self.state() == "T")
        self.assertEqual(self.ask("resume", pid)["state"], "running")
        wait_until("it continues", lambda: self.state() == "S")

    def test_a_failed_half_is_undone_and_named(self) -> None:
        pid = str(self.child.pid)
        told = self.ask("suspend", pid, code=1, FAKE_CUDA_FAILS="checkpoint")
        self.assertEqual(told["error"], "move the memory of the gpu to the host: device not ready")
        self.assertEqual(self.ask("state", pid)["state"], "running")
        self.assertIn("lock the process",
                      self.ask("suspend", pid, code=1, FAKE_CUDA_FAILS="lock")["error"])

    def test_a_machine_without_a_driver_and_a_wrong_call_say_so(self) -> None:
        self.env.pop("LD_LIBRARY_PATH")
        if not pathlib.Path("/proc/driver/nvidia/version").exists():
            self.assertIn("no driver", self.ask("check", code=1)["error"])
        self.ask("suspend", code=2)
        self.ask("suspend", "0", code=2)


if __name__ == "__main__":
    os.chdir(pathlib.Path(__file__).parent)
    unittest.main()
