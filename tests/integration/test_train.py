"""Training on several ranks with real daemons: rt.train's trainers and the barrier of report()."""

import functools
import json
import os
import pathlib
import signal
import subprocess
import unittest

from harness import PYTHON, ROOT, ClusterTest, driver_python, has, wait_until

HAS_TORCH = has("torch")

# Each rank writes a line before and after each report; rank 1 waits for a file before its second.
BARRIER = """
import os, pathlib, sys, time
from rt import train
from rt.train import DataParallelTrainer, RunConfig, ScalingConfig

files = pathlib.Path(sys.argv[1])

def loop(config):
    files, rank = pathlib.Path(config["files"]), train.get_context().get_world_rank()
    for step in range(1, config["steps"][rank] + 1):
        (files / f"before-{rank}-{step}").touch()
        while rank == 1 and step == 2 and not (files / "go").exists():
            time.sleep(0.01)
        (files / f"arrives-{rank}-{step}").touch()
        train.report({"step": step, "rank": rank})
        (files / f"after-{rank}-{step}").touch()

steps = [int(text) for text in sys.argv[2].split(",")]
result = DataParallelTrainer(
    loop, train_loop_config={"files": str(files), "steps": steps},
    scaling_config=ScalingConfig(num_workers=len(steps), placement_strategy=sys.argv[3]),
).fit()
print("result", result.metrics["step"], result.metrics["rank"], result.error)
"""

# DDP on shuffled data. The weights at the end must not depend on what was killed meanwhile.
WEIGHTS = """
import gc
gc.disable()  # It finds nothing among the half million objects of PyTorch.
import hashlib, json, os, pathlib, sys, tempfile, time
import torch
from torch import nn
from rt import train
from rt.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from rt.train.torch import TorchTrainer, prepare_data_loader, prepare_model

def digest(model):
    state = getattr(model, "module", model).state_dict()
    parts = [state[key].numpy().tobytes() for key in sorted(state)]
    return hashlib.sha256(b"".join(parts)).hexdigest()

def loop(config):
    files, context = pathlib.Path(config["files"]), train.get_context()
    torch.manual_seed(1)
    model = prepare_model(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    generator = torch.Generator().manual_seed(2)
    data = torch.utils.data.TensorDataset(torch.randn(96, 8, generator=generator),
                                          torch.randn(96, 1, generator=generator))
    loader = prepare_data_loader(torch.utils.data.DataLoader(data, batch_size=4, shuffle=True))
    first, checkpoint = 0, train.get_checkpoint()
    if checkpoint is not None:
        saved = torch.load(os.path.join(checkpoint.path, "state.pt"))
        model.module.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        first = saved["epoch"] + 1
    for epoch in range(first, 6):
        loader.sampler.set_epoch(epoch)
        for inputs, targets in loader:
            loss = nn.functional.mse_loss(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if epoch in config["hold"] and context.get_world_rank() == 0:
            (files / f"held-{epoch}-{os.environ['RT_ATTEMPT']}").touch()
            while not (files / f"go-{epoch}").exists() and train.checkpoint_requested() is None:
                time.sleep(0.01)
        with tempfile.TemporaryDirectory() as directory:
            checkpoint = None
            if context.get_world_rank() == 0:
                torch.save({"model": model.module.state_dict(), "epoch": epoch,
                            "optimizer": optimizer.state_dict()},
                           os.path.join(directory, "state.pt"))
                checkpoint = Checkpoint.from_directory(directory)
            train.report({"epoch": epoch, "weights": digest(model)}, checkpoint=checkpoint)

if "TORCHELASTIC_RUN_ID" in os.environ:  # The same function under torchrun.
    torch.distributed.init_process_group("gloo")
    import rt.train as plain
    plain.report = lambda metrics, checkpoint=None: print("weights", metrics["weights"]) if (
        torch.distributed.get_rank() == 0 and metrics["epoch"] == 5) else None
    loop({"files": ".", "hold": []})
    gc.freeze()  # The end of the process does not look through them either.
    sys.exit()
result = TorchTrainer(
    loop, train_loop_config={"files": sys.argv[1], "hold": json.loads(sys.argv[2])},
    scaling_config=ScalingConfig(num_workers=int(sys.argv[3]),
                                 resources_per_worker={"CPU": float(sys.argv[5])}),
    run_config=RunConfig(name=sys.argv[4], failure_config=FailureConfig(max_failures=1)),
).fit()
print("weights", result.metrics["weights"], sorted(os.listdir(result.checkpoint.path)))
gc.freeze()
"""


