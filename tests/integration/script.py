"""Plain scripts as a user runs them: `python script.py`, an embedded cluster, a HOME of its own."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
from typing import Any

import installed
from harness import BIN, PYTHON, ROOT, processes_of, wait_until


class Place:
    """A directory in which scripts are written and run; `close` checks that nothing was left."""

    def __init__(self, folder: str = "work") -> None:
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="rt-plain-"))
        self.work = self.root / folder
        self.temporary = self.root / "tmp"
        for path in (self.work, self.temporary):
            path.mkdir()
        self.env = {key: value for key, value in os.environ.items()
                    if not key.startswith("RT_") and key != "OMP_NUM_THREADS"}
        self.env |= {"HOME": str(self.root), "TMPDIR": str(self.temporary), "RT_BIN": str(BIN),
                     "PYTHONPATH": str(ROOT / "python"), "NO_COLOR": "1",
                     "PYTHONDONTWRITEBYTECODE": "1"}
        self.results = self.root / "rt_results"
        self.python = PYTHON

    def use_installed(self) -> None:
        """From here on scripts run in an environment in which the package is installed."""
        self.python = installed.python()
        for name in ("PYTHONPATH", "RT_BIN"):
            self.env.pop(name, None)

    def write(self, text: str, name: str = "script.py") -> pathlib.Path:
        path = self.work / name
        path.write_text(text)
        return path

    def start(self, path: pathlib.Path, *args: str, **more: Any) -> subprocess.Popen[str]:
        more = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "cwd": self.work,
                "stderr": subprocess.PIPE, "start_new_session": True, **more}
        argv = [str(self.python), str(path), *args]
        return subprocess.Popen(argv, env=self.env, text=True, **more)

    def run(self, text: str, *args: str, code: int = 0, timeout: float = 200,
            **more: Any) -> subprocess.CompletedProcess[str]:
        """Runs a script to its end, which must be with `code`."""
        path = self.write(text)
        return self.run_file(path, *args, code=code, timeout=timeout, **more)

    def run_file(self, path: pathlib.Path, *args: str, code: int = 0, timeout: float = 200,
                 **more: Any) -> subprocess.CompletedProcess[str]:
        process = self.start(path, *args, **more)
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            raise AssertionError(f"{path.name} did not end in {timeout} s\n{out}\n{err}") from None
        if process.returncode != code:
            raise AssertionError(f"{path.name} -> {process.returncode}\n{out}\n{err}")
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def said(self, text: str, *args: str, **more: Any) -> Any:
        """Runs a script and returns the JSON that its last line of output holds."""
        return json.loads(self.run(text, *args, **more).stdout.splitlines()[-1])

    def rows(self, experiment: str, trial: int = 0) -> list[dict[str, Any]]:
        folders = [each for each in (self.results / experiment).iterdir()
                   if each.is_dir() and each.name[0] != "."]
        folder = sorted(folders)[trial]
        return [json.loads(line) for line in (folder / "result.json").read_text().splitlines()]

    def processes(self) -> dict[int, str]:
        """Processes that carry this place's path in their environment or arguments."""
        return {pid: text[:200] for pid, text in processes_of(self.root).items()}

    def directories(self) -> list[pathlib.Path]:
        """What the embedded clusters that run now have under /tmp."""
        found = set()
        for pid in self.processes():
            try:
                words = pathlib.Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
            except OSError:
                continue
            for word in words:
                if word.startswith("RT_SOCKET="):  # In the directory of the worker's sockets.
                    found.add(pathlib.Path(word.removeprefix("RT_SOCKET=")).parent)
                if word.startswith("RT_TRIAL_DIR="):  # <cluster>/worker-1/attempts/<one>/trial
                    found.add(pathlib.Path(word.removeprefix("RT_TRIAL_DIR=")).parents[3])
        return sorted(path for path in found if path.exists())

    def wait_gone(self, deadline_s: float = 15) -> None:
        try:
            wait_until("every process has ended", lambda: not self.processes(), deadline_s,
                       lasting=True)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.processes()}") from None

    def close(self) -> None:
        left = self.processes()
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        # Ours only: PyTorch, for one, leaves a cache of its own.
        files = [path.name for path in self.temporary.iterdir()
                 if path.name.startswith(("rt-", ".checkpoint"))]
        shutil.rmtree(self.root, ignore_errors=True)
        assert not left, f"processes left behind: {left}"
        assert not files, f"left behind in TMPDIR: {files}"
