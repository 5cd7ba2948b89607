"""What a lost machine costs: `loss`, on namespaces as nodes (tests/chaos), so it needs root.

    node_cut      the cable of a node is pulled -> the first step of its trial on another node
    node_killed   every process of a node gets SIGKILL at once -> the same
    notice        a node is given notice, by file -> the same, from the next checkpoint
    false_deaths  nodes called lost while 20 processes spin for each core
The trial's state is 8 MB; its Python starts anew and compares every byte before that first step.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import time
from typing import Callable

CHAOS = pathlib.Path(__file__).resolve().parents[1] / "chaos"
STATE_BYTES = 8_000_000
STEP_S = 0.02
CHECKPOINT_EVERY = 20
SPINNERS_PER_CORE = 20

repeats, overload_s = 5, 20.0  # bench.py's flags set them.


def loss(with_peers: bool) -> None:
    """Makes its namespaces, and measures inside."""
    del with_peers  # Ray needs a shared disk for the same, and 66 s and 2.5 s (issue 5's figures).
    subprocess.run(["unshare", "--net", "--mount", sys.executable, __file__, "--repeats",
                    str(repeats), "--overload-s", str(overload_s)], check=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, required=True)
    parser.add_argument("--overload-s", type=float, required=True)
    args = parser.parse_args()
    sys.path[:0] = [str(CHAOS), str(CHAOS.parent / "integration")]
    from cluster import ChaosCluster
    from network import Network
    network = Network(["n1", "n2"])
    cluster = ChaosCluster(network, disks={"head": 4 << 30, "worker": 512 << 20})
    try:
        cluster.up()
        measure(cluster, network, args.repeats, args.overload_s)
    finally:
        cluster.close()


def measure(cluster, network, count: int, overload: float) -> None:  # type: ignore[no-untyped-def]
    from rt_cluster import note, print_bench
    from search import ChainSearch
    search = ChainSearch(cluster, "loss", trials=1, steps=10**7, pause_s=STEP_S,
                         checkpoint_every=CHECKPOINT_EVERY, checkpoint_bytes=STATE_BYTES)
    search.submit()

    def cut(node: str) -> Callable[[], None]:
        network.cable(node, False)
        return lambda: network.cable(node, True)

    def killed(node: str) -> Callable[[], None]:
        network.kill_all(node)
        return cluster.daemons[node].start

    def noticed(node: str) -> Callable[[], None]:
        cluster.notice(node).write_text(json.dumps({"deadline_s": 60}))
        return cluster.notice(node).unlink

    for name, inject, bar, peer in (
            ("node_cut", cut, "<=3", "Ray 2.60, disk shared: 66 s"),
            ("node_killed", killed, "<=1.8", "Ray 2.60, disk shared: 2.5 s"),
            ("notice", noticed, "<=1.5", "Ray 2.60: no notice is heard")):
        took = [once(cluster, search, inject) for _ in range(count)]
        print_bench(name, statistics.median(took), "s", bar, peer)
        note(f"{count} times, state of {STATE_BYTES / 1e6:.0f} MB: "
             + " ".join(f"{seconds:.2f}" for seconds in sorted(took)))
    print_bench("false_deaths", false_deaths(cluster, search, overload), "nodes", "0", "-")
    note(f"{overload:.0f} s at {SPINNERS_PER_CORE} spinning processes per core")
    cluster.rt("exp", "stop", str(search.number))


def once(cluster, search, inject) -> float:  # type: ignore[no-untyped-def]
    """Seconds from the fault to the first step that the next attempt was told of."""
    from harness import wait_until
    cluster.wait_ready()
    attempt = wait_until("it runs", lambda: max(
        (int(path.suffix[1:]) for path in search.notes.glob("*")), default=0))
    notes = search.notes / f"1_0.{attempt}"
    wait_until("it has a checkpoint", lambda: '"committed"' in notes.read_text())
    time.sleep(random.uniform(0, CHECKPOINT_EVERY * STEP_S))  # Any moment between two checkpoints.
    node = next(node for node in cluster.nodes if any(
        "chain_trial.py" in text for text in cluster.network.processes(node).values()))
    after = search.notes / f"1_0.{attempt + 1}"
    begin = time.time()
    heal = inject(node)

    def first_step() -> float:
        lines = after.read_text().splitlines() if after.exists() else []
        return float(json.loads(lines[1])["t"]) if len(lines) > 1 else 0.0
    took = wait_until("the next attempt's first step", first_step, 60) - begin
    heal()
    return float(took)


def false_deaths(cluster, search, overload: float) -> int:  # type: ignore[no-untyped-def]
    """Attempts that ended as lost while the processors were taken."""
    cluster.wait_ready()

    def losses() -> int:
        shown = cluster.json("trial", "show", f"{search.number}/0")
        return sum(one["outcome"] == "LOST" for one in shown["attempts"])
    before = losses()
    count = SPINNERS_PER_CORE * len(os.sched_getaffinity(0))
    spinners = [subprocess.Popen([sys.executable, "-E", "-S", "-c", "while True: pass"])
                for _ in range(count)]
    try:
        time.sleep(overload)
        return losses() - before
    finally:
        for spinner in spinners:
            spinner.kill()
            spinner.wait()


if __name__ == "__main__":
    main()
