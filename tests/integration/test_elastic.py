"""Elastic training on real daemons: kills and resizes change no bit; AdaptDL's recipe trains."""

import json
import os
import pathlib
import re
import signal
import subprocess
import unittest
from typing import Any, ClassVar

from harness import BIN, ROOT, ClusterTest, wait_until
from test_train import HAS_TORCH, PYTHON

# Trains 4 epochs. In each generation and attempt it waits at one step until a file says to go on,
# and before its first step while a file is there (a gate).
TRAIN = """
import hashlib, json, os, pathlib, sys, time
began = time.monotonic()
import torch
import rt.elastic as adaptdl
import rt.elastic.torch as adl
from torch import nn

files, mode = pathlib.Path(sys.argv[1]), sys.argv[2]
attempt, generation = int(os.environ["RT_ATTEMPT"]), int(os.environ["RT_GENERATION"])
turn = attempt + generation - 2
torch.set_num_threads(1)
torch.manual_seed(3)
inputs = torch.randn(96, 8)
data = torch.utils.data.TensorDataset(inputs, (inputs.sum(1) > 0).long())
loader = adl.AdaptiveDataLoader(data, batch_size=16, shuffle=True)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.8)
adl.init_process_group("gloo", checkpoint_interval_s=0)
# Gradients are added in a fixed order, so that the weights do not depend on the number of ranks.
model = adl.AdaptiveDataParallel(model, optimizer, scheduler, deterministic=True, max_replicas=2)
rank = adaptdl.env.replica_rank()
while (files / f"gate-{attempt}-{generation}").exists():
    time.sleep(0.005)
held = mode == "held" and turn < 3
with open(files / f"steps-{attempt}-{generation}-{rank}", "a", buffering=1) as steps:
    for epoch in adl.remaining_epochs_until(4):
        stats = adl.Accumulator()
        for batch, labels in loader:
            loss = nn.functional.cross_entropy(model(batch), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            stats["loss"] += loss.item()
            steps.write(json.dumps([epoch, loader.current_index, loss.item(), time.monotonic()])
                        + "\\n")
            if held and epoch == 1 + turn and loader.current_index == 48 and rank == 0:
                (files / f"held-{turn}").touch()
                while not (files / f"go-{turn}").exists():
                    time.sleep(0.005)
        with stats.synchronized():
            adl.report(loss=stats["loss"])
        scheduler.step()
if rank == 0:
    weights = json.dumps([each.tolist() for each in model.parameters()]).encode()
    print("weights", hashlib.sha256(weights).hexdigest())
"""


class ElasticRun(ClusterTest):
    """Runs `train` on two nodes."""

    workers, cpus = 2, 2
    train = TRAIN

    @classmethod
    def prepare(cls) -> None:
        cluster = cls.cluster
        cluster.env["PATH"] = f"{PYTHON.parent}:{cluster.env['PATH']}"
        cluster.env["RT_CLUSTER"] = "it"
        cluster.env["OMP_NUM_THREADS"] = "1"
        (cluster.work / "train.py").write_text(cls.train)

    def start(self, name: str, mode: str, ranks: int | str, *options: str) -> subprocess.Popen:
        """`ranks`: a number, or bounds such as "1:2"."""
        self.files = self.cluster.home / name
        self.files.mkdir()
        client = subprocess.Popen(
            [str(BIN / "rt"), "submit", "--name", name,
             "--elastic" if isinstance(ranks, str) else "--nproc-per-node", str(ranks),
             "--max-restarts", "3", *options, "train.py", "--", str(self.files), mode], text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
            cwd=self.cluster.work, env=self.cluster.env)
        self.addCleanup(client.communicate)
        self.addCleanup(client.kill)
        return client

    def end(self, client: subprocess.Popen, name: str) -> tuple[str, list[Any]]:
        """The digest of the weights, and the losses of the epochs."""
        out, err = client.communicate(timeout=180)
        self.assertEqual(client.returncode, 0, out + err + self.cluster.logs())
        experiment = next(one for one in self.cluster.json("exp", "list")["items"]
                          if one["name"] == name)
        experiment = self.cluster.experiment(experiment["id"])
        rows = self.cluster.rows(experiment, self.cluster.trials(experiment["id"])[0])
        losses = [row["loss"] for row in rows if "loss" in row]
        self.assertEqual(len(losses), 4)
        return re.search("weights (.*)", out)[1], losses

    def held(self, turn: int) -> None:
        wait_until(f"turn {turn} is held", (self.files / f"held-{turn}").exists, 120)

    def trial(self, name: str) -> Any:
        number = next(one["id"] for one in self.cluster.json("exp", "list")["items"]
                      if one["name"] == name)
        return self.cluster.json("trial", "show", f"{number}/0")

    def steps(self, attempt: int, generation: int) -> list[Any]:
        path = self.files / f"steps-{attempt}-{generation}-0"
        return [json.loads(line) for line in path.read_text().splitlines()]


