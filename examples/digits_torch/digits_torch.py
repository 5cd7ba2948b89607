"""The search of examples/digits with a network in PyTorch, checkpointed after each epoch.

    python3 digits_torch.py [--samples 8] [--epochs 9] [--seed 1]
    python3 digits_torch.py --scheduler asha_promotion   # pauses bad trials, promotes the best
    python3 digits_torch.py --scheduler pbt              # bad trials take weights of good ones
    python3 digits_torch.py --scheduler pb2              # the same; a model chooses the rates

Needs torch and scikit-learn, whose 1 797 digits are the data. A trial whose process dies resumes
from its newest checkpoint. At the end the script prints what was found, and how many epochs the
scheduler saved.
"""

import argparse
import importlib.util
import os
import sys
import tempfile

from rt import tune
from rt.tune.schedulers import PB2, ASHAScheduler, PopulationBasedTraining


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
    """Trains a two-layer network; reports its accuracy and saves it after every epoch."""
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
        for group in optimizer.param_groups:  # A clone has another rate than its parent.
            group["lr"] = config["lr"]
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


def scheduler_of(name, epochs):
    """The scheduler of that name, for trials of so many epochs."""
    if name == "asha":
        return ASHAScheduler(max_t=epochs, grace_period=1, reduction_factor=3)
    if name == "asha_promotion":
        return tune.create_scheduler(name, max_t=epochs, grace_period=1, reduction_factor=3)
    interval = {"time_attr": "training_iteration", "perturbation_interval": 2}
    if name == "pbt":
        return PopulationBasedTraining(
            **interval, hyperparam_mutations={"lr": tune.loguniform(1e-4, 1e-1)}
        )
    return PB2(**interval, hyperparam_bounds={"lr": [1e-4, 1e-1]})


def main():
    check_packages()
    parser = argparse.ArgumentParser(description="a hyperparameter search in PyTorch")
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--epochs", type=int, default=9)
    parser.add_argument("--seed", type=int, default=1)
    names = ["asha", "asha_promotion", "pbt", "pb2"]
    parser.add_argument("--scheduler", choices=names, default="asha")
    args = parser.parse_args()
    tuner = tune.Tuner(
        train_digits,
        param_space={
            "lr": tune.loguniform(1e-4, 1e-1),
            # A clone takes the weights of its parent, so that all networks have one shape there.
            "width": tune.choice([16, 32, 64]) if args.scheduler.startswith("asha") else 32,
            "batch": tune.choice([32, 64]),
            "epochs": args.epochs,
        },
        tune_config=tune.TuneConfig(
            metric="accuracy",
            mode="max",
            num_samples=args.samples,
            search_alg=tune.search.BasicVariantGenerator(random_state=args.seed),
            scheduler=scheduler_of(args.scheduler, args.epochs),
        ),
        run_config=tune.RunConfig(checkpoint_config=tune.CheckpointConfig(num_to_keep=2)),
    )
    results = tuner.fit()
    best = results.get_best_result()
    trained = sum(len(result.metrics_dataframe) for result in results)
    full = args.samples * args.epochs
    print(f"trained {trained} of {full} epochs: {1 - trained / full:.0%} saved by {args.scheduler}")
    print(f"best accuracy: {best.metrics['accuracy']:.4f}")
    print(f"best configuration: {best.config}")


main()
