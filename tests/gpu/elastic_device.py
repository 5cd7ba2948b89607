"""Checks rt.elastic on a gpu. It needs PyTorch with CUDA and one device; nothing else of rt.

PYTHONPATH=python python3 tests/gpu/elastic_device.py

Prints one line per check, with its figure, and exits with 1 if one fails. Takes about a minute.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from typing import Any, Callable

import torch
from torch import nn

import rt.elastic.torch as adl
from rt.elastic import checkpoint, env
from rt.elastic.torch import _job

WIDTH = 4096


def fresh() -> None:
    _job.reset()
    checkpoint.forget()
    torch.manual_seed(0)


def data(count: int, width: int) -> Any:
    inputs = torch.randn(count, width, generator=torch.Generator().manual_seed(1))
    return torch.utils.data.TensorDataset(inputs, (inputs[:, :8].sum(1) > 0).long())


def train(epochs: int, kind: Any = None, autoscale: bool = False, stop: int = 0) -> dict[str, Any]:
    """A small training on the device; `stop`: steps after which a checkpoint ends it."""
    fresh()
    loader = adl.AdaptiveDataLoader(data(2048, 64), batch_size=32, shuffle=True)
    if autoscale:
        loader.autoscale_batch_size(512, (16, 256), gradient_accumulation=True)
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Dropout(0.1), nn.Linear(256, 2)).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    adl.init_process_group("nccl", checkpoint_interval_s=0.0 if stop else 60.0)
    scaler = torch.amp.GradScaler("cuda") if kind is torch.float16 else None
    wrapped = adl.AdaptiveDataParallel(model, optimizer, mp_scaler=scaler)
    losses, batches = [], set()
    for _ in adl.remaining_epochs_until(epochs):
        for inputs, labels in loader:
            with torch.autocast("cuda", dtype=kind or torch.bfloat16, enabled=kind is not None):
                loss = nn.functional.cross_entropy(wrapped(inputs.cuda()), labels.cuda())
            optimizer.zero_grad()
            if scaler is None:
                loss.backward()
                optimizer.step()
            else:
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            losses.append(loss.item())
            batches.add(loader.current_batch_size)
            if stop and len(losses) == stop + 1:
                return {}
    gns = wrapped.gns
    return {"losses": losses, "batches": batches, "noise": [gns.sqr, gns.var, gns.measured],
            "profile": _job.current().metrics.profile.fresh()}


def trains() -> str:
    seen = {}
    for kind in (None, torch.bfloat16, torch.float16):
        found = train(6, kind)
        seen[str(kind)] = statistics.mean(found["losses"][-20:])
        assert seen[str(kind)] < 0.3, seen
        assert found["noise"][2] > 30 and found["noise"][0] > 0, found["noise"]
    return f"losses at the end {seen}"


def adapts() -> str:
    found = train(60, autoscale=True)
    assert len(found["batches"]) > 1, found["batches"]
    point = found["profile"][0]
    assert point["gpu_type"] and point["step"][0] > 0
    return f"batches {sorted(found['batches'])}, {point['gpu_type']}"


def resumes() -> str:
    expected = train(2)["losses"]
    with tempfile.TemporaryDirectory() as directory:
        os.environ[env.CHECKPOINT_PATH] = directory
        train(2, stop=40)
        found = train(2)["losses"]
        del os.environ[env.CHECKPOINT_PATH]
    assert found == expected[-len(found):], "the losses after a restart differ"
    return f"{len(found)} losses after a restart are the same to the last bit"


def share() -> str:
    """Alternating blocks of 16 steps with measurements and without, by the clock."""
    fresh()
    loader = adl.AdaptiveDataLoader(data(4096, WIDTH), batch_size=4096)
    loader.autoscale_batch_size(4096, gradient_accumulation=True)
    layers = [each for _ in range(8) for each in (nn.Linear(WIDTH, WIDTH), nn.ReLU())]
    model = nn.Sequential(*layers, nn.Linear(WIDTH, 2)).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    adl.init_process_group("nccl")
    wrapped = adl.AdaptiveDataParallel(model, optimizer)
    loader._state.plan = _job.Plan(4096, 1)
    gns, took, began, number = wrapped.gns, ([], []), 0.0, 0
    begin = gns.begin
    inputs = torch.randn(2048, WIDTH).cuda()
    labels = torch.zeros(2048, dtype=torch.long).cuda()

    def off(_alone: bool) -> None:
        gns.measures = gns._keeps = False

    step = _job.Step(0, 4096, 4096, 2, _job.current())
    while number < 16 * 28:
        step = _job.Step(0, 4096, 4096, 2, _job.current())
        _job.current().step = step
        _job.current().training = loader
        for step.index in range(2):
            optimizer.zero_grad()
            nn.functional.cross_entropy(wrapped(inputs), labels).backward()
            optimizer.step()
            wrapped.end_micro_batch()
        number += 1
        if number % 16 == 0:
            torch.cuda.synchronize()
            block, now = number // 16, time.perf_counter()
            if block > 4:
                took[(block - 1) % 2].append(now - began)
            gns.begin = off if block % 2 == 1 else begin
            began = time.perf_counter()
    ratio = statistics.median(on / without - 1 for without, on in zip(took[1], took[0]))
    millis = 1000 * statistics.median(took[1]) / 16
    assert ratio <= 0.02, f"{ratio:.4f} of a step of {millis:.1f} ms"
    return f"{ratio:.4f} of a step of {millis:.1f} ms (bar 0.02)"


def main() -> int:
    if not torch.cuda.is_available():
        print("elastic_device: no gpu that PyTorch can use")
        return 1
    print(subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True,
                         check=False).stdout.strip())
    failed = 0
    checks: list[Callable[[], str]] = [trains, adapts, resumes, share]
    for check in checks:
        try:
            print(f"elastic {check.__name__}: {check()}", flush=True)
        except Exception:
            failed += 1
            print(f"elastic {check.__name__}: FAILED\n{traceback.format_exc()}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
