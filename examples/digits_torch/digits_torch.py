"""The search of examples/digits with a network in PyTorch, checkpointed every third epoch.

    python3 digits_torch.py [--samples 8] [--epochs 9] [--seed 1]

Needs torch and scikit-learn, whose 1 797 digits are the data. A trial whose process dies goes on
from its newest checkpoint.
"""

import argparse
import importlib.util
import os
import sys
import tempfile

from rt import tune
from rt.tune.schedulers import ASHAScheduler


def load_data():
    """(train images, train labels, test images, test labels) as tensors."""
    import torch
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    images, labels = load_digits(return_X_y=True)
    split = train_test_split(images / 16.0, labels, test_size=0.2, random_state=0)
    train_x, test_x = (torch.tensor(part, dtype=torch.float32) for part in split[:2])
    train_y, test_y = (torch.tensor(part, dtype=torch.long) for part in split[2:])
    return train_x, train_y, test_x, test_y


def train_digits(config):
    """Trains a two-layer network; reports its accuracy after every epoch."""
    import torch
    from torch import nn

    torch.set_num_threads(1)
    torch.manual_seed(0)
    train_x, train_y, test_x, test_y = load_data()
    width = config["width"]
    network = nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 10))
    optimizer = torch.optim.Adam(network.parameters(), lr=config["lr"])
    first = 1
    restored = tune.get_checkpoint()
    if restored:
        with restored.as_directory() as path:
            state = torch.load(os.path.join(path, "state.pt"))
        network.load_state_dict(state["network"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["epoch"] + 1
    for epoch in range(first, config["epochs"] + 1):
        for batch in torch.randperm(len(train_x)).split(config["batch"]):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(network(train_x[batch]), train_y[batch])
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            accuracy = (network(test_x).argmax(1) == test_y).float().mean()
        metrics = {"accuracy": accuracy, "loss": loss}
        if epoch % 3:
            tune.report(metrics)
            continue
        with tempfile.TemporaryDirectory() as path:
            state = {"network": network.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save({**state, "epoch": epoch}, os.path.join(path, "state.pt"))
            tune.report(metrics, checkpoint=tune.Checkpoint.from_directory(path))


def check_packages():
    """Ends the script, rather than each trial, where a package is missing."""
    wanted = {"torch": "torch", "sklearn": "scikit-learn"}
    missing = [wanted[name] for name in wanted if importlib.util.find_spec(name) is None]
    if missing:
        sys.exit(f"this example needs {' and '.join(missing)}: pip install {' '.join(missing)}")


def main():
    check_packages()
    parser = argparse.ArgumentParser(description="a hyperparameter search in PyTorch")
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--epochs", type=int, default=9)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    tuner = tune.Tuner(
        train_digits,
        param_space={
            "lr": tune.loguniform(1e-4, 1e-1),
            "width": tune.choice([16, 32, 64]),
            "batch": tune.choice([32, 64]),
            "epochs": args.epochs,
        },
        tune_config=tune.TuneConfig(
            metric="accuracy",
            mode="max",
            num_samples=args.samples,
            search_alg=tune.search.BasicVariantGenerator(random_state=args.seed),
            scheduler=ASHAScheduler(max_t=args.epochs, grace_period=1, reduction_factor=3),
        ),
        run_config=tune.RunConfig(checkpoint_config=tune.CheckpointConfig(num_to_keep=1)),
    )
    best = tuner.fit().get_best_result()
    print(f"best accuracy: {best.metrics['accuracy']:.4f}")
    print(f"best configuration: {best.config}")


main()
