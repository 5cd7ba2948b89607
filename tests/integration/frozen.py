"""What the tests of frozen trials share: programs, and what is asked of a cluster about them."""

import os
import pathlib
import sys
import textwrap
from typing import Any, Optional

from harness import Cluster, wait_until

# Counts in its memory alone, until the file END is there: a restart would count from 1 again.
COUNT = """
import json, os, pathlib, sys, time
end, number = pathlib.Path(sys.argv[1]), 0
if len(sys.argv) > 2:
    import ctypes
    ctypes.CDLL("libcuda.so.1")
while not end.exists():
    number += 1
    print("RT_REPORT " + json.dumps({"number": number, "pid": os.getpid()}), flush=True)
    time.sleep(0.02)
"""

# Saves when it is asked to, and otherwise never; continues from the step that it saved.
SAVES = """
import os, pathlib, time
from rt import tune
end = pathlib.Path({end!r})
def train(config):
    restored = os.environ.get("RT_CHECKPOINT_DIR")
    step = int((pathlib.Path(restored) / "step").read_text()) if restored else 0
    while not end.exists():
        step += 1
        if not {asks} or tune.checkpoint_requested() is None:
            tune.report({{"number": step, "pid": os.getpid()}})
        else:
            path = pathlib.Path(os.environ["RT_TRIAL_DIR"]) / "saved"
            path.mkdir(exist_ok=True)
            (path / "step").write_text(str(step))
            tune.report({{"number": step, "pid": os.getpid()}},
                        checkpoint=tune.Checkpoint(str(path)))
        time.sleep(0.02)
tune.Tuner(train, run_config=tune.RunConfig(suspend=True)).fit()
"""


def state_of(pid: int) -> str:
    """The letter of /proc; "" when there is no such process."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1][0]
    except OSError:
        return ""


def parent_of(pid: int) -> int:
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()[1])


class Frozen:
    """What the tests of this file do with trials of a cluster that has one cpu."""

    cluster: Cluster

    def submit(self, name: str, suspend: bool = True, more: str = "", argument: str = "") -> int:
        program = self.cluster.work / "count.py"
        program.write_text(COUNT)
        command = [sys.executable, str(program), str(self.end(name)), *argument.split()]
        return self.cluster.submit(name, f"experiment: {name}\ncommand: {command}\n"
                                         f"suspend: {str(suspend).lower()}\n{more}")

    def end(self, name: str) -> pathlib.Path:
        return self.cluster.work / f"{name}.end"

    def trial(self, number: int) -> Any:
        return self.cluster.trial(f"{number}/0")

    def wait(self, what: str, number: int, condition: Any) -> Any:
        def there() -> Any:
            trial = self.trial(number)
            return trial if condition(trial) else None
        return wait_until(f"trial {number}/0 {what}", there, 120)

    def wait_running(self, number: int, beyond: int = 0) -> Any:
        return self.wait(f"runs beyond row {beyond}", number, lambda t:
                         t["state"] == "RUNNING" and (t["metrics"] or {}).get("number", 0) > beyond)

    def freeze(self, number: int) -> Any:
        """Pauses the trial, and returns it once it is frozen."""
        self.cluster.rt("trial", "pause", f"{number}/0")
        return self.wait("is frozen", number, lambda t: t["frozen"])

    def freeze_warm(self) -> tuple[int, int, int, Any]:
        """Freezes a trial that a fork server started: its number, pid, server and last view."""
        number = self.submit_saves("warm")
        pid = self.pid_of(self.wait_running(number))
        server = parent_of(pid)
        test: Any = self
        test.assertIn("python", pathlib.Path(f"/proc/{server}/comm").read_text())
        return number, pid, server, self.freeze(number)

    def pid_of(self, trial: Any) -> int:
        return int(trial["attempts"][-1]["members"][0]["pid"])

    def check_continues(self, number: int, pid: int, before: Any) -> Any:
        """The same process of the same attempt counts on."""
        counted = before["metrics"]["number"]
        trial = self.wait_running(number, counted)
        test: Any = self
        test.assertEqual(self.pid_of(trial), pid)
        test.assertEqual(trial["metrics"]["pid"], pid)
        test.assertEqual((trial["attempt"], trial["preemptions"], trial["failures"]), (1, 0, 0))
        test.assertFalse(trial["frozen"])
        return trial

    def submit_saves(self, name: str, asks: bool = True) -> int:
        """A Python trial; of its experiment the number. One that does not ask never saves."""
        script = self.cluster.work / f"{name}.py"
        script.write_text(textwrap.dedent(SAVES.format(end=str(self.end(name)), asks=asks)))
        job = self.cluster.rt("submit", "--detach", "--resources", "cpu=0", script.name, "-o",
                              "quiet").stdout.strip()

        def made() -> Optional[int]:
            ids = self.cluster.json("job", "show", job)["experiment_ids"]
            return ids[0] if ids else None
        return int(wait_until("the driver made its experiment", made))

    def finish(self, number: int, name: str) -> None:
        self.end(name).touch()
        self.wait("is over", number, lambda t: t["state"] == "COMPLETED")

    def check_counts_no_freeze(self, number: int) -> None:
        """Two rows lie the freeze apart, and no row holds its time."""
        test: Any = self
        rows = self.cluster.rows(self.cluster.experiment(number), self.trial(number))
        before, after = max(zip(rows, rows[1:]),
                            key=lambda pair: pair[1]["timestamp"] - pair[0]["timestamp"])
        apart = after["timestamp"] - before["timestamp"]
        test.assertGreaterEqual(apart, 2)
        # All but a little of it was the freeze; the trial may be slow as well.
        test.assertLess(after["time_total_s"] - before["time_total_s"], apart - 1)
        test.assertLess(max(row["time_this_iter_s"] for row in rows), apart - 1)
