"""Ranks of a trainer on nodes with network namespaces of their own: 2 and 1 of them, a notice for
one of the nodes, and the weights of torchrun at the end. `run` starts this inside namespaces.

Exit codes: 0, 1 something was not so, 77 build/venv has no PyTorch.
"""

from __future__ import annotations

import pathlib
import subprocess
import sys
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))

from cluster import ChaosCluster  # noqa: E402
from harness import ROOT, wait_until  # noqa: E402
from network import Network  # noqa: E402
from test_train import HAS_TORCH, PYTHON, WEIGHTS  # noqa: E402

DEADLINE_S = 240
RANKS = 3


def torchrun(script: pathlib.Path, env: dict[str, str]) -> str:
    """The digest of the weights that the script ends with, without rt."""
    done = subprocess.run(
        [str(PYTHON), "-m", "torch.distributed.run", "--standalone", "--nproc-per-node",
         str(RANKS), str(script)], text=True, capture_output=True, check=True, timeout=DEADLINE_S,
        env={**env, "OMP_NUM_THREADS": "1"})
    return done.stdout.split("weights ")[1].split()[0]


def nodes_of(cluster: ChaosCluster) -> list[str]:
    """The names of the nodes of the newest attempt, by rank."""
    names = {node["id"]: node["name"] for node in cluster.json("node", "list")["items"]}
    attempt: dict[str, Any] = cluster.json("trial", "show", "1/0")["attempts"][-1]
    return [names[member["node_id"]] for member in attempt["members"]]


def check(cluster: ChaosCluster) -> None:
    cluster.env.update(PYTHONPATH=str(ROOT / "python"), RT_CLUSTER="it")
    files = cluster.home / "files"
    files.mkdir(mode=0o777)
    script = cluster.work / "script.py"
    script.write_text(WEIGHTS)
    expected = torchrun(script, cluster.env)
    driver = subprocess.Popen(
        [str(PYTHON), str(script), str(files), "[2, 3]", str(RANKS), "spread", "1"], text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
        cwd=cluster.work, env=cluster.env)
    try:
        wait_until("rank 0 is at epoch 2", (files / "held-2-1").exists, DEADLINE_S)
        first = nodes_of(cluster)
        assert len(set(first)) == 2 and first == sorted(first, key=first.index), first
        cluster.notice(first[-1]).touch()
        wait_until("the node drains", lambda: cluster.node(first[-1])["state"] == "DRAINING", 30)
        wait_until("the ranks train elsewhere", (files / "held-3-2").exists, DEADLINE_S)
        second = nodes_of(cluster)
        assert len(set(second)) == 2 and first[-1] not in second, (first, second)
        (files / "go-3").touch()
        said, _ = driver.communicate(timeout=DEADLINE_S)
    except AssertionError:
        driver.kill()
        print(driver.communicate()[0], file=sys.stderr)
        raise
    finally:
        driver.kill()
    assert driver.returncode == 0 and f"weights {expected}" in said, said
    attempts = cluster.json("trial", "show", "1/0")["attempts"]
    assert [each["outcome"] for each in attempts] == ["PREEMPTED", "SUCCEEDED"], attempts


def main() -> int:
    if not HAS_TORCH:
        print("chaos: build/venv has no PyTorch", file=sys.stderr)
        return 77
    cluster = ChaosCluster(Network(["n1", "n2", "n3"]), cpus=2)
    try:
        cluster.up()
        check(cluster)
    except AssertionError:
        print(cluster.logs(), file=sys.stderr)
        raise
    finally:
        cluster.close()
    print("chaos: 3 ranks on two of three nodes, a notice: the weights are those of torchrun")
    return 0


if __name__ == "__main__":
    sys.exit(main())
