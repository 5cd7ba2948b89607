"""What `durable_after` buys where the store is far: `slow_store`, on namespaces as nodes, as root.

The way to the head carries 50 Mbit/s, between the nodes nothing is held up. One trial of steps of
50 ms saves 32 MB at every 20th: the store takes one in 5.1 s, the trial makes one each second.

    slow_store_steps_*    steps per second that the trial makes, of 20 that it would without saving
    slow_store_commit_*   from a report that waits for its checkpoint's commit to the answer
    slow_store_lost_*     steps that are trained again after its node's cable is pulled
"""

from __future__ import annotations

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import time
from typing import Any

CHAOS = pathlib.Path(__file__).resolve().parents[1] / "chaos"
STATE_BYTES = 32_000_000
STEP_S = 0.05
CHECKPOINT_EVERY = 20
RATE = "50mbit"

measure_s = 30.0


def slow_store(with_peers: bool) -> None:
    """Makes its namespaces, and measures inside."""
    del with_peers  # Ray commits a checkpoint once its shared storage has it: as `store`.
    subprocess.run(["unshare", "--net", "--mount", sys.executable, __file__, "--seconds",
                    str(measure_s)], check=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, required=True)
    args = parser.parse_args()
    sys.path[:0] = [str(CHAOS), str(CHAOS.parent / "integration")]
    from cluster import ChaosCluster
    from network import Network, command
    network = Network(["n1", "n2", "n3"])
    command("tc", "qdisc", "add", "dev", "v-head", "root", "tbf", "rate", RATE, "burst", "128k",
            "latency", "100ms")
    cluster = ChaosCluster(network, disks={"head": 2 << 30, "worker": 400 << 20})
    try:
        cluster.up()
        for where in ("store", "peer", "local"):
            measure(cluster, network, where, args.seconds)
    finally:
        cluster.close()


def measure(cluster: Any, network: Any, where: str, seconds: float) -> None:
    from harness import wait_until
    from rt_cluster import note, print_bench
    from search import ChainSearch
    search = ChainSearch(
        cluster, f"slow-{where}", trials=1, steps=10**7, pause_s=STEP_S,
        checkpoint_every=CHECKPOINT_EVERY, checkpoint_bytes=STATE_BYTES,
        more=f"checkpoints: {{num_to_keep: 1, durable_after: {where}}}\n")
    search.submit()
    first = search.notes / f"{search.number}_0.1"
    wait_until("two checkpoints are committed", lambda: first.exists() and
               first.read_text().count('"committed"') >= 2, 120)
    begin = time.time()
    time.sleep(seconds)
    end = time.time()
    told = [one for one in notes_of(first) if one["t"] <= end]
    steps = sum(one["t"] > begin for one in told) / (end - begin)
    waits = [after["t"] - before["t"] - STEP_S for before, after in zip(told, told[1:])
             if after["t"] > begin and "committed" in after]
    open_since = end - told[-1]["t"] - STEP_S
    if step_of(told[-1]) % CHECKPOINT_EVERY == CHECKPOINT_EVERY - 1 and open_since > 0:
        waits.append(open_since)  # It is still waited for.
    node = next(node for node in cluster.nodes if any(
        "chain_trial.py" in text for text in network.processes(node).values()))
    network.cable(node, False)
    second = search.notes / f"{search.number}_0.2"
    wait_until("it goes on elsewhere", lambda: second.exists() and notes_of(second), 120)
    reached = step_of(notes_of(first)[-1])
    lost = reached - notes_of(second)[0]["start"]
    print_bench(f"slow_store_steps_{where}", steps, "steps/s", "-", f"of {1 / STEP_S:.0f}")
    print_bench(f"slow_store_commit_{where}", statistics.median(waits), "s", "-",
                "Ray: as store")
    print_bench(f"slow_store_lost_{where}", lost, "steps", "-", "Ray: as store")
    note(f"{STATE_BYTES / 1e6:.0f} MB each {CHECKPOINT_EVERY} steps over {RATE}; at step {reached} "
         f"when its node was cut; commits took, in this order, "
         + " ".join(f"{wait:.2f}" for wait in waits))
    network.cable(node, True)
    cluster.rt("exp", "stop", str(search.number))
    cluster.wait_ready()
    wait_until("nothing is on its way any more", lambda: not any(
        list((cluster.home / name / "checkpoints").glob("*.held")) for name in cluster.nodes), 120)


def notes_of(path: pathlib.Path) -> list[dict[str, Any]]:
    """Whole lines only."""
    return [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]


def step_of(one: dict[str, Any]) -> int:
    return int(next(value for key, value in one.items() if key != "t"))


if __name__ == "__main__":
    main()