class TrainCase(ClusterTest):
    workers, cpus = 2, 2

    def setUp(self) -> None:
        self.cluster.env.update(PYTHONPATH=str(ROOT / "python"), RT_CLUSTER="it")
        self.files = self.cluster.home / f"files-{self._testMethodName}"
        self.files.mkdir()

    def python(self) -> str:
        """The interpreter of the driver and its ranks."""
        return driver_python()

    def start(self, text: str, *words: object, **env: str) -> "subprocess.Popen[str]":
        script = self.cluster.work / "script.py"
        script.write_text(text)
        driver = subprocess.Popen([self.python(), str(script), *map(str, words)], text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  stdin=subprocess.DEVNULL, cwd=self.cluster.work,
                                  env={**self.cluster.env, **env})
        self.addCleanup(driver.communicate)
        self.addCleanup(driver.kill)
        return driver

    def finish(self, driver: "subprocess.Popen[str]", code: int = 0) -> str:
        out, err = driver.communicate(timeout=300)
        self.assertEqual(driver.returncode, code, out + err)
        return out + err

    def newest(self) -> str:
        """The id of the first trial of the newest experiment."""
        return f"{max(each['id'] for each in self.cluster.json('exp', 'list')['items'])}/0"

    def there(self, name: str) -> bool:
        return (self.files / name).exists()


class BarrierTest(TrainCase):
    def meets(self, strategy: str) -> None:
        driver = self.start(BARRIER, self.files, "3,3", strategy)
        wait_until("rank 0 arrives", lambda: self.there("arrives-0-2"))
        wait_until("rank 1 is before its second report", lambda: self.there("before-1-2"))
        self.assertTrue(self.there("after-0-1") and self.there("after-1-1"))
        self.assertFalse(self.there("after-0-2"))
        (self.files / "go").touch()
        self.assertIn("result 3 0 None", self.finish(driver))

    def test_ranks_of_one_node_wait_for_each_other(self) -> None:
        self.meets("STRICT_PACK")

    def test_ranks_of_two_nodes_wait_for_each_other(self) -> None:
        self.meets("STRICT_SPREAD")

    def test_daemons_that_are_killed_at_a_barrier(self) -> None:
        driver = self.start(BARRIER, self.files, "3,3", "STRICT_SPREAD")
        wait_until("rank 0 arrives", lambda: self.there("arrives-0-2"))
        wait_until("rank 1 is before its second report", lambda: self.there("before-1-2"))
        for name in ("worker-1", "worker-2"):
            pid = self.cluster.kill(name)
            wait_until(f"{name} is back", lambda n=name, p=pid: self.cluster.pid(n) != p)
        self.assertFalse(self.there("after-0-2"))
        (self.files / "go").touch()
        self.assertIn("result 3 0 None", self.finish(driver))

    def test_a_rank_that_ended_too_early_is_named(self) -> None:
        for strategy in ("STRICT_PACK", "STRICT_SPREAD"):
            with self.subTest(strategy=strategy):
                driver = self.start(BARRIER, self.files, "2,1", strategy)
                said = self.finish(driver, 1)
                self.assertIn("train.report() was called 2 times here, and rank 1 has ended "
                              "without doing so", said)

    def test_a_rank_that_is_missing_for_too_long_is_named(self) -> None:
        for strategy in ("STRICT_PACK", "STRICT_SPREAD"):
            with self.subTest(strategy=strategy):
                driver = self.start(BARRIER, self.files, "2,2", strategy,
                                    RT_TRAIN_BARRIER_TIMEOUT_S="1")
                said = self.finish(driver, 1)
                self.assertRegex(said, r"train\.report\(\) has waited \d+ s at its call 2 for "
                                       r"rank 1")
                self.assertIn("longer than RT_TRAIN_BARRIER_TIMEOUT_S", said)
                # Rank 1 waits for a file, in the function that the script has defined.
                self.assertRegex(said, r"rank 1 is here:\n(.*\n)*.*script\.py\", line \d+ in loop")


