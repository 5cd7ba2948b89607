"""What `elastic_lib` resizes: elastic_resize.py FILES. Trains until FILES/end exists."""

from __future__ import annotations

import os
import pathlib
import sys
import time

import rt.elastic.torch as adl
import torch
from rt.train import RunConfig, ScalingConfig
from rt.train.torch import TorchTrainer
from torch import nn


def loop(config: dict) -> None:
    files = pathlib.Path(config["files"])
    torch.manual_seed(0)
    inputs = torch.randn(512, 64)
    data = torch.utils.data.TensorDataset(inputs, (inputs.sum(1) > 0).long())
    loader = adl.AdaptiveDataLoader(data, batch_size=32, shuffle=True)
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    adl.init_process_group("gloo")
    wrapped = adl.AdaptiveDataParallel(model, optimizer)
    path = files / f"steps-{os.environ['RT_GENERATION']}-{os.environ.get('RANK', '0')}"
    with open(path, "w", buffering=1) as steps:
        for _ in adl.remaining_epochs_until(10**6):
            for batch, labels in loader:
                optimizer.zero_grad()
                nn.functional.cross_entropy(wrapped(batch), labels).backward()
                optimizer.step()
                steps.write(f"{time.monotonic()}\n")
            # One rank by then: it asks nobody.
            if (files / "end").exists():
                return


if __name__ == "__main__":
    TorchTrainer(loop, train_loop_config={"files": sys.argv[1]}, run_config=RunConfig(verbose=0),
                 scaling_config=ScalingConfig(num_workers=1)).fit()
