"""The parts of an introduction to Ray Train, put together: a training function that is given its
configuration, both ways to load data, a prepared model, reports with checkpoints, and a search.
Only the import of ray differs.
"""

import os
import tempfile

import rt as ray
import torch
from rt import train, tune
from rt.train import ScalingConfig
from rt.train.torch import TorchTrainer
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

train_dataset = ray.data.from_items([{"x": [x / 200], "y": [2 * x / 200]} for x in range(200)])


def load_dataset():
    x = torch.arange(200, dtype=torch.float32).reshape(-1, 1) / 200
    return TensorDataset(x, 2 * x)


def save_and_report(model, metrics):
    with tempfile.TemporaryDirectory() as temp_checkpoint_dir:
        torch.save(model.state_dict(), os.path.join(temp_checkpoint_dir, "model.pt"))
        checkpoint = ray.train.Checkpoint.from_directory(temp_checkpoint_dir)
        ray.train.report(metrics=metrics, checkpoint=checkpoint)


def train_func(config):
    """Data from a loader of PyTorch."""
    model = ray.train.torch.prepare_model(nn.Linear(1, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=config["lr"])
    data_loader = DataLoader(load_dataset(), batch_size=20, shuffle=True)
    data_loader = ray.train.torch.prepare_data_loader(data_loader)
    for epoch in range(config["num_epochs"]):
        if ray.train.get_context().get_world_size() > 1:
            data_loader.sampler.set_epoch(epoch)
        for X, y in data_loader:
            loss = nn.functional.mse_loss(model(X), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        save_and_report(model, {"loss": loss.item()})


def train_func_on_data_sets():
    """Data from a data set of the trainer; no configuration."""
    model = ray.train.torch.prepare_model(nn.Linear(1, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train_data_shard = train.get_dataset_shard("train")
    train_dataloader = train_data_shard.iter_torch_batches(batch_size=20, dtypes=torch.float32)
    for _epoch in range(3):
        rows = 0
        for batch in train_dataloader:
            inputs, labels = batch["x"], batch["y"]
            loss = nn.functional.mse_loss(model(inputs), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            rows += len(inputs)
        save_and_report(model, {"loss": loss.item(), "rows": rows})


def objective(config):
    return {"acc": 1 - abs(config["lr"] - 0.01) + config["n_layers"] / 1000}


if __name__ == "__main__":
    scaling_config = ScalingConfig(num_workers=2)
    with tempfile.TemporaryDirectory() as storage:
        run_config = ray.train.RunConfig(storage_path=storage, name="unique_run_name")
        trainer = TorchTrainer(
            train_func,
            train_loop_config={"lr": 0.1, "num_epochs": 10},
            scaling_config=scaling_config,
            run_config=run_config,
        )
        result = trainer.fit()
        print("loss", result.metrics["loss"], sorted(os.listdir(result.checkpoint.path)))
        print("name", os.path.relpath(result.path, storage).split(os.sep)[0])
    trainer = TorchTrainer(
        train_func_on_data_sets, datasets={"train": train_dataset}, scaling_config=scaling_config
    )
    print("rows", trainer.fit().metrics["rows"])

    search_space = {
        "lr": tune.grid_search([0.001, 0.01, 0.1]),
        "n_layers": tune.choice([1, 2, 3]),
    }
    tuner = tune.Tuner(objective, param_space=search_space)
    results = tuner.fit()
    print("best", results.get_best_result(metric="acc", mode="max").config)