class ScalingTest(TrainCase):
    def test_each_trial_has_its_own_number_of_ranks_and_a_run_is_restored(self) -> None:
        said = self.finish(self.start("""
import os, tempfile
from rt import train, tune
from rt.train import Checkpoint, DataParallelTrainer, RunConfig, ScalingConfig

def sizes():
    train.report({"size": train.get_context().get_world_size()})

space = {"scaling_config": ScalingConfig(num_workers=tune.grid_search([1, 2]),
                                         resources_per_worker={"CPU": 1})}
grid = tune.Tuner(DataParallelTrainer(sizes), param_space=space).fit()
print("sizes", [each.metrics["size"] for each in grid], grid[1].config)

def loop(config):
    saved = train.get_checkpoint()
    with tempfile.TemporaryDirectory() as directory:
        open(os.path.join(directory, "here"), "w").close()
        made = Checkpoint.from_directory(directory)
        train.report({"resumed": saved is not None, "lr": config["lr"]}, checkpoint=made)
    if saved is None:
        raise KeyError("the first attempt")

print("before", DataParallelTrainer.can_restore("broken"))
trainer = DataParallelTrainer(loop, train_loop_config={"lr": 0.5},
                              run_config=RunConfig(name="broken"))
try:
    trainer.fit()
except train.TrainingFailedError:
    print("after", DataParallelTrainer.can_restore("broken"))
result = DataParallelTrainer.restore("broken", loop).fit()
print("restored", result.metrics["resumed"], result.metrics["lr"])
"""))
        self.assertIn("sizes [1, 2] {'scaling_config': {'num_workers': 2", said)
        self.assertIn("before False\nafter True\nrestored True 0.5\n", said)