@unittest.skipUnless(HAS_TORCH, "torch==2.13.0 is not installed in build/venv")
class ElasticTest(ElasticRun):
    found: ClassVar[Any] = None

    def expected(self) -> tuple[str, list[Any]]:
        """The end of a run that nothing disturbs, on one rank: one for all tests."""
        if self.found is None:
            type(self).found = self.end(self.start("whole", "undisturbed", 1), "whole")
        return self.found

    def test_a_rank_and_the_head_are_killed_and_no_bit_changes(self) -> None:
        expected = self.expected()
        client = self.start("disturbed", "held", 2)
        self.held(0)
        os.kill(self.trial("disturbed")["attempts"][-1]["members"][1]["pid"], signal.SIGKILL)
        self.held(1)
        self.cluster.kill("head")
        (self.files / "go-1").touch()
        self.assertEqual(self.end(client, "disturbed"), expected)

    def begins(self, generation: int, ranks: int) -> list[Any]:
        """The members of a generation whose processes run, and have not made a step."""
        def live() -> Any:
            last = self.trial("killed")["attempts"][-1]
            members = last["members"]
            is_it = (last["generation"], len(members)) == (generation, ranks)
            return members if is_it and all(one["pid"] for one in members) else None

        members: list[Any] = wait_until(f"generation {generation} starts", live, 120)
        return members

    def resize(self, turn: int, ranks: int) -> None:
        """Resizes the trial while its script waits in the middle of an epoch."""
        self.held(turn)
        self.cluster.rt("trial", "resize", self.trial("killed")["id"], "--ranks", str(ranks),
                        timeout=120)

    def gate(self, generation: int) -> pathlib.Path:
        return pathlib.Path(self.files / f"gate-1-{generation}")

    def check_in_the_middle(self, generation: int) -> None:
        self.assertFalse((self.files / f"steps-1-{generation}-0").exists(), "it has begun already")

    def test_kills_in_the_middle_of_resizes_change_no_bit(self) -> None:
        expected = self.expected()
        client = self.start("killed", "held", 1)
        for generation in (3, 4):
            self.gate(generation).touch()
        self.resize(0, 2)
        self.cluster.kill("head")  # Rank 0 is asked to save.
        (self.files / "go-0").touch()
        self.resize(1, 1)
        (self.files / "go-1").touch()
        self.begins(3, 1)
        for part in ("worker-1", "worker-2"):
            self.cluster.kill(part)
        self.check_in_the_middle(3)
        self.gate(3).unlink()
        self.resize(2, 2)
        (self.files / "go-2").touch()
        os.kill(self.begins(4, 2)[1]["pid"], signal.SIGKILL)
        self.check_in_the_middle(4)
        self.assertEqual(self.end(client, "killed"), expected)
        shown = self.trial("killed")
        self.assertEqual(shown["failures"], 1)
        self.assertEqual([(one["generation"], len(one["members"]), one["outcome"])
                          for one in shown["attempts"]][:3],
                         [(1, 1, "RESIZED"), (2, 2, "RESIZED"), (3, 1, "RESIZED")])
        self.assertEqual(shown["attempts"][-1]["outcome"], "SUCCEEDED")
        self.assertEqual(len(shown["attempts"][-1]["members"]), 2)

    def test_the_recipe_trains_on_two_nodes(self) -> None:
        script = str(ROOT / "examples/elastic/digits_elastic.py")
        done = self.cluster.rt("submit", "--name", "recipe", "--nproc-per-node", "1", "--nnodes",
                               "2", script, "--", "--epochs", "4", timeout=300)
        last = done.stdout.splitlines()[-1]
        self.assertGreater(float(re.search(r"accuracy ([\d.]+)", last)[1]), 0.85, done.stdout)
        shown = self.trial("recipe")
        for name in ("global_batch_size", "gain", "noise_scale", "efficiency", "goodput"):
            self.assertIn(name, shown["metrics"])
        self.assertEqual(shown["metrics"]["epoch"], 4)
        experiment = self.cluster.experiment(shown["experiment_id"])
        found = subprocess.run(["find", experiment["results_dir"], "-name", "events.out*"],
                               capture_output=True, text=True, check=True).stdout
        self.assertTrue(found)


@unittest.skipUnless(HAS_TORCH, "torch==2.13.0 is not installed in build/venv")
class FirstReportTest(ElasticRun):
    """A run whose first epoch takes seconds, and which saves nothing before its end."""

    train = (TRAIN.replace(", checkpoint_interval_s=0", "").replace("randn(96, 8)", "randn(960, 8)")
             .replace("epoch == 1 + turn", "epoch == turn").replace("index == 48", "index == 160")
             .replace("            if held", "            time.sleep(0.05 * (turn == 0))\n"
                      "            if held"))

    def test_a_resize_before_the_first_report_loses_no_step(self) -> None:
        client = self.start("first", "held", 2)
        self.held(0)
        self.cluster.rt("trial", "resize", self.trial("first")["id"], "--ranks", "1")
        for turn in range(2):
            (self.files / f"go-{turn}").touch()
        self.end(client, "first")
        attempts = self.trial("first")["attempts"]
        self.assertEqual([(one["generation"], len(one["members"]), one["outcome"])
                          for one in attempts], [(1, 2, "RESIZED"), (2, 1, "SUCCEEDED")])
        last, first = self.steps(1, 1)[-1], self.steps(1, 2)[0]
        print(f"resize to one rank: {first[3] - last[3]:.2f} s between two steps")
        self.assertEqual(last[0], 0)
        self.assertEqual(first[:2], [0, last[1] + 16])

    def test_what_rank_0_measures_reaches_the_head(self) -> None:
        # One node is left: the job cannot grow, which it may do before it has measured anything.
        node = str(self.cluster.node("worker-2")["id"])
        self.cluster.rt("node", "drain", node)
        self.addCleanup(self.cluster.rt, "node", "undrain", node)
        client = self.start("measured", "held", "1:2", "--resources", "cpu=2")
        self.held(0)
        shown = wait_until("the head has recorded what was measured", lambda: next(
            (one for one in [self.trial("measured")["elastic"]] if one and one["measured_at"]),
            None), lasting=True)
        self.assertEqual(shown["ranks_measured"], 1)
        self.assertGreater(shown["progress"], 0)
        self.assertEqual(shown["total"], 240)  # 4 epochs of 960 samples, 16 in a step.
        self.cluster.rt("trial", "stop", self.trial("measured")["id"])
        client.communicate(timeout=60)
        self.assertIsNone(self.trial("measured")["elastic"])


if __name__ == "__main__":
    unittest.main()
