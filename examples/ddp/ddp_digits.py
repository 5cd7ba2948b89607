"""Trains a classifier of handwritten digits on two processes, with PyTorch.

python ddp_digits.py       on this machine
rt submit ddp_digits.py    on the current cluster
"""

import os
import tempfile

import torch
from rt import train
from rt.train import Checkpoint, CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
from rt.train.torch import TorchTrainer, prepare_data_loader, prepare_model
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def load() -> tuple[TensorDataset, TensorDataset]:
    digits = load_digits()
    inputs = torch.tensor(digits.data, dtype=torch.float32) / 16
    labels = torch.tensor(digits.target)
    return TensorDataset(inputs[:1500], labels[:1500]), TensorDataset(inputs[1500:], labels[1500:])


def train_func(config: dict) -> None:
    torch.manual_seed(0)
    training, test = load()
    model = prepare_model(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)))
    optimizer = torch.optim.Adam(model.parameters(), lr=config["lr"])
    loader = prepare_data_loader(DataLoader(training, batch_size=50, shuffle=True))
    first = 0
    checkpoint = train.get_checkpoint()
    if checkpoint is not None:  # A process or a machine died: all go on from here.
        saved = torch.load(os.path.join(checkpoint.path, "state.pt"))
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        first = saved["epoch"] + 1
    for epoch in range(first, config["epochs"]):
        if train.get_context().get_world_size() > 1:
            loader.sampler.set_epoch(epoch)
        for inputs, labels in loader:
            loss = nn.functional.cross_entropy(model(inputs), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            inputs, labels = test.tensors
            accuracy = (model(inputs).argmax(1) == labels).float().mean().item()
        with tempfile.TemporaryDirectory() as directory:
            checkpoint = None
            if train.get_context().get_world_rank() == 0:
                state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
                torch.save({**state, "epoch": epoch}, os.path.join(directory, "state.pt"))
                checkpoint = Checkpoint.from_directory(directory)
            train.report({"loss": loss.item(), "accuracy": accuracy}, checkpoint=checkpoint)


if __name__ == "__main__":
    trainer = TorchTrainer(
        train_func,
        train_loop_config={"lr": 3e-3, "epochs": 20},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(
            checkpoint_config=CheckpointConfig(num_to_keep=1),
            failure_config=FailureConfig(max_failures=3),
        ),
    )
    result = trainer.fit()
    print(f"accuracy {result.metrics['accuracy']:.4f}, checkpoint {result.checkpoint.path}")
