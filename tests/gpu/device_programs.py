"""The trials of on_device.py. Without CUDA they compute on the cpu, for --fake."""

import json
import os
import pathlib
import subprocess
import sys
import time

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
GIB = 1 << 30


def tell(**metrics: object) -> None:
    print("RT_REPORT " + json.dumps(metrics), flush=True)


def busy(seconds: float, gib: float) -> None:
    """Multiplies without a pause for so long, with so much memory taken."""
    ballast = torch.ones(int(gib * GIB) // 4, device=DEVICE)
    ones = torch.ones(4096 if DEVICE == "cuda" else 64, 4096 if DEVICE == "cuda" else 64,
                      device=DEVICE)
    end = time.monotonic() + seconds
    tell(ready=1, allocated=ballast.numel() * 4)
    while time.monotonic() < end:
        for _ in range(20):
            ones = (ones @ ones).clamp(0, 1)
        if DEVICE == "cuda":
            torch.cuda.synchronize()
    tell(ready=2)


def hold(ready: str, gib: float) -> None:
    """Holds so much memory of the gpu until it is ended."""
    held = torch.ones(int(gib * GIB) // 4, device=DEVICE)
    pathlib.Path(ready).touch()
    time.sleep(600)
    print(held.numel())


def leave(ready: str, gib: float) -> None:
    """Ends, and leaves a process in a session of its own that holds memory of the gpu."""
    with subprocess.Popen([sys.executable, __file__, "hold", ready, str(gib)],
                          stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          start_new_session=True) as child:
        while not pathlib.Path(ready).exists():
            time.sleep(0.02)
        tell(left=child.pid)
        os._exit(0)


def out_of_memory() -> None:
    """Takes memory until there is no more."""
    tell(began=1)
    if DEVICE == "cpu":
        raise RuntimeError("CUDA out of memory. Tried to allocate 4.00 GiB (fake)")
    taken = []
    while True:
        taken.append(torch.ones(GIB, device=DEVICE))
        torch.cuda.synchronize()
        if len(taken) % 4 == 0:
            time.sleep(0.2)  # So that a sample sees it.


def wrong_address() -> None:
    """Reads far beyond its memory: an Xid of the user's own doing."""
    tell(began=1)
    if DEVICE == "cpu":
        raise RuntimeError("CUDA error: an illegal memory access was encountered (fake)")
    try:
        import cupy  # noqa: PLC0415
    except ImportError:
        cupy = None
    if cupy is not None:  # A kernel of its own: PyTorch's check their indices.
        code = 'extern "C" __global__ void write(int* at) { at[1ull << 40] = 1; }'
        cupy.RawKernel(code, "write")((1,), (1,), (cupy.zeros(1, dtype=cupy.int32),))
        cupy.cuda.Device().synchronize()
    few = torch.ones(16, device=DEVICE)
    far = torch.full((1 << 16,), 1 << 40, device=DEVICE, dtype=torch.int64)
    print(torch.take_along_dim(few, far, 0).sum().item())


def train(steps: int, gib: float, pause: float) -> None:
    """A training whose losses are the same in every run; at its end the ballast is as it was."""
    torch.manual_seed(7)
    ballast = torch.arange(int(gib * GIB) // 8, device=DEVICE, dtype=torch.int64)
    model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.Tanh(),
                                torch.nn.Linear(256, 1)).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs = torch.randn(512, 256, device=DEVICE)
    wanted = inputs.sum(1, keepdim=True).tanh()
    for step in range(steps):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs), wanted)
        loss.backward()
        optimizer.step()
        tell(step=step, loss=loss.item().hex())
        time.sleep(pause)
    expected = torch.arange(int(gib * GIB) // 8, device=DEVICE, dtype=torch.int64)
    tell(step=steps, loss="done", same=int(torch.equal(ballast, expected)))


def wait_for(path: str) -> None:
    """Holds its gpu, without using it, until the file exists."""
    tell(waits=1)
    while not pathlib.Path(path).exists():
        time.sleep(0.02)


if __name__ == "__main__":
    arguments = [float(one) if one.replace(".", "", 1).isdigit() else one for one in sys.argv[2:]]
    if sys.argv[1] == "train":
        arguments[0] = int(arguments[0])
    globals()[sys.argv[1]](*arguments)
