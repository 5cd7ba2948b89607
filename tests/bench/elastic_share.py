"""The share of a training step that rt.elastic spends on the noise scale and on profiling.

Alternating pairs of blocks of steps, with the measurements and without, of a network with more than
a million parameters whose step takes more than 20 ms. Prints one line for each optimiser and number
of micro-batches: name, share, seconds of a step. Processor time, so that others do not count.
"""

from __future__ import annotations

import statistics
import sys
import time

import rt.elastic.torch as adl
import torch
from rt.elastic.torch import _job
from torch import nn

BLOCK = 16  # Steps: one or two periods of the measurement.
WIDTH = 720


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(),
                         nn.Linear(WIDTH, 10))


def share(kind: str, micro: int, pairs: int) -> tuple[float, float]:
    """(share, seconds of a step without measurements)."""
    _job.reset()
    draw = torch.Generator().manual_seed(1)
    count, batch = 4096, 320
    data = torch.utils.data.TensorDataset(torch.randn(count, WIDTH, generator=draw),
                                          torch.randint(0, 10, (count,), generator=draw))
    loader = adl.AdaptiveDataLoader(data, batch_size=batch)
    loader.autoscale_batch_size(batch, gradient_accumulation=True)
    model = network()
    make = {"sgd": torch.optim.SGD, "adam": torch.optim.AdamW}[kind]
    optimizer = make(model.parameters(), lr=1e-3)
    adl.init_process_group("gloo")
    wrapped = adl.AdaptiveDataParallel(model, optimizer)
    loader._state.plan = _job.Plan(batch, micro - 1)
    gns, job = wrapped.gns, _job.current()
    begin, note = gns.begin, job.note_times

    def off(_alone: bool) -> None:
        gns.measures = gns._keeps = False

    took: list[list[float]] = [[], []]
    number, began = 0, 0.0
    while True:
        for inputs, labels in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(wrapped(inputs), labels).backward()
            optimizer.step()
            step = job.step
            assert step is not None
            if not step.is_last:
                continue
            number += 1
            if number % BLOCK:
                continue
            now = time.process_time()
            block = number // BLOCK
            if block > 4:  # The first 32 steps are all measured.
                took[(block - 1) % 2].append(now - began)
            if block >= 4 + 2 * pairs:
                ratios = [on / without - 1 for without, on in zip(took[1], took[0])]
                return statistics.median(ratios), statistics.median(took[1]) / BLOCK
            is_off = block % 2 == 1
            gns.begin = off if is_off else begin  # type: ignore[method-assign]
            job.note_times = (lambda *_: None) if is_off else note  # type: ignore[method-assign]
            began = time.process_time()


if __name__ == "__main__":
    torch.set_num_threads(1)
    for kind in ("sgd", "adam"):
        for micro in (1, 2, 4):
            found, step_s = share(kind, micro, int(sys.argv[1]) if sys.argv[1:] else 20)
            print(f"{kind}_{micro} {found:.5f} {step_s:.5f}", flush=True)
