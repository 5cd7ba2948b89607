"""Gpus on real daemons, with a libnvidia-ml.so.1 of the tests' own (tests/gpu)."""

import json
import sys
import threading
import unittest

from harness import BIN, Cluster, wait_until
from script import Place

GPUS = """GPU-aaaa,NVIDIA H200,150000000000,ok
GPU-bbbb,NVIDIA H200,150000000000,ok
GPU-cccc,NVIDIA A100,80000000000,ok
+MIG-1111,NVIDIA A100 MIG 3g.40gb,40000000000,ok
+MIG-2222,NVIDIA A100 MIG 3g.40gb,40000000000,ok
"""

# Says which gpus it sees, then waits for a file, so that several hold theirs at once.
HOLD = """
import json, os, pathlib, sys, time
print("RT_REPORT " + json.dumps({"seen": os.environ.get("CUDA_VISIBLE_DEVICES", "unset")}),
      flush=True)
while not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.02)
"""


class GpuTest(unittest.TestCase):
    def setUp(self) -> None:
        self.cluster = Cluster(workers=1, cpus=8)
        self.addCleanup(self.cluster.close)
        self.gpus = self.cluster.home / "gpus.txt"
        self.gpus.write_text(GPUS)
        self.cluster.env.update(FAKE_NVML=str(self.gpus), LD_LIBRARY_PATH=str(BIN / "fake"))
        self.cluster.env.pop("CUDA_VISIBLE_DEVICES", None)
        self.cluster.up()
        (self.cluster.work / "hold.py").write_text(HOLD)
        self.go = self.cluster.home / "go"

    def devices(self) -> dict[str, dict]:
        return {gpu["uuid"]: gpu for gpu in self.cluster.node("worker-1")["gpus"]}

    def submit(self, name: str, samples: int, resources: str) -> int:
        return self.cluster.submit(name, f"""
experiment: {name}
command: [{sys.executable}, hold.py, {self.go}]
num_samples: {samples}
resources: {resources}
""")

    def seen(self, number: int, count: int) -> list[str]:
        def told() -> list[str]:
            rows = [t["metrics"] for t in self.cluster.trials(number) if t["metrics"]]
            return [row["seen"] for row in rows] if len(rows) == count else []
        return wait_until(f"{count} trials say what they see", told)

    def test_shares_wholes_and_none(self) -> None:
        self.assertEqual(list(self.devices()), ["GPU-aaaa", "GPU-bbbb", "MIG-1111", "MIG-2222"])
        self.assertEqual(self.devices()["MIG-1111"]["memory_bytes"], 40_000_000_000)
        self.assertEqual(self.cluster.json("status")["resources"]["gpu"]["total"], 4)
        shares = self.submit("shares", 3, "{cpu: 0, gpu: 0.5}")
        self.assertEqual(sorted(self.seen(shares, 3)), ["GPU-aaaa", "GPU-aaaa", "GPU-bbbb"])
        whole = self.submit("whole", 1, "{cpu: 0, gpu: 2}")
        self.assertEqual(self.seen(whole, 1), ["MIG-1111,MIG-2222"])
        none = self.submit("none", 1, "{cpu: 1}")
        self.assertEqual(self.seen(none, 1), [""])
        used = {uuid: gpu["used_fraction"] for uuid, gpu in self.devices().items()}
        self.assertEqual(used, {"GPU-aaaa": 1, "GPU-bbbb": 0.5, "MIG-1111": 1, "MIG-2222": 1})
        member = self.cluster.trial(f"{whole}/0")["attempts"][0]["members"][0]
        self.assertEqual(member["gpus"], ["MIG-1111", "MIG-2222"])
        waits = self.submit("waits", 1, "{cpu: 0, gpu: 0.6}")
        reason = self.cluster.trial(f"{waits}/0")["waiting"]["reason"]
        self.assertIn("closest: worker-1, 0.5 of 4 gpu free", reason)
        self.go.touch()
        for number in (shares, whole, none, waits):
            self.assertEqual(self.cluster.wait_experiment(number)["state"], "COMPLETED")
        self.assertEqual({gpu["used_fraction"] for gpu in self.devices().values()}, {0})

    def test_a_gpu_that_falls_off_the_bus_takes_no_more_work(self) -> None:
        held = self.submit("held", 1, "{cpu: 0, gpu: 1}")
        self.assertEqual(self.seen(held, 1), ["GPU-aaaa"])
        self.gpus.write_text(GPUS.replace("150000000000,ok", "150000000000,lost", 1))
        sick = wait_until("the gpu is called unhealthy", lambda: [
            gpu for gpu in self.devices().values() if gpu["state"] == "UNHEALTHY"], lasting=True)
        self.assertEqual([gpu["uuid"] for gpu in sick], ["GPU-aaaa"])
        self.assertEqual(sick[0]["reason"], "NVML: GPU is lost")
        self.assertEqual(self.cluster.json("status")["resources"]["gpu"]["total"], 3)
        self.assertEqual([t["state"] for t in self.cluster.trials(held)], ["RUNNING"])
        others = self.submit("others", 4, "{cpu: 0, gpu: 1}")
        self.assertEqual(sorted(self.seen(others, 3)), ["GPU-bbbb", "MIG-1111", "MIG-2222"])
        self.gpus.write_text(GPUS)
        self.assertEqual(wait_until("the gpu is well", lambda: [
            gpu for gpu in self.devices().values() if gpu["state"] == "READY"
            and gpu["uuid"] == "GPU-aaaa"], lasting=True)[0]["reason"], None)
        self.go.touch()
        for number in (held, others):
            self.assertEqual(self.cluster.wait_experiment(number)["state"], "COMPLETED")

    def test_half_more_than_one_gpu_is_refused_where_it_is_written(self) -> None:
        path = self.cluster.work / "bad.yaml"
        path.write_text("experiment: bad\ncommand: [x]\nresources: {gpu: 1.5}\n")
        done = self.cluster.rt("submit", "-o", "json", str(path), check=False)
        self.assertEqual(done.returncode, 2)
        error = json.loads(done.stderr)["error"]
        self.assertIn("whole number", error["message"])
        self.assertEqual((error["line"], error["column"]), (3, 18))


