"""Two elastic jobs and a search on three nodes that are network namespaces, with one cpu each. The
jobs train with rt.elastic.torch. They arrive one after another and end one after another: the
shares move, nobody starves, and no step is lost or made twice. `run` starts this inside namespaces.

Exit codes: 0, 1 something was not so, 77 build/venv has no PyTorch.
"""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import time
from typing import Any, Callable

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))

from cluster import ChaosCluster  # noqa: E402
from harness import BIN, ROOT, wait_until  # noqa: E402
from network import Network  # noqa: E402
from search import ChainSearch  # noqa: E402
from test_train import HAS_TORCH, PYTHON  # noqa: E402

DEADLINE_S = 200
NODES = ["n1", "n2", "n3"]
INTERVAL_S = 5  # Between two sizes of a job.
# A request for a checkpoint that not every rank gets waits for 30 s. Saving takes far less.
SAVES_WITHIN_S = 29

# Trains until a file says to end. A sample takes 10 ms, so that more ranks are faster. An epoch is
# so long that a rank's first row is usually that of a resize. Each rank notes the steps it made.
TRAIN = """
import json, os, pathlib, sys, time
import torch
import rt.elastic as adaptdl
import rt.elastic.torch as adl
from torch import nn

files = pathlib.Path(sys.argv[1])
run = os.environ["RT_ATTEMPT"] + "." + os.environ["RT_GENERATION"]
torch.set_num_threads(1)
torch.manual_seed(3)
inputs = torch.randn(4800, 8)
data = torch.utils.data.TensorDataset(inputs, (inputs.sum(1) > 0).long())
loader = adl.AdaptiveDataLoader(data, batch_size=24, shuffle=True)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
adl.init_process_group("gloo")
model = adl.AdaptiveDataParallel(model, optimizer)
rank, is_over = adaptdl.env.replica_rank(), False
with open(files / f"steps-{run}-{rank}", "a", buffering=1) as steps:
    for epoch in adl.remaining_epochs_until(1000):
        for batch, labels in loader:
            time.sleep(0.01 * len(batch))
            loss = nn.functional.cross_entropy(model(batch), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            steps.write(json.dumps([epoch, loader.current_index, time.monotonic()]) + "\\n")
            if loader.current_index % 240 == 0:
                is_over = adaptdl.collective.broadcast((files / "end").exists())
            if is_over:
                break
        if is_over:
            break
print("ended at step", epoch, loader.current_index)
"""


class Job:
    """An elastic job of 1 to 3 ranks."""

    def __init__(self, cluster: ChaosCluster, name: str) -> None:
        self.cluster = cluster
        self.name = name
        self.files = cluster.home / name
        self.files.mkdir(mode=0o777)
        cluster.rt("submit", "--name", name, "--elastic", "1:3", "--detach", "train.py", "--",
                   str(self.files))
        self.submitted = time.monotonic()
        self.number = next(one["id"] for one in cluster.json("exp", "list")["items"]
                           if one["name"] == name)

    def attempts(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.cluster.json("trial", "show", f"{self.number}/0")[
            "attempts"]
        return found

    def ranks(self) -> int:
        """0: it does not run."""
        live = [one for one in self.attempts() if not one["outcome"]]
        return len(live[-1]["members"]) if live else 0

    def steps(self, attempt: dict[str, Any], rank: int = 0) -> list[list[Any]]:
        """Of one generation of one attempt: none if it was ended before its first step."""
        path = self.files / f"steps-{attempt['number']}.{attempt['generation']}-{rank}"
        text = path.read_text() if path.exists() else ""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line[-1] == "\n"]

    def count(self) -> int:
        """The steps that rank 0 has made."""
        return sum(len(self.steps(one)) for one in self.attempts())

    def wait_steps(self) -> None:
        """Until every rank of its newest size trains."""
        def trains() -> bool:
            live = self.attempts()[-1]
            return not live["outcome"] and all(
                self.steps(live, rank) for rank in range(len(live["members"])))
        wait_until(f"all ranks of {self.name} train", trains, DEADLINE_S)

    def wait_ranks(self, what: str, holds: Callable[[int], bool]) -> None:
        wait_until(f"{self.name} has {what}", lambda: holds(self.ranks()), DEADLINE_S)

    def end(self) -> None:
        (self.files / "end").touch()
        ended = self.cluster.wait_experiment(self.number, DEADLINE_S)
        assert ended["state"] == "COMPLETED", ended
        trial = self.cluster.json("trial", "show", f"{self.number}/0")
        assert (trial["failures"], trial["preemptions"]) == (0, 0), trial

    def check_steps(self) -> None:
        """Each step was made once: what a generation saved last is where the next one began."""
        made: list[int] = []
        for one in self.attempts():
            steps = self.steps(one)
            for rank in range(1, len(one["members"])):
                theirs = [step[:2] for step in self.steps(one, rank)]
                assert theirs == [step[:2] for step in steps], (one, rank)
            made += [4800 * epoch + index for epoch, index, _ in steps]
        wanted = list(range(0, 24 * len(made), 24))
        assert made == wanted, f"{self.name}: not each step once: {made}, {self.attempts()}"


