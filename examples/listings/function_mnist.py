"""The function listing of the older documentation; only its import lines differ. Needs torch."""

import torch.optim as optim

from rt import tune
from rt.tune.examples.mnist_pytorch import ConvNet, get_data_loaders, test, train


def train_mnist(config):
    train_loader, test_loader = get_data_loaders()
    model = ConvNet()
    optimizer = optim.SGD(model.parameters(), lr=config["lr"], momentum=config["momentum"])
    for i in range(10):
        train(model, optimizer, train_loader)
        acc = test(model, test_loader)
        tune.report(mean_accuracy=acc)


analysis = tune.run(
    train_mnist,
    config={
        "lr": tune.loguniform(1e-3, 1e-1),
        "momentum": tune.uniform(0.1, 0.9),
    },
    num_samples=4,
)
print("Best config is:", analysis.get_best_config(metric="mean_accuracy"))
