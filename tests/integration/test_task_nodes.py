"""Large values of tasks on two nodes: the bytes between the daemons, and a kill of the daemons."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from harness import BIN, ROOT, ClusterTest, driver_python, processes_of, wait_until

MB = 1_000_000
# As many tasks as there are processors use one value at the same time. The sockets of executors are
# out of the driver's reach, as on machines of their own.
SHARED = """
import os, pathlib, sys, time
import rt as ray
import rt.core._session as session

session.boot_id = lambda: "elsewhere"
files, size = pathlib.Path(sys.argv[1]), int(sys.argv[2])
count = int(ray.available_resources()["CPU"])

def await_file(name):
    while not (files / name).exists():
        time.sleep(0.01)

@ray.remote(max_retries=-1)
def use(value, number):
    (files / f"met-{number}").touch()
    while len(list(files.glob("met-*"))) < count:
        time.sleep(0.01)
    (files / "used").touch()
    while not (files / "measured").exists():  # An executor that ends closes its connections.
        time.sleep(0.01)
    return ray.get_runtime_context().get_node_id(), value[-1]

value = ray.put(b"x" * size)
refs = [use.remote(value, number) for number in range(count)]
(files / "began").touch()
found = ray.get(refs)
nodes = [node for node, _ in found]
print("answer", sorted(nodes.count(node) for node in set(nodes)), {last for _, last in found})
sys.stdout.flush()
await_file("counted")
del value, refs
await_file("dropped")
"""


def bytes_received(pid: int) -> int:
    """Over the open TCP connections of a process."""
    text = subprocess.run(["ss", "-tinpH"], check=True, capture_output=True, text=True).stdout
    entries = re.split(r"\n(?=\S)", text)
    own = [each for each in entries if f"pid={pid}," in each]
    return sum(int(each) for entry in own for each in re.findall(r"bytes_received:(\d+)", entry))


def memory_files(home: pathlib.Path) -> set[int]:
    """The inodes of the large values that processes of the cluster hold."""
    found = set()
    for pid in processes_of(home):
        try:
            fds = os.listdir(f"/proc/{pid}/fd")
            links = [f"/proc/{pid}/fd/{fd}" for fd in fds]
            found |= {os.stat(each).st_ino for each in links if "rt-value" in os.readlink(each)}
        except OSError:
            continue  # It has ended, or has closed it.
    return found


class TaskNodesTest(ClusterTest):
    workers, cpus = 2, 4

    def submit(self, size: int) -> subprocess.Popen[str]:
        self.files = pathlib.Path(tempfile.mkdtemp(dir=self.cluster.work))
        (self.files / "script.py").write_text(SHARED)
        env = {**self.cluster.env, "PYTHONPATH": str(ROOT / "python")}
        env["PATH"] = f"{pathlib.Path(driver_python()).parent}:{env['PATH']}"
        return subprocess.Popen(
            [str(BIN / "rt"), "-c", "it", "submit", "script.py", "--", str(self.files), str(size)],
            env=env, cwd=self.files, text=True, stdout=subprocess.PIPE)  # fmt: skip

    def finish(self, submitted: subprocess.Popen[str]) -> str:
        out, _ = submitted.communicate(timeout=180)
        self.assertEqual(submitted.returncode, 0, out)
        return out.splitlines()[-1]

    def test_a_value_crosses_once_for_all_executors_of_a_node(self) -> None:
        submitted = self.submit(20 * MB)
        daemons = [self.cluster.pid(part) for part in ("worker-1", "worker-2")]
        before = [bytes_received(pid) for pid in daemons]
        wait_until("the tasks have used it", (self.files / "used").exists)
        crossed = [bytes_received(pid) - was for pid, was in zip(daemons, before)]
        (self.files / "measured").touch()
        self.assertGreater(max(crossed), 20 * MB)
        self.assertLess(sum(crossed), 30 * MB)
        # The driver has one, and either node.
        wait_until("one copy a node is left", lambda: len(memory_files(self.cluster.home)) <= 3)
        (self.files / "counted").touch()
        wait_until("nothing is left", lambda: not memory_files(self.cluster.home))
        (self.files / "dropped").touch()
        answer = self.finish(submitted)
        self.assertRegex(answer, r"answer \[\d, 4\] \{120\}")

    def test_the_daemons_may_be_killed_while_a_value_crosses(self) -> None:
        submitted = self.submit(60 * MB)
        wait_until("it has begun", (self.files / "began").exists)
        for part in ("worker-1", "worker-2"):
            self.cluster.kill(part)
        for name in ("measured", "counted", "dropped"):
            (self.files / name).touch()
        self.assertRegex(self.finish(submitted), r"answer \[.*\] \{120\}")


if __name__ == "__main__":
    sys.exit(unittest.main())
