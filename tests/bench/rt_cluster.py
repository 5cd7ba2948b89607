"""A local cluster to measure: the one of the integration tests, with what the figures need."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/integration"))

import installed  # noqa: E402
from harness import BIN, Cluster  # noqa: E402

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
installed_package = False  # bench.py --wheel: not the one of the source tree.


def interpreter() -> str:
    """The Python that runs scripts: one that has the package installed, or this one."""
    return str(installed.python(pathlib.Path(sys.prefix))) if installed_package else sys.executable


def python_env() -> dict[str, str]:
    """What that interpreter needs to find the package and its programs."""
    if installed_package:
        return {}
    return {"RT_BIN": str(BIN), "PYTHONPATH": str(ROOT / "python")}


class BenchCluster(Cluster):
    """Adds foreground submits, which wait in the head and so cost nothing while they do."""

    def __init__(self, workers: int, cpus: int, daemons: bool = True) -> None:
        super().__init__(workers=workers, cpus=cpus)
        self.yaml = self.yaml.rename(self.home / "cluster.yaml")
        self.parts = ["head"] + [f"worker-{i + 1}" for i in range(workers)]
        if daemons:
            self.up()

    def remove_files(self) -> None:
        """Later, by bench.py: ext4 finds a new inode slowly for minutes after many were freed."""

    def __enter__(self) -> BenchCluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run_experiment(self, name: str, text: str, timeout_s: float = 600) -> dict:
        """Submits, waits for the end, and returns the experiment as `exp show` prints it."""
        path = self.home / f"{name}.yaml"  # Not in the directory that is sent along: it is empty.
        path.write_text(text)
        self.rt("submit", str(path), timeout=timeout_s)
        return self.ended(name)

    def run_search(self, name: str, count: int, seconds: float, *options: str,
                   timeout_s: float = 600) -> dict:
        """The same for a search in Python, with trials that take so long."""
        script = pathlib.Path(__file__).resolve().parent / "tune_search.py"
        env = {**self.env, **python_env(), "RT_CLUSTER": "it"}
        argv = [interpreter(), str(script), name, str(count), str(seconds), *options]
        done = subprocess.run(argv, env=env, cwd=self.work, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=timeout_s)
        if done.returncode != 0:
            raise SystemExit(f"{name}: {done.stdout}{done.stderr}\n{self.logs()}")
        return self.ended(name)

    def ended(self, name: str) -> dict:
        """The newest experiment of that name, all of whose trials must have completed."""
        items = self.json("exp", "list")["items"]
        number = max(item["id"] for item in items if item["name"] == name)
        experiment = self.experiment(number)
        states = experiment["trials_by_state"]
        if states["COMPLETED"] != experiment["trials_total"]:
            raise SystemExit(f"{name}: not every trial completed: {states}\n{self.logs()}")
        return experiment

    def cpu_s(self) -> dict[str, float]:
        """CPU seconds of each daemon and of the children it waited for."""
        used = {}
        for part in self.parts:
            stat = pathlib.Path(f"/proc/{self.pid(part)}/stat").read_text()
            fields = stat.rsplit(")", 1)[1].split()
            used[part] = sum(int(field) for field in fields[11:15]) / TICKS_PER_S
        return used

    def journal(self) -> dict:
        """{"seq", "durable_seq", "bytes_synced", ...} of `rt status`."""
        return self.json("status")["journal"]


def print_bench(name: str, value: float, unit: str, bar: str, peer: str) -> None:
    """The line that everything reads: BENCH name value unit bar LIMIT peer TEXT."""
    print(f"BENCH {name} {value:.4g} {unit} bar {bar} peer {peer}", flush=True)


def note(text: str) -> None:
    """What explains the line above it."""
    print(f"  {text}", flush=True)


def cpu_note(before: dict[str, float], after: dict[str, float], count: int, what: str) -> None:
    """CPU per unit of work: steadier than time where the machine is shared."""
    parts = ", ".join(
        f"{part} {(after[part] - before[part]) / count * 1e6:.0f} us" for part in after)
    note(f"cpu per {what}: {parts}")


def wall_of(argv: list[str], cwd: pathlib.Path, env: dict[str, str]) -> float:
    """Seconds that a command took; a failure shows what it printed."""
    start = time.monotonic()
    done = subprocess.run(argv, cwd=cwd, env=env, capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=600)
    took = time.monotonic() - start
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(argv)} -> {done.returncode}\n{done.stdout}{done.stderr}")
    return took


__all__ = ["BIN", "BenchCluster", "ROOT", "cpu_note", "interpreter", "note", "print_bench",
           "python_env", "wall_of"]
