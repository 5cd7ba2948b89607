"""The preflight of a gang, and a probe that ends a quarantine: real daemons, the tests' own driver
(tests/gpu) and an rt-probe that says what a file says."""

import json
import sys
import unittest

from harness import BIN, Cluster, wait_until

# FAKE_PROBE: a JSON map of gpus to their faults.
PROBE = """#!{python}
import json, os, pathlib, sys
faults = json.loads(pathlib.Path(os.environ["FAKE_PROBE"]).read_text())
seen = os.environ.get("CUDA_VISIBLE_DEVICES", ",".join(faults)).split(",")
report = {{"schema": 1, "fault": None, "all_reduce": None, "devices": [
    {{"uuid": uuid, "index": i, "name": "H100", "tested_bytes": 1 << 30, "copy_gbps": 3000,
      "matmul_tflops": 600, "to_device_gbps": 50, "to_host_gbps": 50, "fault": faults.get(uuid)}}
    for i, uuid in enumerate(seen)]}}
text = json.dumps(report)
if "--report" in sys.argv:
    pathlib.Path(sys.argv[sys.argv.index("--report") + 1]).write_text(text)
else:
    print(text)
sys.exit(any(faults.get(uuid) for uuid in seen))
"""

PROGRAM = """
import json, os
print("RT_REPORT " + json.dumps({"seen": os.environ["CUDA_VISIBLE_DEVICES"]}), flush=True)
"""


def gpu(name: str) -> str:
    return f"GPU-{name},NVIDIA H100,80000000000,ok,used=500000000"


class PreflightTest(unittest.TestCase):
    def setUp(self) -> None:
        self.cluster = Cluster(workers=1, cpus=8)
        self.addCleanup(self.cluster.close)
        home = self.cluster.home
        (home / "gpus.txt").write_text("\n".join(gpu(one) for one in "abcd") + "\n")
        self.faults = home / "faults.json"
        self.probe = home / "rt-probe"
        self.probe.write_text(PROBE.format(python=sys.executable))
        self.probe.chmod(0o700)
        self.cluster.env.update(FAKE_NVML=str(home / "gpus.txt"), RT_PROBE=str(self.probe),
                                FAKE_PROBE=str(self.faults), LD_LIBRARY_PATH=str(BIN / "fake"))
        self.cluster.env.pop("CUDA_VISIBLE_DEVICES", None)
        self.finds({})
        self.cluster.up()
        (self.cluster.work / "program.py").write_text(PROGRAM)

    def finds(self, faults: dict) -> None:
        """The faults of all gpus that a probe finds from now on."""
        self.faults.write_text(json.dumps({f"GPU-{one}": faults.get(one) for one in "abcd"}))

    def submit(self, preflight: str) -> int:
        return self.cluster.submit("gang", "experiment: gang\nnum_samples: 1\nmax_failures: 0\n"
                                   f"command: [{sys.executable}, program.py]\n"
                                   "resources: {cpu: 0, gpu: 1, ranks: 2}\n"
                                   f"preflight: {preflight}\n")

    def show(self, number: int) -> dict:
        return self.cluster.json("trial", "show", f"{number}/0")

    def gpus(self) -> dict:
        return {one["uuid"]: one for one in self.cluster.node("worker-1")["gpus"]}

    def test_a_slow_gpu_is_named_and_quarantined_and_the_gang_runs_on_others(self) -> None:
        slow = "it multiplies at 300 TFLOP/s, where the median is 600"
        self.finds({"b": slow})
        number = self.submit("true")
        self.assertEqual(self.cluster.wait_experiment(number)["state"], "COMPLETED")
        shown = self.show(number)
        self.assertEqual((shown["failures"], shown["preemptions"]), (0, 1), shown)
        first = shown["attempts"][0]
        self.assertEqual(first["outcome"], "LOST")
        self.assertIn(f"gpu GPU-b: preflight: {slow}", first["reason"])
        self.assertEqual(shown["attempts"][1]["outcome"], "SUCCEEDED")
        self.assertNotIn("GPU-b", shown["metrics"]["seen"])
        sick = self.gpus()["GPU-b"]
        self.assertEqual((sick["state"], sick["reason"]), ("QUARANTINED", f"preflight: {slow}"))
        self.assertIn(f"gpu 1 takes no work: preflight: {slow}",
                      self.cluster.rt("node", "why", "worker-1").stdout)
        # A probe that still finds it slow ends nothing; one that finds it well does.
        self.cluster.rt("doctor", "--gpu", check=False)
        self.assertEqual(self.gpus()["GPU-b"]["state"], "QUARANTINED")
        self.finds({})
        said = self.cluster.rt("doctor", "--gpu", check=False).stdout
        self.assertIn("the quarantine of gpu 1 of worker-1", said)
        well = wait_until("it takes work again", lambda: next(
            (one for one in [self.gpus()["GPU-b"]] if one["state"] == "READY"), None))
        self.assertIn("rt-probe: 1.0 GiB of memory are well", well["cleared"]["reason"])
        self.assertIn("gpu 1 takes work again since",
                      self.cluster.rt("node", "why", "worker-1").stdout)

    def test_a_preflight_that_cannot_run_says_what_is_missing(self) -> None:
        number = self.submit("{min_bus_gbps: 200}")  # The probe measures none.
        self.assertEqual(self.cluster.wait_experiment(number)["state"], "FAILED")
        self.assertIn("did not measure the bandwidth", self.show(number)["attempts"][0]["reason"])
        self.probe.unlink()
        number = self.submit("true")
        self.assertEqual(self.cluster.wait_experiment(number)["state"], "FAILED")
        self.assertIn("rt-probe is not installed here", self.show(number)["attempts"][0]["reason"])
        self.assertEqual({one["state"] for one in self.gpus().values()}, {"READY"})


if __name__ == "__main__":
    unittest.main()