class LateDriverTest(unittest.TestCase):
    def test_a_trial_sees_only_its_gpus_when_the_driver_hung_as_the_worker_began(self) -> None:
        cluster = Cluster(workers=1, cpus=8)
        self.addCleanup(cluster.close)
        gpus = cluster.home / "gpus.txt"
        gpus.write_text(GPUS.replace(",ok", ",hang", 1))
        cluster.env.update(FAKE_NVML=str(gpus), LD_LIBRARY_PATH=str(BIN / "fake"))
        cluster.env.pop("CUDA_VISIBLE_DEVICES", None)
        up = threading.Thread(target=cluster.up)  # It waits for a worker that takes work.
        up.start()
        try:
            wait_until("the worker begins without its gpus",
                       lambda: "this worker starts without its gpus" in cluster.logs())
        finally:
            gpus.write_text(GPUS)
            up.join()
        (cluster.work / "hold.py").write_text(HOLD)
        wait_until("its gpus are there",
                   lambda: cluster.json("status")["resources"]["gpu"]["total"] == 4)
        (cluster.work / "go").touch()
        for name, resources, seen in (("two", "{cpu: 0, gpu: 2}", "GPU-aaaa,GPU-bbbb"),
                                      ("none", "{cpu: 1}", "")):
            number = cluster.submit(name, f"experiment: {name}\nnum_samples: 1\n"
                                    f"command: [{sys.executable}, hold.py, {cluster.work}/go]\n"
                                    f"resources: {resources}\n")
            self.assertEqual(cluster.wait_experiment(number)["state"], "COMPLETED")
            self.assertEqual(cluster.trials(number)[0]["metrics"]["seen"], seen)


PLAIN = """
import os
from rt import tune

def objective(config):
    tune.report({"seen": os.environ["CUDA_VISIBLE_DEVICES"]})

results = tune.run(tune.with_resources(objective, {"gpu": 0.5}), num_samples=2, verbose=0)
print(sorted(trial.last_result["seen"] for trial in results.trials))
"""


class PlainScriptTest(unittest.TestCase):
    def test_a_plain_script_finds_the_gpus_of_its_machine(self) -> None:
        place = Place()
        self.addCleanup(place.close)
        gpus = place.root / "gpus.txt"
        gpus.write_text(GPUS)
        place.env.pop("CUDA_VISIBLE_DEVICES", None)
        place.env.update(FAKE_NVML=str(gpus), LD_LIBRARY_PATH=str(BIN / "fake"))
        done = place.run(PLAIN)
        self.assertEqual(done.stdout.splitlines()[-1], "['GPU-aaaa', 'GPU-aaaa']")


if __name__ == "__main__":
    unittest.main()
