"""What only a real gpu shows: NVML's own answers, trials that compute on it, CUDA and forks."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
from harness import ROOT, Cluster, wait_until  # noqa: E402
from test_torch_resume import PYTHON, ResumeTest  # noqa: E402

WHY = "no NVIDIA gpu, or no PyTorch that can use it"


def smi(field: str) -> list[str]:
    """What nvidia-smi says of each gpu; nothing where there is none."""
    if shutil.which("nvidia-smi") is None:
        return []
    done = subprocess.run(["nvidia-smi", f"--query-gpu={field}", "--format=csv,noheader,nounits"],
                          capture_output=True, text=True, check=False)
    return done.stdout.split("\n")[:-1] if done.returncode == 0 else []


def has_cuda() -> bool:
    if not smi("uuid"):
        return False
    done = subprocess.run([PYTHON, "-c", "import torch; assert torch.cuda.is_available()"],
                          capture_output=True, check=False)
    return done.returncode == 0


HAS_CUDA = has_cuda()

# Says what it sees and what it computed, then waits for a file, so that several share the gpu.
HOLD = """
import json, os, pathlib, sys, time
import torch
seen = {"devices": os.environ.get("CUDA_VISIBLE_DEVICES", "unset"),
        "cuda": int(torch.cuda.is_available()), "count": torch.cuda.device_count()}
if seen["cuda"]:
    ones = torch.ones(512, 512, device="cuda")
    seen["sum"] = (ones @ ones).sum().item()
    seen["uuid"] = "GPU-" + str(torch.cuda.get_device_properties(0).uuid)
print("RT_REPORT " + json.dumps(seen), flush=True)
while not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.02)
"""

# argv: "cold" initialises CUDA as it is imported, "warm" leaves that to the trials.
FORKED = """
import os, sys, time
started = time.monotonic()
import torch
from rt import tune
if sys.argv[1] == "cold":
    torch.ones(1, device="cuda")

def compute(config):
    began = time.monotonic()
    total = torch.full((1000,), config["x"], device="cuda", dtype=torch.float64).sum().item()
    tune.report({"total": total, "seconds": time.monotonic() - began,
                 "parent": open(f"/proc/{os.getppid()}/comm").read().strip()})

results = tune.Tuner(tune.with_resources(compute, {"cpu": 1, "gpu": 0.25}),
                     param_space={"x": tune.grid_search([1, 2, 3, 4])},
                     run_config=tune.RunConfig(name=sys.argv[1], verbose=0)).fit()
assert sorted(each.metrics["total"] for each in results) == [1e3, 2e3, 3e3, 4e3]
"""


class GpuCluster(unittest.TestCase):
    def setUp(self) -> None:
        self.cluster = Cluster(workers=1, cpus=8)
        self.addCleanup(self.cluster.close)
        self.cluster.up()
        self.go = self.cluster.home / "go"


@unittest.skipUnless(HAS_CUDA, WHY)
class RealGpuTest(GpuCluster):
    def submit(self, name: str, samples: int, resources: str) -> int:
        return self.cluster.submit(name, f"""
experiment: {name}
command: [{PYTHON}, hold.py, {self.go}]
num_samples: {samples}
resources: {resources}
""")

    def seen(self, number: int, count: int) -> list[dict]:
        def told() -> list[dict]:
            rows = [t["metrics"] for t in self.cluster.trials(number) if t["metrics"]]
            return rows if len(rows) == count else []
        return wait_until(f"{count} trials say what they see", told, 180)

    def test_a_node_and_its_trials_see_what_is_there(self) -> None:
        uuids, memory = smi("uuid"), smi("memory.total")
        gpus = self.cluster.node("worker-1")["gpus"]
        self.assertEqual([gpu["uuid"] for gpu in gpus], uuids)
        for gpu, mebibytes in zip(gpus, memory):
            self.assertAlmostEqual(gpu["memory_bytes"] / 2**20, int(mebibytes), delta=1)
        (self.cluster.work / "hold.py").write_text(HOLD)
        halves = self.submit("halves", 2, "{cpu: 1, gpu: 0.5}")
        for row in self.seen(halves, 2):
            self.assertEqual((row["count"], row["sum"]), (1, 512.0**3))
            self.assertIn(row["devices"], uuids)
            self.assertEqual(row["uuid"], row["devices"])
        none = self.submit("none", 1, "{cpu: 1}")
        row = self.seen(none, 1)[0]
        self.assertEqual((row["devices"], row["cuda"]), ("", 0))
        if len(uuids) == 1:
            waits = self.submit("waits", 1, "{cpu: 1, gpu: 1}")
            shown = self.cluster.json("trial", "show", f"{waits}/0")
            self.assertIn(" of 1 gpu free", shown["waiting"]["reason"])
        self.go.touch()
        for one in self.cluster.json("exp", "list")["items"]:
            self.assertEqual(self.cluster.wait_experiment(one["id"])["state"], "COMPLETED")

    def run_forked(self, mode: str) -> str:
        (self.cluster.work / "forked.py").write_text(FORKED)
        env = {**self.cluster.env, "RT_CLUSTER": "it", "PYTHONPATH": str(ROOT / "python")}
        done = subprocess.run([PYTHON, "forked.py", mode], env=env, cwd=self.cluster.work,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=300, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr + self.cluster.logs())
        rows = [trial["metrics"] for trial in self.cluster.trials(1)]
        print(f"\n{mode}: " + json.dumps(rows), file=sys.stderr)
        return self.cluster.logs() + "".join(
            self.cluster.rt("logs", trial["id"], check=False).stdout
            for trial in self.cluster.trials(1))

    def test_torch_is_imported_once_and_cuda_works_in_every_fork(self) -> None:
        self.assertNotIn("initialised CUDA", self.run_forked("warm"))
        parents = {trial["metrics"]["parent"] for trial in self.cluster.trials(1)}
        self.assertNotIn("rt-shim", parents)

    def test_cuda_in_the_import_means_a_cold_start_that_says_why(self) -> None:
        self.assertIn("its import initialised CUDA", self.run_forked("cold"))


@unittest.skipUnless(HAS_CUDA, WHY)
class GpuResumeTest(ResumeTest):
    device = "cuda"

    def test_the_weights_on_the_gpu_are_the_same_to_the_last_bit(self) -> None:
        self.check_same_weights()


if __name__ == "__main__":
    os.chdir(pathlib.Path(__file__).parent)
    unittest.main()
