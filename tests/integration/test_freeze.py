"""`suspend: true`: paused and preempted trials are frozen in place, on real processes."""

import os
import pathlib
import signal
import unittest

from frozen import Frozen, state_of
from harness import BIN, Cluster, ClusterTest, wait_until


class FreezeTest(Frozen, ClusterTest):
    workers, cpus = 1, 1

    def test_a_paused_trial_is_frozen_and_continues(self) -> None:
        one = self.submit("paused")
        pid = self.pid_of(self.wait_running(one))
        frozen = self.freeze(one)
        self.assertEqual(frozen["state"], "PAUSED")
        self.assertIn("frozen on worker-1", frozen["waiting"]["reason"])
        self.assertEqual(state_of(pid), "T")
        # Its cpu is another's.
        other = self.submit("other", suspend=False)
        self.wait_running(other)
        self.cluster.rt("trial", "resume", f"{one}/0")
        waits = self.wait("waits", one, lambda t: t["state"] == "PENDING")
        self.assertIn("is frozen on worker-1, and waits for its 1 cpu there",
                      waits["waiting"]["reason"])
        self.assertEqual(state_of(pid), "T")
        self.finish(other, "other")
        trial = self.check_continues(one, pid, frozen)
        self.assertGreater(trial["attempts"][0]["frozen_s"], 0)
        # What it counts as its time leaves the freeze out.
        attempt = trial["attempts"][0]
        self.assertEqual((attempt["outcome"], attempt["freeze_refused"]), (None, None))
        self.finish(one, "paused")

    def test_a_preempted_trial_is_frozen_and_continues(self) -> None:
        low = self.submit("low")
        pid = self.pid_of(self.wait_running(low))
        high = self.submit("high", suspend=False, more="priority: 5\n")
        frozen = self.wait("is frozen", low, lambda t: t["frozen"])
        self.assertEqual(frozen["state"], "PENDING")
        self.wait_running(high)
        self.assertEqual(state_of(pid), "T")
        self.finish(high, "high")
        self.check_continues(low, pid, frozen)
        self.finish(low, "low")

    def test_head_is_killed_while_a_trial_is_frozen(self) -> None:
        one = self.submit("head")
        pid = self.pid_of(self.wait_running(one))
        frozen = self.freeze(one)
        self.cluster.kill("head")
        self.assertTrue(self.trial(one)["frozen"])  # Any client brings a local head back.
        self.cluster.rt("trial", "resume", f"{one}/0")
        self.check_continues(one, pid, frozen)
        self.finish(one, "head")

    def test_worker_daemon_is_killed_while_a_trial_is_frozen(self) -> None:
        # As in test_kill.py: a node whose daemon is not back in time is LOST, and its trials are.
        for turn in range(3):
            name = f"daemon{turn}"
            one = self.submit(name)
            pid = self.pid_of(self.wait_running(one))
            frozen = self.freeze(one)
            daemon = self.cluster.kill("worker-1")
            wait_until("another daemon", lambda: self.cluster.pid("worker-1") != daemon)
            self.cluster.rt("trial", "resume", f"{one}/0")
            trial = self.wait_running(one)
            if trial["preemptions"] == 0:
                self.check_continues(one, pid, frozen)
                return self.finish(one, name)
            self.finish(one, name)
        self.fail("killed three times, the daemon was never back in time")

    def test_a_frozen_process_is_killed(self) -> None:
        one = self.submit("killed")
        pid = self.pid_of(self.wait_running(one))
        self.freeze(one)
        os.kill(pid, signal.SIGKILL)
        lost = self.wait("is lost", one, lambda t: not t["frozen"])
        self.assertEqual((lost["preemptions"], lost["failures"], lost["state"]), (1, 0, "PAUSED"))
        attempt = lost["attempts"][0]
        self.assertEqual((attempt["outcome"], attempt["reason"]),
                         ("LOST", "its process was killed while it was frozen"))
        self.cluster.rt("trial", "resume", f"{one}/0")
        self.assertEqual(self.wait_running(one)["attempt"], 2)
        self.finish(one, "killed")

    def test_a_frozen_trial_is_stopped(self) -> None:
        one = self.submit("stopped")
        pid = self.pid_of(self.wait_running(one))
        self.freeze(one)
        self.cluster.rt("trial", "stop", f"{one}/0")
        self.wait("is over", one, lambda t: t["state"] == "STOPPED")
        wait_until("its process is gone", lambda: state_of(pid) in ("", "Z"))

    def test_a_python_trial_saves_first_and_counts_no_frozen_time(self) -> None:
        one = self.submit_saves("saves")
        pid = self.pid_of(self.wait_running(one))
        frozen = self.freeze(one)
        self.assertEqual(len(frozen["checkpoints"]), 1)
        other = self.submit("long", suspend=False)
        self.wait_running(other, 100)
        self.finish(other, "long")
        self.cluster.rt("trial", "resume", f"{one}/0")
        trial = self.check_continues(one, pid, frozen)
        self.assertGreater(trial["attempts"][0]["frozen_s"], 2)
        self.finish(one, "saves")
        self.check_counts_no_freeze(one)


