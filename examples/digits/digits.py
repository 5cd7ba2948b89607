"""Searches the hyperparameters of a small neural network that reads handwritten digits.

    python3 digits.py                          # 16 random configurations, early stopping by ASHA
    python3 digits.py --method grid            # every point of a small grid
    python3 digits.py --method random --api class

The data are the 1 797 digits of the UCI repository that scikit-learn ships. The network is trained
epoch by epoch and reports its accuracy on a fifth of the data after each. Needs scikit-learn.
"""

import argparse
import pickle
import warnings

from rt import tune
from rt.tune.schedulers import ASHAScheduler, FIFOScheduler


def load_data():
    """(train images, test images, train labels, test labels), pixels from 0 to 1."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    images, labels = load_digits(return_X_y=True)
    return train_test_split(images / 16.0, labels, test_size=0.2, random_state=0)


def make_network(config):
    """An untrained network with the configuration's width, rate, batch and weight decay."""
    from sklearn.neural_network import MLPClassifier

    return MLPClassifier(
        hidden_layer_sizes=(config["width"],),
        learning_rate_init=config["lr"],
        batch_size=config["batch"],
        alpha=config["alpha"],
        random_state=config.get("seed", 0),
    )


def train_digits(config):
    """The function API: trains and reports."""
    warnings.filterwarnings("ignore")
    train_x, test_x, train_y, test_y = load_data()
    network = make_network(config)
    for _ in range(config["epochs"]):
        network.partial_fit(train_x, train_y, classes=range(10))
        tune.report({"accuracy": network.score(test_x, test_y), "loss": network.loss_})


class TrainDigits(tune.Trainable):
    """The class API: one step is one epoch."""

    def setup(self, config):
        warnings.filterwarnings("ignore")
        self.train_x, self.test_x, self.train_y, self.test_y = load_data()
        self.network = make_network(config)

    def step(self):
        self.network.partial_fit(self.train_x, self.train_y, classes=range(10))
        accuracy = self.network.score(self.test_x, self.test_y)
        return {"accuracy": accuracy, "loss": self.network.loss_}

    def save_checkpoint(self, checkpoint_dir):
        return {"network": pickle.dumps(self.network)}

    def load_checkpoint(self, checkpoint):
        self.network = pickle.loads(checkpoint["network"])


def search_space(method, epochs):
    """The configurations that a method searches."""
    if method == "grid":
        return {
            "lr": tune.grid_search([0.0003, 0.001, 0.01]),
            "width": tune.grid_search([16, 64]),
            "batch": 32,
            "alpha": 0.0001,
            "epochs": epochs,
        }
    return {
        "lr": tune.loguniform(1e-4, 1e-1),
        "width": tune.qrandint(8, 128, 8),
        "batch": tune.choice([16, 32, 64, 128]),
        "alpha": tune.loguniform(1e-6, 1e-2),
        "epochs": epochs,
    }


def main():
    parser = argparse.ArgumentParser(description="a hyperparameter search on real digits")
    parser.add_argument("--method", choices=["asha", "random", "grid"], default="asha")
    parser.add_argument("--api", choices=["function", "class"], default="function")
    parser.add_argument("--samples", type=int, default=None, help="16, or 1 pass over the grid")
    parser.add_argument("--epochs", type=int, default=27)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()

    scheduler = FIFOScheduler()
    if args.method == "asha":
        scheduler = ASHAScheduler(max_t=args.epochs, grace_period=3, reduction_factor=3)
    by_class = args.api == "class"
    checkpoints = tune.CheckpointConfig(num_to_keep=1, checkpoint_frequency=9) if by_class else None
    tuner = tune.Tuner(
        TrainDigits if by_class else train_digits,
        param_space=search_space(args.method, args.epochs),
        tune_config=tune.TuneConfig(
            metric="accuracy",
            mode="max",
            num_samples=args.samples or (1 if args.method == "grid" else 16),
            scheduler=scheduler,
            search_alg=tune.search.BasicVariantGenerator(random_state=args.seed),
        ),
        run_config=tune.RunConfig(
            stop={"training_iteration": args.epochs}, checkpoint_config=checkpoints
        ),
    )
    results = tuner.fit()
    best = results.get_best_result()
    print(f"trials: {len(results)}, failed: {results.num_errors}")
    print(f"best accuracy: {best.metrics['accuracy']:.4f}")
    print(f"best configuration: {best.config}")


main()
