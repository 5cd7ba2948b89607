"""Population based training of a small network that reads handwritten digits.

    python3 digits_pbt.py                      # 4 trials of 24 epochs, compared every 3 epochs

Each trial trains with its own learning rate and weight decay. A trial that is among the worst takes
the weights of one of the best, and a mutation of its rates. At the end the script prints the best
accuracy, and who was cloned from whom. The data are the 1 797 digits of the UCI repository that
scikit-learn ships. The network is a hidden layer in numpy. Needs scikit-learn.
"""

import argparse
import os
import pickle
import tempfile

import numpy as np
from rt import tune
from rt.tune.schedulers import PopulationBasedTraining

HIDDEN = 32
BATCH = 32


def load_data():
    """(train images, test images, train labels, test labels), pixels from 0 to 1."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    images, labels = load_digits(return_X_y=True)
    return train_test_split(images / 16.0, labels, test_size=0.2, random_state=0)


def new_network(seed):
    """The weights of both layers; the last row of each is the bias."""
    rng = np.random.default_rng(seed)
    return [rng.normal(0, 0.1, (65, HIDDEN)), rng.normal(0, 0.1, (HIDDEN + 1, 10))]


def forward(network, images):
    """(hidden activations with bias, probabilities of the digits)."""
    ones = np.ones((len(images), 1))
    inputs = np.hstack([images, ones])
    hidden = np.hstack([np.maximum(inputs @ network[0], 0), ones])
    scores = hidden @ network[1]
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return inputs, hidden, powers / powers.sum(axis=1, keepdims=True)


def train_epoch(network, images, labels, lr, decay, rng):
    """One pass over the images in random batches, by gradient descent."""
    order = rng.permutation(len(images))
    for start in range(0, len(order), BATCH):
        rows = order[start : start + BATCH]
        inputs, hidden, errors = forward(network, images[rows])
        errors[np.arange(len(rows)), labels[rows]] -= 1
        errors /= len(rows)
        back = (errors @ network[1][:-1].T) * (hidden[:, :-1] > 0)
        network[1] -= lr * (hidden.T @ errors + decay * network[1])
        network[0] -= lr * (inputs.T @ back + decay * network[0])


def train_digits(config):
    """Trains from the checkpoint that the trial was given, and saves after each epoch."""
    train_x, test_x, train_y, test_y = load_data()
    network, epoch = new_network(config["seed"]), 0
    checkpoint = tune.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder:
            with open(os.path.join(folder, "network.pkl"), "rb") as file:
                network, epoch = pickle.load(file)
    rng = np.random.default_rng(epoch)
    while epoch < config["epochs"]:
        train_epoch(network, train_x, train_y, config["lr"], config["decay"], rng)
        epoch += 1
        accuracy = float((forward(network, test_x)[2].argmax(axis=1) == test_y).mean())
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "network.pkl"), "wb") as file:
                pickle.dump((network, epoch), file)
            saved = tune.Checkpoint.from_directory(folder)
            tune.report({"accuracy": accuracy, "lr": config["lr"]}, checkpoint=saved)


def main():
    parser = argparse.ArgumentParser(description="population based training on real digits")
    parser.add_argument("--population", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=24)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    scheduler = PopulationBasedTraining(
        time_attr="training_iteration",
        perturbation_interval=3,
        hyperparam_mutations={
            "lr": tune.loguniform(1e-3, 1.0),
            "decay": [0.0, 1e-4, 1e-3, 1e-2],
        },
    )
    tuner = tune.Tuner(
        tune.with_resources(train_digits, {"cpu": 0.25}),
        param_space={"epochs": args.epochs, "seed": args.seed},
        tune_config=tune.TuneConfig(
            metric="accuracy",
            mode="max",
            num_samples=args.population,
            scheduler=scheduler,
            search_alg=tune.search.BasicVariantGenerator(random_state=args.seed),
        ),
        run_config=tune.RunConfig(checkpoint_config=tune.CheckpointConfig(num_to_keep=2)),
    )
    results = tuner.fit()
    best = results.get_best_result()
    trained = sum(len(result.metrics_dataframe) for result in results)
    print(f"trials: {len(results)}, failed: {results.num_errors}")
    rates = [sorted(set(result.metrics_dataframe["lr"])) for result in results]
    changes = sum(len(each) - 1 for each in rates)
    print(f"configurations taken from better trials: {changes}")
    print(f"best accuracy: {best.metrics['accuracy']:.3f} with config {best.config}")
    print(f"trained {trained} epochs; no trial was stopped early")


if __name__ == "__main__":
    main()
