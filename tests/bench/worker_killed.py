"""`worker_killed`: the daemon of a node that starts trials all the time is killed, and started
again at once. Programs go on meanwhile; the next daemon has to find out what was about to start.
"""

from __future__ import annotations

import random
import statistics
import subprocess
import sys
import time

from rt_cluster import ROOT, note, print_bench

sys.path[:0] = [str(ROOT / "tests/chaos"), str(ROOT / "tests/integration")]

import plain_cluster  # noqa: E402
from daemon import Daemon  # noqa: E402
from harness import wait_until  # noqa: E402

KILLS = 40
TRIALS = 3000
PAUSE_S = (0.3, 0.6)  # Between two kills.

FUNCTION = f"""
import time
from rt import tune

def train(config):
    time.sleep(0.02)
    tune.report({{"x": 1}})

tune.Tuner(train, tune_config=tune.TuneConfig(num_samples={TRIALS}, metric="x", mode="max")).fit()
"""


def killed(daemon: Daemon) -> float:
    """Seconds until the next daemon serves."""
    logged = daemon.logged_bytes()
    daemon.kill()
    began = time.monotonic()
    daemon.start()
    wait_until("it serves", lambda: " serves " in daemon.log(logged), 60)
    return time.monotonic() - began


def worker_killed(_: bool) -> None:
    """Prints the longest of the times, and how many attempts were lost."""
    plain_cluster.NODES[:] = ["n1"]
    cluster = plain_cluster.PlainCluster({})
    driver = None
    try:
        cluster.up()
        wait_until("the node is there", cluster.has_all_nodes, 60)
        daemon = cluster.daemons["n1"]
        daemon.end()
        daemon.argv = ["cpu=4" if word == "cpu=1" else word for word in daemon.argv]
        daemon.start()
        (cluster.work / "search.py").write_text(FUNCTION)
        driver = subprocess.Popen(
            [sys.executable, "search.py"], cwd=cluster.work, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**cluster.env, "RT_CLUSTER": "it", "PYTHONPATH": str(ROOT / "python")})
        wait_until("trials run", lambda: cluster.trial_pids("n1"), 60)
        times = []
        for _round in range(KILLS):
            wait_until("the node is there", cluster.has_all_nodes, 60)
            time.sleep(random.uniform(*PAUSE_S))
            times.append(killed(daemon))
        (search,) = cluster.json("exp", "list")["items"]
        if search["state"] != "RUNNING":
            raise SystemExit("worker_killed: the search ended before the last kill")
        trials = cluster.trials(cluster.wait_experiment(search["id"])["id"])
        if {trial["state"] for trial in trials} != {"COMPLETED"} or len(trials) != TRIALS:
            raise SystemExit("worker_killed: not every trial is complete")
    finally:
        if driver is not None:
            driver.kill()
            driver.wait()
        cluster.close()
    print_bench("worker_killed", max(times), "s", "<=1", "none")
    note(f"{KILLS} kills, median {statistics.median(times):.2f} s")
    lost = sum(trial["preemptions"] for trial in trials)
    print_bench("worker_killed_lost", lost, "attempts", "<=0", "none")
