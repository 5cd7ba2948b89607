"""limit_cpu: the kernel holds a trial to its cpus where it can; elsewhere the node says that it
does not."""

import json
import pathlib
import sys
import unittest

from harness import Cluster

SPIN = """
import os, time
began = time.monotonic()
if os.fork() == 0:  # Both together.
    while time.monotonic() - began < 2:
        pass
    os._exit(0)
while time.monotonic() - began < 2:
    pass
os.wait()
used = sum(os.times()[:4])
print('RT_REPORT {"share": %f}' % (used / (time.monotonic() - began)), flush=True)
"""


def can_limit() -> bool:
    """Whether the daemon's own cgroup, which is ours, can give a cpu controller to others."""
    mountinfo = pathlib.Path("/proc/self/mountinfo").read_text().splitlines()
    mounts = [line.split()[4] for line in mountinfo if " - cgroup2 " in line]
    own = [line[3:] for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines()
           if line.startswith("0::")]
    if not mounts or not own:
        return False
    group = pathlib.Path(mounts[0] + own[0].rstrip("/"))
    try:
        return "cpu" in (group / "cgroup.subtree_control").read_text().split() or (
            own[0] == "/" and "cpu" in (group / "cgroup.controllers").read_text().split())
    except OSError:
        return False


class CpuLimitTest(unittest.TestCase):
    def run_limited(self) -> tuple[Cluster, float]:
        cluster = Cluster(workers=1)
        self.addCleanup(cluster.close)
        cluster.up()
        (cluster.work / "spin.py").write_text(SPIN)
        number = cluster.submit("spin", "experiment: spin\nnum_samples: 1\nlimit_cpu: true\n"
                                f"command: {json.dumps([sys.executable, 'spin.py'])}\n"
                                "resources: {cpu: 0.5}\n")
        experiment = cluster.wait_experiment(number)
        rows = cluster.rows(experiment, cluster.trials(number)[0])
        return cluster, float(rows[0]["share"])

    @unittest.skipUnless(can_limit(), "there is no cgroup v2 with a cpu controller")
    def test_two_processes_share_half_a_core(self) -> None:
        cluster, share = self.run_limited()
        self.assertLess(share, 0.75)
        self.assertNotIn("is not held to its cpus", cluster.logs())

    @unittest.skipIf(can_limit(), "the kernel limits cpus there")
    def test_a_node_that_cannot_says_so(self) -> None:
        cluster, _ = self.run_limited()
        self.assertIn("t1-0.a1.r0 is not held to its cpus", cluster.logs())


if __name__ == "__main__":
    unittest.main()