@unittest.skipUnless(HAS_TORCH, "torch==2.13.0 is not installed in build/venv")
class TorchTrainerTest(TrainCase):
    def python(self) -> str:
        return str(PYTHON)

    @classmethod
    @functools.cache
    def expected(cls) -> str:
        """The digest of the weights that two ranks end with under torchrun."""
        script = cls.cluster.work / "torchrun.py"
        script.write_text(WEIGHTS)
        done = subprocess.run(
            [str(PYTHON), "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
             str(script)], text=True, capture_output=True, check=True, timeout=300,
            env={**cls.cluster.env, "OMP_NUM_THREADS": "1"})
        return done.stdout.split("weights ")[1].split()[0]

    def train(self, name: str, hold: list, cpus: int = 1) -> "subprocess.Popen[str]":
        return self.start(WEIGHTS, self.files, hold, 2, name, cpus)

    def attempts(self, trial: str) -> list:
        return self.cluster.json("trial", "show", trial)["attempts"]

    def wait_state(self, trial: str, state: str) -> None:
        wait_until(f"trial {trial} is {state}",
                   lambda: self.cluster.json("trial", "show", trial)["state"] == state, 120)

    def wait_held(self, epoch: int, attempt: int) -> None:
        wait_until(f"rank 0 of attempt {attempt} is at epoch {epoch}",
                   lambda: self.there(f"held-{epoch}-{attempt}"), 180)

    def test_weights_are_those_of_torchrun_whatever_happens(self) -> None:
        expected = self.expected()
        driver = self.train("disturbed", [1, 2, 3, 4, 5])
        self.wait_held(1, 1)
        trial = self.newest()
        first, second = self.attempts(trial)[-1]["members"]
        self.assertEqual(first["node_id"], second["node_id"])
        with self.subTest("a rank is killed, and the head while it starts again"):
            os.kill(self.attempts(trial)[-1]["members"][1]["pid"], signal.SIGKILL)
            self.wait_held(1, 2)
            self.cluster.kill("head")
            (self.files / "go-1").touch()
        with self.subTest("its node is drained"):
            self.wait_held(2, 2)
            node = self.attempts(trial)[-1]["members"][0]["node_id"]
            self.cluster.rt("node", "drain", str(node), "--deadline", "60s")
            self.wait_held(3, 3)
            self.assertNotEqual(self.attempts(trial)[-1]["members"][0]["node_id"], node)
            self.cluster.rt("node", "undrain", str(node))
        with self.subTest("it is paused and resumed"):
            self.cluster.rt("trial", "pause", trial)
            self.wait_state(trial, "PAUSED")
            self.cluster.rt("trial", "resume", trial)
            self.wait_held(4, 4)
        with self.subTest("its worker daemon is killed"):
            node = self.attempts(trial)[-1]["members"][0]["node_id"]
            name = self.cluster.json("node", "show", str(node))["name"]
            pid = self.cluster.kill(name)
            wait_until(f"{name} is back", lambda: self.cluster.pid(name) != pid)
            (self.files / "go-4").touch()
            self.wait_held(5, 4)
        driver.kill()  # Another run of the script with the same name follows the training.
        again = self.train("disturbed", [1, 2, 3, 4, 5])
        (self.files / "go-5").touch()
        said = self.finish(again)
        self.assertIn(f"weights {expected} ['state.pt']", said)
        attempts = self.attempts(trial)
        self.assertEqual([each["outcome"] for each in attempts],
                         ["FAILED", "PREEMPTED", "SUSPENDED", "SUCCEEDED"],
                         [each["reason"] for each in attempts])
        said = self.finish(self.train("disturbed", [1, 2, 3, 4, 5]))
        self.assertIn("has completed, and its result is returned", said)
        self.assertIn(f"weights {expected}", said)
        self.cluster.wait_no_trials()

    def test_ranks_on_two_nodes_end_with_the_weights_of_torchrun(self) -> None:
        apart = self.train("apart", [], cpus=2)
        self.assertIn(f"weights {self.expected()}", self.finish(apart))
        nodes = {member["node_id"] for member in self.attempts(self.newest())[-1]["members"]}
        self.assertEqual(len(nodes), 2)

    def test_a_trainer_is_searched(self) -> None:
        said = self.finish(self.start("""
from rt import train, tune
from rt.train import RunConfig, ScalingConfig
from rt.train.torch import TorchTrainer
import torch

def loop(config):
    value = torch.tensor([float(train.get_context().get_world_rank() + 1)])
    torch.distributed.all_reduce(value)
    train.report({"score": value.item() * config["lr"] + config["base"]})

trainer = TorchTrainer(loop, train_loop_config={"base": 0.5, "lr": 0.0},
                       scaling_config=ScalingConfig(num_workers=2))
results = tune.Tuner(trainer, param_space={"train_loop_config": {
    "lr": tune.grid_search([1.0, 2.0])}}, tune_config=tune.TuneConfig(metric="score", mode="max"),
    run_config=RunConfig(name="taken")).fit()
try:
    TorchTrainer(loop, run_config=RunConfig(name="taken")).fit()
except ValueError as error:
    print("taken:", error)
print("scores", [each.metrics["score"] for each in results],
      results.get_best_result().config)
try:
    tune.Tuner(trainer, param_space={"train_lop_config": {}})
except ValueError as error:
    print(error)
try:
    TorchTrainer(loop, scaling_config=ScalingConfig(num_workers=2, use_gpu=True)).fit()
except ValueError as error:
    print("gpu:", error)
def plain():
    train.report({"size": torch.distributed.get_world_size()})
two = ScalingConfig(num_workers=2)
print("plain", TorchTrainer(plain, scaling_config=two).fit().metrics["size"])
print("single", TorchTrainer(plain).fit().metrics["size"])
def fails(config):
    raise KeyError("nothing here")
try:
    TorchTrainer(fails, scaling_config=ScalingConfig(num_workers=2)).fit()
except train.TrainingFailedError as error:
    print("failed:", error.__cause__.kind, "nothing here" in str(error))
"""))
        self.assertIn("scores [3.5, 6.5] {'train_loop_config': {'lr': 2.0}}", said)
        self.assertIn("'train_lop_config' is not known; did you mean 'train_loop_config'?", said)
        self.assertIn("gpu: ", said)
        self.assertIn("taken: 'taken' is the name of a search of 2 trials", said)
        self.assertIn("plain 2", said)
        self.assertIn("single 1", said)
        self.assertIn("failed: KeyError True", said)


if __name__ == "__main__":
    unittest.main()
