"""Ranks of rt.elastic for tests: forks of this process, which has imported PyTorch but not used it.

A rank runs a function and returns what JSON can hold. Ranks meet at a file, so no port is needed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any, Callable

import torch
from rt.elastic import checkpoint
from rt.elastic.torch import _job

DEADLINE_S = 100.0
Rank = Callable[[int], Any]


def await_until(holds: Callable[[], bool]) -> None:
    """Returns once it holds; raises AssertionError at the deadline."""
    end = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < end, "it does not come"
        time.sleep(0.002)


class Ranks:
    """Processes that run together; their pids are known, and nobody else's are touched."""

    def __init__(self, count: int, run: Rank, place: Path, **env: str) -> None:
        place.mkdir(parents=True, exist_ok=True)
        self._place, self._tag = place, f"{time.monotonic_ns()}"
        self.pids = [self._fork(rank, count, run, env) for rank in range(count)]

    def _fork(self, rank: int, count: int, run: Rank, env: dict[str, str]) -> int:
        pid = os.fork()
        if pid > 0:
            return pid
        code = 70
        try:
            for name in (signal.SIGTERM, signal.SIGINT):
                signal.signal(name, signal.SIG_DFL)
            log = open(self._file(rank, "log"), "w", buffering=1)  # noqa: SIM115
            sys.stdout = sys.stderr = log
            os.environ.update(RANK=str(rank), WORLD_SIZE=str(count), **env)
            torch.set_num_threads(1)
            checkpoint.forget()
            _job.reset()
            adl = __import__("rt.elastic.torch", fromlist=["x"])
            meet = f"file://{self._place}/meet-{self._tag}"
            adl.init_process_group("gloo", init_method=meet, world_size=count, rank=rank)
            found = run(rank)
            self._file(rank, "json").write_text(json.dumps(found))
            code = 0
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else 1
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)

    def _file(self, rank: int, end: str) -> Path:
        return self._place / f"{self._tag}-{rank}.{end}"

    def signal(self, number: int) -> None:
        for pid in self.pids:
            os.kill(pid, number)

    def wait(self) -> list[int]:
        """The exit codes, by rank; negative for signals."""
        codes: dict[int, int] = {}
        end = time.monotonic() + DEADLINE_S
        while len(codes) < len(self.pids):
            for rank, pid in enumerate(self.pids):
                if rank in codes:
                    continue
                done, status = os.waitpid(pid, os.WNOHANG)
                if done:
                    codes[rank] = os.waitstatus_to_exitcode(status)
            if time.monotonic() > end:
                for rank, pid in enumerate(self.pids):
                    if rank not in codes:
                        os.kill(pid, signal.SIGKILL)
                        os.waitpid(pid, 0)
                raise AssertionError(f"ranks did not end: {self.logs()}")
            time.sleep(0.002)
        return [codes[rank] for rank in range(len(self.pids))]

    def logs(self) -> str:
        return "\n".join(self._file(rank, "log").read_text() for rank in range(len(self.pids)))

    def results(self) -> list[Any]:
        """What the ranks returned."""
        codes = self.wait()
        assert codes == [0] * len(codes), f"{codes}\n{self.logs()}"
        return [json.loads(self._file(rank, "json").read_text()) for rank in range(len(self.pids))]


def run_ranks(count: int, run: Rank, place: Path, **env: str) -> list[Any]:
    """Runs `count` ranks to their end; what each returned."""
    return Ranks(count, run, place, **env).results()
