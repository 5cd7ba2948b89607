"""Trains a classifier of handwritten digits whose batch size follows the processes it has.

python digits_elastic.py                                           one process
torchrun --standalone --nproc-per-node 4 digits_elastic.py         four processes
rt submit --nproc-per-node 4 digits_elastic.py                     four ranks on the current cluster

The script is a plain loop of PyTorch, and the lines that end in "rt.elastic" make it elastic. Their
names are those of AdaptDL: a script written for it needs only its import changed.
"""

import argparse

import rt.elastic as adaptdl  # rt.elastic
import rt.elastic.torch as adl  # rt.elastic
import torch
from torch import nn
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import TensorDataset


def digits() -> tuple[TensorDataset, TensorDataset]:
    from sklearn.datasets import load_digits

    data = load_digits()
    inputs = torch.tensor(data.images, dtype=torch.float32)[:, None] / 16
    labels = torch.tensor(data.target)
    return TensorDataset(inputs[:1500], labels[:1500]), TensorDataset(inputs[1500:], labels[1500:])


def generated() -> tuple[TensorDataset, TensorDataset]:
    """Ten blurred patterns of 8 x 8, for where scikit-learn is not."""
    draw = torch.Generator().manual_seed(7)
    labels = torch.randint(0, 10, (4000,), generator=draw)
    patterns = torch.rand(10, 1, 8, 8, generator=draw)
    inputs = patterns[labels] + 0.4 * torch.randn(4000, 1, 8, 8, generator=draw)
    return TensorDataset(inputs[:3000], labels[:3000]), TensorDataset(inputs[3000:], labels[3000:])


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Flatten())
        self.classes = nn.Sequential(nn.Linear(16 * 36, 64), nn.ReLU(), nn.Linear(64, 10))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.classes(self.features(images))


def train(model, loader, optimizer) -> None:
    model.train()
    for images, labels in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()


def test(model, loader) -> tuple[float, float]:
    model.eval()
    stats = adl.Accumulator()  # rt.elastic
    with torch.no_grad():
        for images, labels in loader:
            output = model(images)
            stats["loss"] += nn.functional.cross_entropy(output, labels, reduction="sum")
            stats["right"] += (output.argmax(1) == labels).sum()
    with stats.synchronized():  # rt.elastic
        count = len(loader.dataset)
        return stats["loss"] / count, stats["right"] / count


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=14)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--max-batch-size", type=int, default=512)
    parser.add_argument("--accumulate", action="store_true", help="add up several micro-batches")
    parser.add_argument("--lr", type=float, default=0.02)
    parser.add_argument("--data", choices=["digits", "generated"], default="digits")
    parser.add_argument("--seed", type=int, default=1, help="of the first weights and the order")
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    training, tests = digits() if options.data == "digits" else generated()

    loader = adl.AdaptiveDataLoader(  # rt.elastic
        training, batch_size=options.batch_size, shuffle=True, drop_last=True
    )
    loader.autoscale_batch_size(  # rt.elastic
        options.max_batch_size, local_bsz_bounds=(8, 128), gradient_accumulation=options.accumulate
    )
    test_loader = adl.AdaptiveDataLoader(tests, batch_size=256)  # rt.elastic

    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=options.lr, momentum=0.9)
    scheduler = StepLR(optimizer, step_size=4, gamma=0.7)
    adl.init_process_group("gloo")  # rt.elastic
    model = adl.AdaptiveDataParallel(model, optimizer, scheduler)  # rt.elastic

    for epoch in adl.remaining_epochs_until(options.epochs):  # rt.elastic
        train(model, loader, optimizer)
        loss, accuracy = test(model, test_loader)
        scheduler.step()
        adl.report(loss=loss, accuracy=accuracy)  # rt.elastic: with the epoch's row
        if adaptdl.env.replica_rank() == 0:
            state = adl.metrics()
            print(
                f"epoch {epoch}: loss {loss:.4f}, accuracy {accuracy:.4f}, "
                f"batch {state['global_batch_size']} = {state['ranks']} ranks x "
                f"{state['accumulation_steps'] + 1} x {state['local_batch_size']}, "
                f"gain {state['gain']:.2f}, goodput {state['goodput']:.0f}/s",
                flush=True,
            )


if __name__ == "__main__":
    main()