def pauses(job: Job) -> list[float]:
    """Seconds from the last step of a size to the first one of the next."""
    ends = [(steps[0][2], steps[-1][2]) for steps in map(job.steps, job.attempts()) if steps]
    return [after[0] - before[1] for before, after in zip(ends, ends[1:])]


def gives_way(first: Job, to: str, starts: Callable[[], bool]) -> None:
    """Waits until the other one has a place, which `first` gives up in time."""
    wait_until(f"{to} has a place", starts, DEADLINE_S)
    resized = [first.steps(one) for one in first.attempts() if one["outcome"] == "RESIZED"]
    last = resized[-1][-1][2]
    print(f"chaos: {first.name} gave way to {to} after {time.monotonic() - last:.1f} s "
          f"without a step")
    assert time.monotonic() - last < SAVES_WITHIN_S, "not every rank was asked to save"


def check(cluster: ChaosCluster) -> None:
    path = f"{PYTHON.parent}:{cluster.env['PATH']}"
    cluster.env.update(PYTHONPATH=str(ROOT / "python"), RT_CLUSTER="it", PATH=path,
                       OMP_NUM_THREADS="1")
    (cluster.work / "train.py").write_text(TRAIN)
    first = Job(cluster, "first")
    first.wait_ranks("all nodes", lambda ranks: ranks == 3)
    first.wait_steps()
    second = Job(cluster, "second")
    gives_way(first, "second", lambda: second.ranks() > 0)
    second.wait_steps()
    # The search occupies one node until the end; the two jobs share the other two nodes.
    search = ChainSearch(cluster, "search", trials=1, steps=40, pause_s=0.05, checkpoint_every=10,
                         gated=True)
    search.submit()
    wait_until("the search has a place", lambda: search.committed_count() > 0, DEADLINE_S)
    for job, count in [(job, job.count()) for job in (first, second)]:
        wait_until(f"{job.name} trains, too", lambda job=job, count=count: job.count() > count,
                   DEADLINE_S)
    second.end()
    first.wait_ranks("more than one node again", lambda ranks: ranks > 1)
    first.wait_steps()
    first.end()
    search.open_gate()
    search.wait_done(1)
    search.check_chain()
    for job in (first, second):
        job.check_steps()
        sizes = [len(one["members"]) for one in job.attempts()]
        assert job is second or (sizes[:2] == [1, 3] and sizes[-2:] == [1, 2]), sizes
        print(f"chaos: {job.name} had {sizes} ranks; pauses",
              " ".join(f"{each:.1f}" for each in pauses(job)), "s")


def main() -> int:
    if not HAS_TORCH:
        print("chaos: build/venv has no PyTorch", file=sys.stderr)
        return 77
    cluster = ChaosCluster(Network(NODES))
    config = json.loads(cluster.config.read_text())
    cluster.config.write_text(json.dumps({**config, "elastic": {"interval_s": INTERVAL_S}}))
    try:
        cluster.up()
        check(cluster)
    except AssertionError:
        print(cluster.logs(), file=sys.stderr)
        raise
    finally:
        cluster.close()
    print("chaos: two elastic jobs and a search arrived and ended on three nodes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