class FreezeGpuTest(Frozen, unittest.TestCase):
    """With a driver of the tests' own, whose suspended processes are those that a file names."""

    def setUp(self) -> None:
        self.cluster = Cluster(workers=1, cpus=1)
        self.addCleanup(self.cluster.close)
        gpus = self.cluster.home / "gpus.txt"
        gpus.write_text("GPU-aaaa,NVIDIA H200,150000000000,ok\n")
        self.states = self.cluster.home / "cuda"
        self.states.mkdir()
        self.cluster.env.update(FAKE_NVML=str(gpus), FAKE_CUDA=str(self.states),
                                LD_LIBRARY_PATH=str(BIN / "fake"))
        self.cluster.env.pop("CUDA_VISIBLE_DEVICES", None)

    def cuda(self, pid: int) -> str:
        """0: it runs, 2: its memory is on the host; "" when nobody asked the driver for it."""
        path = self.states / str(pid)
        return path.read_text() if path.exists() else ""

    def test_the_memory_moves_to_the_host_and_back(self) -> None:
        self.cluster.up()
        one = self.submit("gpu", more="resources: {gpu: 1, cpu: 0}\n", argument="cuda")
        pid = self.pid_of(self.wait_running(one))
        frozen = self.freeze(one)
        self.assertEqual((self.cuda(pid), state_of(pid)), ("2", "T"))
        other = self.submit("other", suspend=False, more="resources: {gpu: 1, cpu: 0}\n")
        self.wait_running(other)
        self.finish(other, "other")
        self.cluster.rt("trial", "resume", f"{one}/0")
        trial = self.check_continues(one, pid, frozen)
        wait_until("its calls of the driver return", lambda: self.cuda(pid) == "0")
        self.assertEqual(trial["attempts"][0]["members"][0]["gpus"],
                         frozen["attempts"][0]["members"][0]["gpus"])
        self.finish(one, "gpu")

    def test_a_driver_that_cannot_leaves_the_checkpoint(self) -> None:
        self.cluster.env["FAKE_CUDA_FAILS"] = "checkpoint"
        self.cluster.up()
        one = self.submit("fails", more="resources: {gpu: 1, cpu: 0}\n", argument="cuda")
        pid = self.pid_of(self.wait_running(one))
        self.cluster.rt("trial", "pause", f"{one}/0")
        paused = self.wait("is paused", one, lambda t: t["state"] == "PAUSED")
        self.assertFalse(paused["frozen"])
        attempt = paused["attempts"][0]
        self.assertEqual((attempt["outcome"], attempt["freeze_refused"]),
                         ("SUSPENDED", "move the memory of the gpu to the host: device not ready"))
        self.assertIn("it was not frozen: move the memory", paused["waiting"]["reason"])
        self.assertEqual(state_of(pid) in ("", "Z"), True)
        self.cluster.rt("trial", "resume", f"{one}/0")
        self.assertEqual(self.wait_running(one)["attempt"], 2)
        self.finish(one, "fails")

    def test_a_driver_that_cannot_go_back_is_a_loss(self) -> None:
        self.cluster.env["FAKE_CUDA_FAILS"] = "restore"
        self.cluster.up()
        one = self.submit("back", more="resources: {gpu: 1, cpu: 0}\n", argument="cuda")
        self.wait_running(one)
        self.freeze(one)
        self.cluster.rt("trial", "resume", f"{one}/0")
        trial = self.wait("starts again", one, lambda t: t["attempt"] == 2)
        self.assertEqual((trial["preemptions"], trial["failures"]), (1, 0))
        self.assertEqual((trial["attempts"][0]["outcome"], trial["attempts"][0]["reason"]),
                         ("LOST", "it could not continue after it was frozen: "
                                  "move the memory back to the gpu: device not ready"))
        self.wait_running(one)
        self.finish(one, "back")


if __name__ == "__main__":
    os.chdir(pathlib.Path(__file__).parent)
    unittest.main()
