"""TensorBoard reads what the head writes: scalars, the HParams page, ends; after a restart too."""

import json
import os
import signal
import subprocess
import unittest

from harness import ROOT, Cluster, wait_until

PYTHON = ROOT / "build/venv/bin/python"

# With TensorBoard's own reader and the HParams plugin's own messages.
READER = """
import glob, json, os, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams import plugin_data_pb2
def read(directory):
    files = glob.glob(os.path.join(directory, "events.out.tfevents.*"))
    assert len(files) == 1, files
    events = EventAccumulator(directory, size_guidance={"scalars": 0})
    events.Reload()
    run = {"scalars": {tag: [[e.step, e.value] for e in events.Scalars(tag)]
                       for tag in events.Tags()["scalars"]}, "hparams": {}}
    for tag, content in events.PluginTagToContent("hparams").items():
        data = plugin_data_pb2.HParamsPluginData.FromString(content)
        kind = data.WhichOneof("data")
        value = getattr(data, kind)
        if kind == "session_start_info":
            run["hparams"]["start"] = {name: getattr(v, v.WhichOneof("kind"))
                                       for name, v in value.hparams.items()}
            run["hparams"]["group"] = value.group_name
        elif kind == "session_end_info":
            run["hparams"]["end"] = value.status
        else:
            run["hparams"]["experiment"] = {
                "name": value.name, "infos": {i.name: i.type for i in value.hparam_infos},
                "metrics": [m.name.tag for m in value.metric_infos]}
    return run
root = sys.argv[1]
names = [""] + sorted(d for d in os.listdir(root) if os.path.isdir(os.path.join(root, d)))
print(json.dumps({name: read(os.path.join(root, name)) for name in names}))
"""


def report(step: str) -> str:
    return f"echo 'RT_REPORT {{\"loss\": {step}, \"deep\": {{\"acc\": 0.5}}, \"note\": \"x\"}}'"


class TensorBoardTest(unittest.TestCase):
    def setUp(self) -> None:
        self.cluster = Cluster(workers=1)
        self.addCleanup(self.cluster.close)
        self.cluster.up()

    def submit(self, name: str, command: list[str], **more: object) -> int:
        path = self.cluster.work / f"{name}.yaml"
        path.write_text(json.dumps({"experiment": name, "command": command, **more}))
        return int(self.cluster.rt("submit", "--detach", path.name, "-o", "quiet").stdout)

    def read(self, number: int) -> dict:
        results = self.cluster.json("exp", "show", str(number))["results_dir"]
        done = subprocess.run([str(PYTHON), "-c", READER, results], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def wait(self, number: int, state: str) -> None:
        wait_until(f"experiment {number} is {state}", lambda: self.cluster.json(
            "exp", "show", str(number))["state"] == state)

    def test_scalars_and_parameters(self) -> None:
        number = self.submit(
            "board", ["/bin/sh", "-c", f"{report('1.5')}; {report('0.25')}; exit ${{code}}"],
            space={"code": {"grid": [0, 3]}, "lr": {"uniform": [0, 1]},
                   "kind": {"choice": ["adam"]}, "net": {"deep": True}},
            metric="loss", mode="min")
        self.wait(number, "COMPLETED")
        runs = self.read(number)
        root = runs.pop("")["hparams"]["experiment"]
        self.assertEqual(root, {"name": "board", "infos": {"code": 3, "kind": 1, "lr": 3},
                                "metrics": ["loss"]})
        self.assertEqual(len(runs), 2)
        trials = self.cluster.trials(number)
        for trial, status in zip(trials, (1, 2)):
            run = runs[trial["name"]]
            self.assertEqual(run["scalars"]["loss"], [[1, 1.5], [2, 0.25]])
            self.assertEqual(run["scalars"]["deep/acc"], [[1, 0.5], [2, 0.5]])
            self.assertNotIn("note", run["scalars"])
            params = trial["params"]
            self.assertEqual(run["hparams"]["start"], {
                "code": params["code"], "lr": params["lr"], "kind": "adam", "net/deep": True})
            self.assertEqual(run["hparams"]["group"], trial["name"])
            self.assertEqual(run["hparams"]["end"], status)

    def test_a_head_that_dies_writes_every_point_once(self) -> None:
        steps = " ".join(str(step) for step in range(1, 121))
        number = self.submit("dies", ["/bin/sh", "-c", f"for i in {steps}; do echo \"RT_REPORT "
                                      "{\\\"loss\\\": $i}\"; sleep 0.02; done"],
                             num_samples=2, metric="loss", mode="min")
        for reports in (20, 60):
            wait_until("it reports", lambda: self.cluster.trials(number)[0]["reports"] > reports)
            os.kill(self.cluster.pid("head"), signal.SIGKILL)
            self.cluster.up()
        self.wait(number, "COMPLETED")
        for name, run in self.read(number).items():
            if name:
                self.assertEqual(run["scalars"]["loss"], [[s, float(s)] for s in range(1, 121)])


if __name__ == "__main__":
    unittest.main()
