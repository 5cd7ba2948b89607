"""Trains on handwritten digits that are read from Parquet, and resumes inside an epoch.

    python3 examples/data/digits_data.py [--epochs 20] [--batch 64]

Needs scikit-learn and `pip install 'rt[data]'`. The training is a softmax regression in NumPy.
It is stopped in the middle of an epoch and resumed, as another process would resume it.
"""

import argparse
import json
import os
import tempfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rt import data
from sklearn.datasets import load_digits


def write_files(folder):
    images, labels = load_digits(return_X_y=True)
    for number, rows in enumerate(np.array_split(np.arange(len(labels)), 4)):
        table = pa.table({"image": list(images[rows]), "label": labels[rows]})
        pq.write_table(table, f"{folder}/{number}.parquet", row_group_size=100)


def scaled(batch):
    return {"x": np.stack(batch["image"]) / 16, "label": batch["label"]}


def train(shard, folder, epochs, batch_size, stop_at=None):
    """Softmax regression; saves its weights and its position after every batch."""
    weights, epoch, taken = np.zeros((64, 10)), 0, 0
    if os.path.exists(f"{folder}/state.json"):
        weights = np.load(f"{folder}/weights.npy")
        with open(f"{folder}/state.json") as file:
            epoch, taken = json.load(file)
        shard.resume(data.read_positions(folder)["train"])
    batches = shard.iter_batches(batch_size=batch_size)
    while epoch < epochs:
        for batch in batches:
            scores = batch["x"] @ weights
            odds = np.exp(scores - scores.max(axis=1, keepdims=True))
            odds /= odds.sum(axis=1, keepdims=True)
            odds[np.arange(len(odds)), batch["label"]] -= 1
            weights -= 0.5 * batch["x"].T @ odds / len(odds)
            taken += len(odds)
            if stop_at is not None and taken >= stop_at:
                np.save(f"{folder}/weights.npy", weights)
                with open(f"{folder}/state.json", "w") as file:
                    json.dump([epoch, taken], file)
                data.write_positions(folder, 0, {"train": shard})
                return weights, taken
        epoch += 1
    return weights, taken


parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=20)
parser.add_argument("--batch", type=int, default=64)
args = parser.parse_args()
with tempfile.TemporaryDirectory() as folder:
    os.mkdir(f"{folder}/files")
    write_files(f"{folder}/files")
    digits = data.read_parquet(f"{folder}/files").map_batches(scaled)
    training, test = digits.train_test_split(0.2, shuffle=True, seed=0)
    training = training.random_shuffle(seed=1)
    whole, _ = train(data.shard(training, 0, 1), folder, args.epochs, args.batch)
    train(data.shard(training, 0, 1), folder, args.epochs, args.batch, stop_at=2000)
    resumed, taken = train(data.shard(training, 0, 1), folder, args.epochs, args.batch)
    batch = test.take_batch(test.count())
    print(f"accuracy: {(np.argmax(batch['x'] @ resumed, axis=1) == batch['label']).mean():.3f}")
    print(f"rows taken: {taken} of {training.count() * args.epochs}")
    print(f"the same weights as without the stop: {bool((whole == resumed).all())}")
