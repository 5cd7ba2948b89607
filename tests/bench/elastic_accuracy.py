"""`elastic_accuracy`: whether resizes and kills change what an adaptive training learns. The
example of handwritten digits trains with an adaptive batch, from other weights each time: 10 runs
that nothing disturbs, and 5 that are resized and killed, from the weights of the first 5. The
accuracy of a disturbed run must lie within those of the others.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import time

from rt_cluster import ROOT, BenchCluster, note, print_bench, python_env
from train import PYTHON

from harness import wait_until  # isort: skip

SCRIPT = ROOT / "examples/elastic/digits_elastic.py"
UNDISTURBED, DISTURBED, EPOCHS, RANKS = 10, 5, 30, 2
# After so many epochs: a new size, or None for the kill of the last rank.
DISTURBANCES = [(4, 1), (8, 3), (12, 2), (16, None), (20, 4), (24, None)]


def elastic_accuracy(_with_peers: bool) -> None:
    if subprocess.run([str(PYTHON), "-c", "import sklearn, torch"],
                      capture_output=True).returncode != 0:
        return note("elastic_accuracy: build/venv has no PyTorch; tests/python/venv.sh makes it")
    with BenchCluster(workers=2, cpus=2) as cluster:
        cluster.env.update({**python_env(), "RT_CLUSTER": "it", "OMP_NUM_THREADS": "1",
                            "PATH": f"{PYTHON.parent}:{cluster.env['PATH']}"})
        (cluster.work / SCRIPT.name).write_bytes(SCRIPT.read_bytes())
        calm = [_run(cluster, seed, []) for seed in range(UNDISTURBED)]
        note(f"undisturbed: {_text(calm)}; mean {statistics.mean(calm):.4f}, "
             f"standard deviation {statistics.stdev(calm):.4f}")
        others = [_run(cluster, seed, DISTURBANCES) for seed in range(DISTURBED)]
        better = statistics.mean(one - same for one, same in zip(others, calm))
        note(f"disturbed: {_text(others)}; mean {statistics.mean(others):.4f}, {better:+.4f} "
             "compared with the same weights undisturbed")
    outside = sum(1 for one in others if one < min(calm))
    print_bench("elastic_accuracy_below_spread", outside, "runs", "<=0", "none")
    note(f"of {DISTURBED} disturbed runs; {sum(1 for one in others if one > max(calm))} above it; "
         f"the spread is {min(calm):.4f} to {max(calm):.4f}")


def _text(accuracies: list[float]) -> str:
    return " ".join(f"{one:.4f}" for one in accuracies)


def _run(cluster: BenchCluster, seed: int, disturbances: list[tuple[int, int | None]]) -> float:
    """The accuracy after the last epoch."""
    name, begin = f"digits-{seed}" + "-disturbed" * bool(disturbances), time.monotonic()
    shown = json.loads(cluster.rt(
        "submit", "-o", "json", "--detach", "--name", name, "--nproc-per-node", str(RANKS),
        "--max-restarts", "10", SCRIPT.name, "--", "--epochs", str(EPOCHS), "--accumulate",
        "--seed", str(seed)).stdout)
    trial = f"{shown['id']}/0"

    def show() -> dict:
        return cluster.json("trial", "show", trial)

    for epoch, size in disturbances:
        wait_until(f"{name} has trained {epoch} epochs",
                   lambda epoch=epoch: (show()["step"] or 0) >= epoch, 300)
        before = show()["attempts"][-1]
        if size is None:
            os.kill(before["members"][-1]["pid"], signal.SIGKILL)
        else:
            cluster.rt("trial", "resize", trial, "--ranks", str(size))
        wait_until(f"{name} trains again", lambda before=before: _is_after(before, show()), 300)
    cluster.wait_experiment(shown["id"], 300)
    ended = show()
    rows = [row for row in cluster.rows(cluster.experiment(shown["id"]), ended)
            if "accuracy" in row]
    if ended["state"] != "COMPLETED" or len(rows) != EPOCHS:
        raise SystemExit(f"{name}: {ended['state']} after {len(rows)} epochs\n{cluster.logs()}")
    attempts = [f"{one['number']}.{one['generation']}: {len(one['members'])}"
                for one in ended["attempts"]]
    note(f"{name}: accuracy {rows[-1]['accuracy']:.4f} in {time.monotonic() - begin:.0f} s; "
         f"ranks of each attempt and generation: {', '.join(attempts)}")
    return float(rows[-1]["accuracy"])


def _is_after(before: dict, trial: dict) -> bool:
    """Whether ranks run that are not those of `before`."""
    newest = trial["attempts"][-1]
    is_other = (newest["number"], newest["generation"]) != (before["number"], before["generation"])
    return is_other and all(one["pid"] for one in newest["members"])
