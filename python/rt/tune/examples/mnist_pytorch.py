"""The network and the data of the PyTorch listings: MNIST, or else the digits of scikit-learn.

Importing this needs torch. The data: MNIST through torchvision where both are there (or can be
downloaded), else the 1 797 digits that scikit-learn ships, enlarged to 28 x 28 pixels.
"""

from __future__ import annotations

import os
from typing import Any, Optional

import torch
import torch.nn.functional as F
from torch import nn

EPOCH_SIZE = 512  # Images trained on per epoch, as in the listings.
TEST_SIZE = 256


class ConvNet(nn.Module):
    """One convolution and one linear layer. Input (n, 1, 28, 28), output (n, 10) log-odds."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 3, kernel_size=3)
        self.fc = nn.Linear(192, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Log-probabilities of the ten digits."""
        x = F.relu(F.max_pool2d(self.conv1(x), 3))
        return F.log_softmax(self.fc(x.reshape(-1, 192)), dim=1)


def train(model: Any, optimizer: Any, train_loader: Any, device: Any = None) -> None:
    """Trains one epoch of at most EPOCH_SIZE images, in place."""
    device = device or torch.device("cpu")
    model.train()
    for batch, (data, target) in enumerate(train_loader):
        if batch * len(data) > EPOCH_SIZE:
            return
        data, target = data.to(device), target.to(device)
        optimizer.zero_grad()
        loss = F.nll_loss(model(data), target)
        loss.backward()
        optimizer.step()


def test(model: Any, data_loader: Any, device: Any = None) -> float:
    """The accuracy, from 0 to 1, on at most TEST_SIZE images."""
    device = device or torch.device("cpu")
    model.eval()
    correct = total = 0
    with torch.no_grad():
        for batch, (data, target) in enumerate(data_loader):
            if batch * len(data) > TEST_SIZE:
                break
            predicted = model(data.to(device)).argmax(dim=1)
            total += target.size(0)
            correct += int((predicted == target.to(device)).sum().item())
    return correct / max(1, total)


def get_data_loaders(batch_size: int = 64) -> tuple[Any, Any]:
    """(training, test) loaders of images (batch, 1, 28, 28) and labels (batch,)."""
    sets = _mnist() or _digits()
    return (
        torch.utils.data.DataLoader(sets[0], batch_size=batch_size, shuffle=True),
        torch.utils.data.DataLoader(sets[1], batch_size=batch_size, shuffle=True),
    )


def _mnist() -> Optional[tuple[Any, Any]]:
    try:
        from torchvision import datasets, transforms
    except ImportError:
        print("rt: torchvision is not installed: using the digits of scikit-learn", flush=True)
        return None
    steps = [transforms.ToTensor(), transforms.Normalize((0.1307,), (0.3081,))]
    transform = transforms.Compose(steps)
    root = os.path.expanduser("~/data")
    try:
        pair = [datasets.MNIST(root, train=t, download=True, transform=transform) for t in (1, 0)]
    except Exception as error:
        print(f"rt: MNIST is not at hand ({type(error).__name__}): using digits", flush=True)
        return None
    return pair[0], pair[1]


def _digits() -> tuple[Any, Any]:
    import numpy as np
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    small = images.reshape(-1, 8, 8) / 16.0
    large = np.zeros((len(small), 1, 28, 28), dtype=np.float32)
    large[:, 0, 2:26, 2:26] = np.kron(small, np.ones((3, 3)))
    order = np.random.default_rng(0).permutation(len(large))
    x = torch.from_numpy((large[order] - 0.1307) / 0.3081).float()
    y = torch.from_numpy(labels[order]).long()
    cut = len(x) * 4 // 5
    dataset = torch.utils.data.TensorDataset
    return dataset(x[:cut], y[:cut]), dataset(x[cut:], y[cut:])
