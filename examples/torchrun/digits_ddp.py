"""Trains a classifier of handwritten digits on several processes, as a script for torchrun.

torchrun --standalone --nproc-per-node 2 digits_ddp.py    with PyTorch alone
rt submit --nproc-per-node 2 digits_ddp.py                on the current cluster
rt submit --nproc-per-node 2 --max-restarts 3 digits_ddp.py -- --epochs 40

Under rt, train.report records the metrics and the checkpoint of each epoch, and ranks that start
again continue from the newest checkpoint. Under torchrun it does nothing.
"""

import argparse
import os
import tempfile
import warnings

import torch
import torch.distributed as dist
from rt import train
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--lr", type=float, default=0.1)
    options = parser.parse_args()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    digits = load_digits()
    inputs = torch.tensor(digits.data, dtype=torch.float32) / 16
    data = TensorDataset(inputs, torch.tensor(digits.target))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=50, sampler=sampler)
    model = DistributedDataParallel(
        nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=options.lr, momentum=0.9)
    first = 0
    restored = train.get_checkpoint()
    if restored is not None:
        saved = torch.load(os.path.join(restored.path, "state.pt"))
        model.module.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        first = saved["epoch"] + 1
    for epoch in range(first, options.epochs):
        sampler.set_epoch(epoch)
        for batch, labels in loader:
            loss = nn.functional.cross_entropy(model(batch), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        save(model, optimizer, epoch, loss.item())
    if rank == 0:
        correct = model(inputs).argmax(1) == data.tensors[1]
        print(f"accuracy {correct.float().mean().item():.4f}, last loss {loss.item():.9f}")
    dist.destroy_process_group()


def save(
    model: DistributedDataParallel, optimizer: torch.optim.Optimizer, epoch: int, loss: float
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        checkpoint = None
        if dist.get_rank() == 0:
            state = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save({**state, "epoch": epoch}, os.path.join(directory, "state.pt"))
            checkpoint = train.Checkpoint.from_directory(directory)
        train.report({"loss": loss, "epoch": epoch}, checkpoint=checkpoint)


if __name__ == "__main__":
    if "RT_TRIAL_ID" not in os.environ:  # Under torchrun there is nobody to report to.
        warnings.filterwarnings("ignore", message="report.. does nothing outside a trial")
    main()
