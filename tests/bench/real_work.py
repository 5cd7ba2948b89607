"""Real trainings for real_training.py, as generators: each yields the accuracy after an epoch.

The data are those that come with scikit-learn. A training is deterministic and uses one thread.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

Config = dict[str, Any]


def mlp(config: Config) -> Iterator[float]:
    """A perceptron on 1437 digits; accuracy on the other 360. At most 27 epochs."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split
    from sklearn.neural_network import MLPClassifier

    warnings.filterwarnings("ignore")
    images, labels = load_digits(return_X_y=True)
    train_x, test_x, train_y, test_y = train_test_split(
        images / 16.0, labels, test_size=0.2, random_state=0)
    network = MLPClassifier(hidden_layer_sizes=(config["width"],), learning_rate_init=config["lr"],
                            batch_size=config["batch"], alpha=config["alpha"], random_state=0)
    for _ in range(27):
        network.partial_fit(train_x, train_y, classes=range(10))
        yield float(network.score(test_x, test_y))


def xgboost(config: Config) -> Iterator[float]:
    """Boosted trees on the 569 cases of breast cancer; accuracy of 5 folds. At most 81 rounds."""
    import numpy
    import xgboost
    from sklearn.datasets import load_breast_cancer
    from sklearn.model_selection import StratifiedKFold

    x, y = load_breast_cancer(return_X_y=True)
    params = {"objective": "binary:logistic", "nthread": 1, "seed": 0, **config}
    folds = []
    for train, test in StratifiedKFold(5, shuffle=True, random_state=0).split(x, y):
        data = xgboost.DMatrix(x[train], y[train], nthread=1)
        held = xgboost.DMatrix(x[test], nthread=1)
        folds.append((xgboost.Booster(params, [data]), data, held, y[test]))
    for round_number in range(81):
        right = 0
        for booster, data, held, labels in folds:
            booster.update(data, round_number)
            right += int(numpy.sum((booster.predict(held) > 0.5) == labels))
        yield right / len(y)


def torch(config: Config) -> Iterator[float]:
    """A small convolutional net on 1437 digits; accuracy on the other 360. At most 27 epochs."""
    import torch
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    torch.set_num_threads(1)
    torch.manual_seed(0)
    images, labels = load_digits(return_X_y=True)
    train_x, test_x, train_y, test_y = (torch.as_tensor(part) for part in train_test_split(
        images / 16.0, labels, test_size=0.2, random_state=0))
    train_x, test_x = (part.float().reshape(-1, 1, 8, 8) for part in (train_x, test_x))
    channels = config["channels"]
    net = torch.nn.Sequential(
        torch.nn.Conv2d(1, channels, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(channels, channels, 3, padding=1), torch.nn.ReLU(), torch.nn.Flatten(),
        torch.nn.Dropout(config["dropout"]), torch.nn.Linear(channels * 16, 10))
    optimizer = torch.optim.SGD(net.parameters(), lr=config["lr"], momentum=config["momentum"],
                                weight_decay=config["decay"])
    for _ in range(27):
        net.train()
        order = torch.randperm(len(train_x))
        for batch in order.split(config["batch"]):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(net(train_x[batch]), train_y[batch]).backward()
            optimizer.step()
        net.eval()
        with torch.no_grad():  # Not around the yield: it is the thread's, not the generator's.
            accuracy = float((net(test_x).argmax(1) == test_y).float().mean())
        yield accuracy


TRAININGS: dict[str, Callable[[Config], Iterator[float]]] = {
    "mlp": mlp, "xgboost": xgboost, "torch": torch}
EPOCHS = {"mlp": 27, "xgboost": 81, "torch": 27}

# (name, kind, low, high): "log", "real", "log int", "int"; or (name, "choice", values, None).
SPACES: dict[str, list[tuple[str, str, Any, Any]]] = {
    "mlp": [("width", "log int", 4, 256), ("lr", "log", 1e-5, 1.0),
            ("batch", "choice", [16, 32, 64, 128, 256], None), ("alpha", "log", 1e-6, 10.0)],
    "xgboost": [("eta", "log", 1e-3, 1.0), ("max_depth", "int", 1, 10),
                ("min_child_weight", "log", 0.1, 100.0), ("subsample", "real", 0.2, 1.0),
                ("colsample_bytree", "real", 0.2, 1.0), ("lambda", "log", 1e-3, 1e3)],
    "torch": [("channels", "log int", 2, 32), ("lr", "log", 1e-5, 1.0),
              ("batch", "choice", [16, 32, 64, 128, 256], None), ("momentum", "real", 0.0, 0.99),
              ("decay", "log", 1e-6, 1.0), ("dropout", "real", 0.0, 0.9)],
}


def suggested(trial: Any, task: str) -> Config:
    """The configuration that Optuna suggests for its trial."""
    config: Config = {}
    for name, kind, low, high in SPACES[task]:
        if kind == "choice":
            config[name] = trial.suggest_categorical(name, low)
        elif "int" in kind:
            config[name] = trial.suggest_int(name, low, high, log=kind == "log int")
        else:
            config[name] = trial.suggest_float(name, low, high, log=kind == "log")
    return config
