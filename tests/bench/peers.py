"""What others take for the same work: recorded on the machine that docs/benchmarks.md describes,
or, with --peers, measured now with Ray from PyPI in a virtual environment of its own."""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from typing import Iterator

from rt_cluster import ROOT

VENV = ROOT / "build/ray-venv"
WANTED = "ray[tune,default] scikit-learn"
# Ray Train: apart, because PyTorch is large.
TRAIN_VENV = ROOT / "build/ray-train-venv"
TRAIN_WANTED = "ray[train,default] torch==2.13.0"
RECORDED = "recorded, Ray 2.60"


def _python(venv: pathlib.Path, wanted: str) -> pathlib.Path:
    """The interpreter that has Ray."""
    installed = venv / ".installed"
    python = venv / "bin/python"
    if not installed.exists() or installed.read_text() != wanted:
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet",
                        "--disable-pip-version-check", *wanted.split()], check=True)
        installed.write_text(wanted)
    return python


def _measure(name: str) -> str:
    """"VALUE UNIT (measured now, Ray VERSION)"; why not, if Ray fails."""
    is_train = name.startswith("train_")
    python = _python(TRAIN_VENV, TRAIN_WANTED) if is_train else _python(VENV, WANTED)
    script = pathlib.Path(__file__).resolve().parent / (
        "ray_train_peer.py" if is_train else "ray_peer.py")
    done = subprocess.run([str(python), str(script), name], capture_output=True, text=True,
                          timeout=900, stdin=subprocess.DEVNULL)
    answers = [line for line in done.stdout.splitlines() if line.startswith("PEER ")]
    if done.returncode != 0 or not answers:
        tail = (done.stdout + done.stderr).strip().splitlines()[-1:]
        return f"Ray failed with {done.returncode}: {' '.join(tail)[:200]}"
    return f"{answers[-1].removeprefix('PEER ')}, measured now"


@contextlib.contextmanager
def ray_cluster(cpus: int) -> Iterator[tuple[str, dict[str, str]]]:
    """A cluster of Ray that is up: its Python, and the environment of a driver."""
    python = _python(VENV, WANTED)
    ray = str(python.parent / "ray")
    env = {**os.environ, "PATH": f"{python.parent}:{os.environ['PATH']}", "RAY_ADDRESS": "auto",
           "RAY_USAGE_STATS_ENABLED": "0"}
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True) as home:
        start = [ray, "start", "--head", f"--num-cpus={cpus}", "--disable-usage-stats",
                 "--include-dashboard=false", "--temp-dir", home, "--port=0"]
        started = {name: value for name, value in env.items() if name != "RAY_ADDRESS"}
        done = subprocess.run(start, env=started, check=True, capture_output=True, text=True)
        address = re.search(r"--address='([^']+)'", done.stdout)
        if address:
            env["RAY_ADDRESS"] = address[1]
        try:
            yield str(python), env
        finally:
            subprocess.run([ray, "stop"], env=started, check=False, capture_output=True)


def shell_trials(measure: bool) -> str:
    ray = _measure("shell_trials") if measure else f"1.0 trials/s ({RECORDED})"
    return f"{ray}; HyperQueue 0.27: 600 trials/s (recorded)"


def trials_1s(measure: bool) -> str:
    return _measure("trials_1s") if measure else f"+217 %, reusing processes ({RECORDED})"


def reports(measure: bool) -> str:
    return _measure("reports") if measure else f"870 reports/s ({RECORDED})"


def digits(measure: bool) -> str:
    if measure:
        return _measure("digits")
    return f"79.3 s; 10.1 s reusing processes ({RECORDED})"


def submit(measure: bool) -> str:
    return _measure("submit") if measure else f"17.7 s ({RECORDED})"


def idle(measure: bool) -> str:
    return _measure("idle") if measure else f"1565 MB ({RECORDED})"


def train(name: str, measure: bool) -> str:
    """`name`: "first" and "again" of fit(), and "killed"."""
    return _measure(f"train_{name}") if measure else "none"
