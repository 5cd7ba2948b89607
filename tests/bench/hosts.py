"""A cluster on four hosts that are reached with ssh: from nothing on them to a running trial, an
`up` that changes nothing, and a verified `down`."""

from __future__ import annotations

import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

from rt_cluster import BIN, note, print_bench
from ssh_hosts import Hosts

HOSTS = 4
ROUNDS = 3
TRIAL = """
experiment: first
command: [sleep, "600"]
space: {x: 1}
resources: {cpu: 1}
"""


def hosts(_with_peers: bool) -> None:
    from_nothing, unchanged, down = [], [], []
    machines = Hosts(HOSTS)
    try:
        with tempfile.TemporaryDirectory(prefix="rt-bench-hosts-") as folder:
            home = pathlib.Path(folder)
            env = {**os.environ, "RT_HOME": f"{home}/home", "RT_RESULTS": f"{home}/results"}
            (home / "work").mkdir()
            yaml = home / "cluster.yaml"
            yaml.write_text("cluster_name: bench\n" + machines.inventory())
            trial = home / "trial.yaml"
            trial.write_text(TRIAL)

            def rt(*args: str) -> str:
                return subprocess.run([str(BIN / "rt"), *args], env=env, cwd=home / "work",
                                      check=True, capture_output=True, text=True).stdout

            def seconds(*args: str) -> float:
                begun = time.perf_counter()
                rt(*args)
                return time.perf_counter() - begun

            rt("up", str(yaml))  # Packs the programs, as the first `up` of a version does.
            rt("down", str(yaml), "--purge", "--no-download")
            for _ in range(ROUNDS):
                begun = time.perf_counter()
                rt("up", str(yaml))
                rt("submit", "--detach", str(trial))
                while json.loads(rt("exp", "show", "last", "-o", "json")
                                 )["trials_by_state"]["RUNNING"] == 0:
                    pass
                from_nothing.append(time.perf_counter() - begun)
                unchanged.append(seconds("up", str(yaml)))
                down.append(seconds("down", str(yaml), "--no-download"))
                rt("up", str(yaml))
                rt("down", str(yaml), "--purge", "--no-download")
    finally:
        machines.close()
    for name, took, bar in (("hosts_first_trial", from_nothing, "<=5"),
                            ("hosts_up_unchanged", unchanged, "<=0.5"),
                            ("hosts_down", down, "<=3")):
        print_bench(name, statistics.median(took), "s", bar, "none")
        note(f"{HOSTS} hosts, median of {ROUNDS}: " + " ".join(f"{value:.2f}" for value in took))
