"""A PyTorch trial whose node dies in the middle of an epoch ends with the very same weights."""

import os
import signal
import subprocess
import unittest

from harness import PYTHON, ROOT, Cluster, has, processes_of, wait_until

HAS_TORCH = has("torch")
EPOCHS = 8

# Model, optimiser, sampler and the random numbers of the dropout are in the checkpoint.
TRAIN = f"""
import hashlib, os, pathlib, sys, tempfile, time
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # What deterministic algorithms need there.
from rt import train, tune
from rt.train import Checkpoint

def digest_of(model):
    sha = hashlib.sha256()
    for value in model.state_dict().values():
        sha.update(value.cpu().numpy().tobytes())
    return sha.hexdigest()

def fit(config):
    import torch  # The driver does without.
    device = config["device"]
    random = torch.cuda if device == "cuda" else torch
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)
    torch.manual_seed(7)
    sampler = torch.Generator().manual_seed(11)
    points = torch.randn(256, 8, generator=torch.Generator().manual_seed(3)).to(device)
    targets = points.sum(dim=1, keepdim=True).sin()
    model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Dropout(0.2),
                                torch.nn.Linear(32, 1)).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    first = 0
    restored = train.get_checkpoint()
    if restored:
        with restored.as_directory() as path:
            saved = torch.load(os.path.join(path, "state.pt"), weights_only=True)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        sampler.set_state(saved["sampler"])
        random.set_rng_state(saved["random"])
        first = saved["epoch"] + 1
    for epoch in range(first, {EPOCHS}):
        for number, batch in enumerate(torch.randperm(256, generator=sampler).split(16)):
            loss = torch.nn.functional.mse_loss(model(points[batch]), targets[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if epoch == 4 and number == 8:
                # In the middle of an epoch; the first time it waits there to be killed.
                while config["waits"] and not restored:
                    pathlib.Path(config["mark"]).touch()
                    time.sleep(0.05)
        with tempfile.TemporaryDirectory() as path:
            torch.save({{"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                        "sampler": sampler.get_state(), "random": random.get_rng_state(),
                        "epoch": epoch}}, os.path.join(path, "state.pt"))
            tune.report({{"loss": loss.item(), "weights": digest_of(model)}},
                        checkpoint=Checkpoint.from_directory(path))

wanted = {{"cpu": 1, "gpu": 1}} if sys.argv[3] == "cuda" else {{"cpu": 1}}
tune.Tuner(tune.with_resources(fit, wanted),
           param_space={{"waits": sys.argv[1] == "waits", "mark": sys.argv[2],
                         "device": sys.argv[3]}},
           tune_config=tune.TuneConfig(metric="loss", mode="min"),
           run_config=tune.RunConfig(name=sys.argv[1], verbose=0)).fit()
"""


class ResumeTest(unittest.TestCase):
    device = "cpu"

    def setUp(self) -> None:
        self.cluster = Cluster(workers=2, cpus=1)
        self.addCleanup(self.cluster.close)
        self.cluster.up()
        (self.cluster.work / "fit.py").write_text(TRAIN)
        self.mark = self.cluster.home / "mark"

    def start(self, name: str) -> subprocess.Popen:
        env = {**self.cluster.env, "RT_CLUSTER": "it", "PYTHONPATH": str(ROOT / "python")}
        return subprocess.Popen([str(PYTHON), "fit.py", name, str(self.mark), self.device], env=env,
                                cwd=self.cluster.work, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def end(self, driver: subprocess.Popen, name: str) -> list[tuple]:
        said, _ = driver.communicate(timeout=120)
        self.assertEqual(driver.returncode, 0, said + self.cluster.logs())
        experiment = next(one for one in self.cluster.json("exp", "list")["items"]
                          if one["name"] == name)
        self.assertEqual(experiment["state"], "COMPLETED", said)
        experiment = self.cluster.experiment(experiment["id"])
        rows = self.cluster.rows(experiment, self.cluster.trials(experiment["id"])[0])
        return [(row["training_iteration"], row["loss"], row["weights"]) for row in rows]

    def check_same_weights(self) -> None:
        undisturbed = self.end(self.start("undisturbed"), "undisturbed")
        driver = self.start("waits")
        self.addCleanup(driver.kill)
        wait_until("it is in the middle of an epoch", self.mark.exists, 90)
        trial = wait_until("the epochs before it are reported", lambda: next(
            (self.cluster.json("trial", "show", one["id"]) for one in self.cluster.trials(2)
             if one["reports"] == 4), None))
        wait_until("and their checkpoint is committed", lambda: any(
            one["step"] == 4
            for one in self.cluster.json("trial", "show", trial["id"])["checkpoints"]))
        node = trial["attempts"][0]["members"][0]["node_id"]
        name = next(one["name"] for one in self.cluster.json("node", "list")["items"]
                    if one["id"] == node)
        # Daemon, shims and programs of the node at once.
        for pid in processes_of(self.cluster.home / "home/clusters/it" / name):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        disturbed = self.end(driver, "waits")
        self.assertEqual([row[0] for row in disturbed], list(range(1, EPOCHS + 1)))
        self.assertEqual(disturbed, undisturbed)
        after = self.cluster.json("trial", "show", trial["id"])
        self.assertEqual([one["outcome"] for one in after["attempts"]], ["LOST", "SUCCEEDED"])
        self.assertEqual(after["failures"], 0)


@unittest.skipUnless(HAS_TORCH, "PyTorch is not there")
class TorchResumeTest(ResumeTest):
    def test_the_weights_are_the_same_to_the_last_bit(self) -> None:
        self.check_same_weights()


if __name__ == "__main__":
    unittest.main()
