"""`data_torch` and `data_map`: passes over data sets, and with --peers the same through Ray Data.

The memory is the largest sum of the proportional sets (PSS) of a process and all that it started,
so that what processes share counts once.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from rt_cluster import ROOT, note, print_bench

WORK = pathlib.Path(__file__).resolve().parent / "data_work.py"
VENVS = {"rt": ("data-venv", "cloudpickle numpy pyarrow==26.0.1 torch==2.13.0"),
         "ray": ("ray-data-venv", "ray[data]==2.60.0 pydantic numpy torch==2.13.0")}
REPEATS = {"rt": 5, "ray": 3}
RUN_S_MAX = 900
RECORDED = {"torch_batches": "recorded, Ray 2.60: RECORDED_TORCH",
            "map_batches": "recorded, Ray 2.60: RECORDED_MAP"}


def python_of(library: str) -> str:
    """The interpreter of an environment with the library's packages."""
    name, wanted = VENVS[library]
    venv = ROOT / "build" / name
    installed = venv / ".installed"
    if not installed.exists() or installed.read_text() != wanted:
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
        subprocess.run([str(venv / "bin/python"), "-m", "pip", "install", "--quiet",
                        "--disable-pip-version-check", *wanted.split()], check=True)
        installed.write_text(wanted)
    return str(venv / "bin/python")


def children_of(pid: int) -> list[int]:
    """The process and all its descendants."""
    found = [pid]
    for each in found:
        for task in pathlib.Path(f"/proc/{each}/task").glob("*"):
            try:
                found += [int(child) for child in (task / "children").read_text().split()]
            except OSError:
                continue
    return found


def memory_of(pid: int) -> int:
    """Bytes of the proportional sets of the process and its descendants."""
    total = 0
    for each in children_of(pid):
        try:
            text = pathlib.Path(f"/proc/{each}/smaps_rollup").read_text()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in text.splitlines()
                     if line.startswith("Pss:")) * 1024
    return total


def run(library: str, work: str, folder: pathlib.Path) -> tuple[float, int, float]:
    """(seconds, peak bytes, checksum) of one process."""
    env = {**os.environ, "PYTHONPATH": str(ROOT / "python") if library == "rt" else ""}
    argv = [python_of(library), str(WORK), library, work, str(folder)]
    deadline = time.monotonic() + RUN_S_MAX
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(argv, env=env, stdout=output, stderr=subprocess.STDOUT,
                                   stdin=subprocess.DEVNULL)
        peak = 0
        while process.poll() is None:
            peak = max(peak, memory_of(process.pid))
            if time.monotonic() > deadline:
                process.kill()
            time.sleep(0.2)
        output.seek(0)
        text = output.read()
    answers = [line for line in text.splitlines() if line.startswith("DATA ")]
    if process.returncode != 0 or not answers:
        raise SystemExit(f"{library} {work} failed with {process.returncode}:\n{text[-2000:]}")
    answer = json.loads(answers[-1].removeprefix("DATA "))
    return answer["seconds"], peak, answer["check"]


def measure(name: str, work: str, faster: float, with_peers: bool, folder: pathlib.Path) -> None:
    ours = [run("rt", work, folder) for _ in range(REPEATS["rt"])]
    seconds = statistics.median(each[0] for each in ours)
    megabytes = max(each[1] for each in ours) / 1e6
    if not with_peers:
        print_bench(name, seconds, "s", f"Ray/{faster}", RECORDED[work])
        note(f"peak memory {megabytes:.0f} MB")
        return
    rays = [run("ray", work, folder) for _ in range(REPEATS["ray"])]
    if {each[2] for each in ours} != {each[2] for each in rays}:
        raise SystemExit(f"{name}: other results: {ours[0][2]}, Ray {rays[0][2]}")
    peer = statistics.median(each[0] for each in rays)
    peer_megabytes = min(each[1] for each in rays) / 1e6
    print_bench(name, peer / seconds, "x_ray", f">={faster}", f"Ray {peer:.2f} s, measured now")
    note(f"rt {' '.join(f'{each[0]:.3f}' for each in ours)} s; "
         f"Ray {' '.join(f'{each[0]:.2f}' for each in rays)} s")
    print_bench(f"{name}_memory", megabytes / peer_megabytes, "x_ray", "<=0.5",
                f"rt {megabytes:.0f} MB, Ray {peer_megabytes:.0f} MB")


def data_torch(with_peers: bool) -> None:
    measure("data_torch", "torch_batches", 3, with_peers, pathlib.Path("/"))


def data_map(with_peers: bool) -> None:
    folder = pathlib.Path(tempfile.mkdtemp(prefix="rt-bench-"))
    try:
        subprocess.run([python_of("rt"), str(WORK), "rt", "write", str(folder)], check=True)
        measure("data_map", "map_batches", 1.5, with_peers, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
