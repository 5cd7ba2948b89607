"""kill -9 of every two of the parties at once, while a driver's warm-started search runs."""

import functools
import itertools
import os
import signal
import unittest
from typing import Callable

from checks import Search
from harness import ROOT, ClusterTest, driver_python, wait_until


def parent(pid: int) -> int:
    with open(f"/proc/{pid}/stat") as file:
        return int(file.read().rsplit(")", 1)[1].split()[1])


class KillPairsTest(ClusterTest):
    @classmethod
    def prepare(cls) -> None:
        python = driver_python()
        cls.cluster.env["PATH"] = os.path.dirname(python) + ":" + cls.cluster.env["PATH"]
        cls.cluster.env["PYTHONPATH"] = str(ROOT / "python")

    def parties(self, search: Search, job: int) -> dict[str, Callable[[], int]]:
        """How to find each party's pid; the trial's server and its group's shim by ancestry."""
        def driver() -> int:
            return int(self.cluster.json("job", "show", str(job))
                       ["attempts"][-1]["members"][0]["pid"])

        @functools.cache  # One look: the server and the shim found later are those of this trial.
        def trial() -> int:
            running = wait_until("a trial runs", search.running)
            return int(running[0]["pid"])

        def server() -> int:
            return parent(trial())

        def shim() -> int:
            return parent(server())
        return {"head": lambda: self.cluster.pid("head"),
                "worker": lambda: self.cluster.pid("worker-1"),
                "driver": driver, "trial": trial, "server": server, "shim": shim}

    def one(self, first: str, second: str) -> None:
        search = Search(self.cluster, f"{first}-{second}", trials=10, steps=6, pause_s=0.2,
                        checkpoint_every=2)
        search.prepare()
        done = self.cluster.rt(
            "submit", "--detach", "-o", "quiet", "driver_program.py", "--", search.name,
            str(search.notes), str(search.trials), str(search.steps), str(search.pause_s),
            str(search.checkpoint_every), "9")
        search.find()
        search.wait_done(2)
        for _ in range(20):  # A party may end by itself while the other is looked for.
            find = self.parties(search, int(done.stdout))
            try:
                pids = [find[first](), find[second]()]
                for pid in pids:
                    os.kill(pid, 0)
                break
            except (OSError, TypeError):
                continue
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        search.check(restarted=None)

    def test_every_pair(self) -> None:
        names = ("head", "worker", "driver", "trial", "server", "shim")
        for first, second in itertools.combinations(names, 2):
            with self.subTest(first=first, second=second):
                self.one(first, second)


if __name__ == "__main__":
    unittest.main()
