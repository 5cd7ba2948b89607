"""`data_torch` and `data_map`: passes over data sets, and with --peers the same through Ray Data.

The memory is the largest sum of the proportional sets (PSS) of a process and all that it started,
so that what processes share counts once.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from rt_cluster import ROOT, TICKS_PER_S, note, print_bench

WORK = pathlib.Path(__file__).resolve().parent / "data_work.py"
VENVS = {"rt": ("data-venv", "cloudpickle numpy pyarrow==26.0.1 torch==2.13.0"),
         "ray": ("ray-data-venv", "ray[data]==2.60.0 pydantic numpy torch==2.13.0")}
REPEATS = {"rt": 5, "ray": 3}
RUN_S_MAX = 900
RECORDED = {"torch_batches": "Ray 2.60: 1.29 s and 983 MB (recorded)",
            "map_batches": "Ray 2.60: 36 s of CPU and 2061 MB (recorded)"}


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


class Usage:
    """The largest memory, and the CPU time, of a process and all that it started."""

    def __init__(self) -> None:
        self.peak_bytes = 0
        self._cpu_s: dict[int, float] = {}

    def sample(self, pid: int) -> None:
        total = 0
        for each in children_of(pid):
            folder = pathlib.Path(f"/proc/{each}")
            try:
                fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
                text = (folder / "smaps_rollup").read_text()
            except OSError:
                continue
            self._cpu_s[each] = (int(fields[11]) + int(fields[12])) / TICKS_PER_S
            total += sum(int(line.split()[1]) for line in text.splitlines()
                         if line.startswith("Pss:")) * 1024
        self.peak_bytes = max(self.peak_bytes, total)

    def cpu_s(self) -> float:
        return sum(self._cpu_s.values())


@dataclasses.dataclass(frozen=True)
class Run:
    """One process that did the work."""

    seconds: float
    check: float
    peak_bytes: int
    cpu_s: float


def run(library: str, work: str, folder: pathlib.Path) -> Run:
    env = {**os.environ, "PYTHONPATH": str(ROOT / "python") if library == "rt" else ""}
    argv = [python_of(library), str(WORK), library, work, str(folder)]
    deadline = time.monotonic() + RUN_S_MAX
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(argv, env=env, stdout=output, stderr=subprocess.STDOUT,
                                   stdin=subprocess.DEVNULL)
        usage = Usage()
        while process.poll() is None:
            usage.sample(process.pid)
            if time.monotonic() > deadline:
                process.kill()
            time.sleep(0.1)
        output.seek(0)
        text = output.read()
    answers = [line for line in text.splitlines() if line.startswith("DATA ")]
    if process.returncode != 0 or not answers:
        raise SystemExit(f"{library} {work} failed with {process.returncode}:\n{text[-2000:]}")
    answer = json.loads(answers[-1].removeprefix("DATA "))
    return Run(answer["seconds"], answer["check"], usage.peak_bytes, usage.cpu_s())


def median(runs: list[Run], name: str) -> float:
    return statistics.median(getattr(each, name) for each in runs)


def measure(name: str, work: str, faster: float, with_peers: bool, folder: pathlib.Path) -> None:
    """The line of the seconds, and with Ray those of memory and CPU time beside Ray's."""
    ours = [run("rt", work, folder) for _ in range(REPEATS["rt"])]
    seconds, peak = median(ours, "seconds"), max(each.peak_bytes for each in ours) / 1e6
    started = median([run("rt", "start", folder) for _ in range(REPEATS["rt"])], "cpu_s")
    cpu = median(ours, "cpu_s") - started
    if not with_peers:
        print_bench(name, seconds, "s", "none", RECORDED[work])
        note(f"peak memory {peak:.0f} MB, {cpu:.2f} s of CPU")
        return
    rays = [run("ray", work, folder) for _ in range(REPEATS["ray"])]
    if {each.check for each in ours} != {each.check for each in rays}:
        raise SystemExit(f"{name}: other results: {ours[0].check}, Ray {rays[0].check}")
    peer, peer_peak = median(rays, "seconds"), min(each.peak_bytes for each in rays) / 1e6
    started = median([run("ray", "start", folder) for _ in range(REPEATS["ray"])], "cpu_s")
    peer_cpu = median(rays, "cpu_s") - started
    print_bench(name, peer / seconds, "x_ray", f">={faster}",
                f"Ray {peer:.2f} s, rt {seconds:.3f} s, measured now")
    note("rt " + " ".join(f"{each.seconds:.3f}" for each in ours) + " s; Ray " +
         " ".join(f"{each.seconds:.2f}" for each in rays) + " s")
    note(f"CPU without the start: rt {cpu:.2f} s, Ray {peer_cpu:.2f} s")
    print_bench(f"{name}_memory", peak / peer_peak, "x_ray", "<=0.5",
                f"rt {peak:.0f} MB, Ray {peer_peak:.0f} MB")


def data_torch(with_peers: bool) -> None:
    measure("data_torch", "torch_batches", 3, with_peers, pathlib.Path("/"))


def data_map(with_peers: bool) -> None:
    folder = pathlib.Path(tempfile.mkdtemp(prefix="rt-bench-"))
    try:
        subprocess.run([python_of("rt"), str(WORK), "rt", "write", str(folder)], check=True)
        measure("data_map", "map_batches", 1.5, with_peers, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
