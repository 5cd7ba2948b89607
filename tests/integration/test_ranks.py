"""Trials of several ranks on real daemons: they meet, end and start again together."""

import json
import os
import pathlib
import signal
import subprocess
import unittest

from harness import PYTHON, ROOT, Cluster, has, wait_until
from rank_script import RankScriptTest

HAS_TORCH = has("torch")

# Meets the other ranks at MASTER_ADDR:MASTER_PORT, over and over until told otherwise by a file.
MEET = r"""
import json, os, pathlib, socket, sys, time
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
place = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
files = pathlib.Path(sys.argv[1])
deadline = time.monotonic() + 60
if rank == 0:
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(place)
    server.listen()
    peers = [server.accept()[0] for _ in range(size - 1)]
    seen = sorted(int(peer.recv(16)) for peer in peers)
    for peer in peers:
        peer.sendall(b"go")
else:
    while True:
        try:
            peer = socket.create_connection(place)
            break
        except ConnectionRefusedError:
            assert time.monotonic() < deadline
            time.sleep(0.02)
    peer.sendall(str(rank).encode())
    seen = [peer.recv(16).decode()]
names = ["RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK", "MASTER_PORT"]
print("RT_REPORT " + json.dumps({"rank": rank, "seen": str(seen),
      "env": {name: os.environ[name] for name in names}}), flush=True)
(files / f"met-{os.environ['RT_ATTEMPT']}-{rank}").touch()
while not (files / "end").exists():
    if (files / f"fail-{os.environ['RT_ATTEMPT']}-{rank}").exists():
        sys.exit(3)
    time.sleep(0.02)
"""

# Every rank adds its own gradient; all_reduce must give all of them the same parameters.
TORCH = """
import json, os
from rt import train, tune

def train_ranks(config):
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    context = train.get_context()
    assert (context.get_world_rank(), context.get_world_size()) == (rank, size)
    assert context.get_local_world_size() in (1, 2) and context.get_node_rank() in (0, 1)
    torch.manual_seed(rank)
    weight = torch.zeros(3)
    for step in range(5):
        gradient = torch.full((3,), float(rank + 1)) * config["lr"]
        dist.all_reduce(gradient)
        weight -= gradient / size
        all_weights = [torch.zeros(3) for _ in range(size)]
        dist.all_gather(all_weights, weight)
        assert all(torch.equal(weight, other) for other in all_weights)
        train.report({"weight": weight[0].item(), "rank": rank, "size": size})
    dist.destroy_process_group()

trainable = tune.with_resources(
    train_ranks, train.ScalingConfig(num_workers=3, placement_strategy="SPREAD"))
results = tune.Tuner(trainable, param_space={"lr": tune.grid_search([0.5, 1.0])},
                     tune_config=tune.TuneConfig(metric="weight", mode="max")).fit()
print(json.dumps([[each.metrics[key] for key in ("weight", "rank", "size", "training_iteration")]
                  for each in results]))
"""


class RanksTest(RankScriptTest):
    script = MEET
    cpus = 2

    def submit(self, resources: str, more: str = "") -> int:
        return self.submit_ranks("ranks", resources, more)

    def wait_met(self, attempt: int, ranks: int) -> None:
        wait_until(f"the ranks of attempt {attempt} met", lambda: all(
            (self.files / f"met-{attempt}-{rank}").exists() for rank in range(ranks)))

    def attempts(self, number: int) -> list:
        return self.cluster.json("trial", "show", f"{number}/0")["attempts"]

    def test_ranks_meet_and_rank_0_reports_for_the_trial(self) -> None:
        number = self.submit("{cpu: 1, ranks: 3}")
        self.wait_met(1, 3)
        members = self.attempts(number)[0]["members"]
        self.assertEqual([member["rank"] for member in members], [0, 1, 2])
        self.assertEqual(len({member["node_id"] for member in members}), 2)
        self.assertEqual(len({member["pid"] for member in members}), 3)
        said = self.cluster.rt("logs", f"{number}/0", "--rank", "1", "--stream", "stdout").stdout
        self.assertIn('"rank": 1', said)
        refused = self.cluster.rt("logs", f"{number}/0", "--rank", "3", check=False)
        self.assertIn("its ranks are 0 to 2", refused.stderr)
        (self.files / "end").touch()
        experiment = self.cluster.wait_experiment(number)
        self.assertEqual(experiment["trials_by_state"]["COMPLETED"], 1)
        trial = self.cluster.trials(number)[0]
        rows = self.cluster.rows(experiment, trial)
        self.assertEqual([row["rank"] for row in rows], [0])
        self.assertEqual(rows[0]["seen"], "[1, 2]")
        self.assertEqual(trial["reports"], 1)
        env = rows[0]["env"]
        self.assertEqual((env["WORLD_SIZE"], env["LOCAL_WORLD_SIZE"], env["LOCAL_RANK"],
                          env["NODE_RANK"]), ("3", "2", "0", "0"))

    def test_a_rank_that_fails_ends_the_others_and_all_start_again(self) -> None:
        number = self.submit("{cpu: 1, ranks: 2, strategy: STRICT_SPREAD}", "max_failures: 1")
        self.wait_met(1, 2)
        (self.files / "fail-1-1").touch()
        self.wait_met(2, 2)
        first = self.attempts(number)[0]
        self.assertEqual((first["outcome"], first["exit_code"], first["reason"]),
                         ("FAILED", 3, "rank 1: exited with code 3"))
        (self.files / "end").touch()
        experiment = self.cluster.wait_experiment(number)
        self.assertEqual(experiment["state"], "COMPLETED")
        self.assertEqual(self.cluster.trials(number)[0]["failures"], 1)
        self.assertEqual([a["outcome"] for a in self.attempts(number)], ["FAILED", "SUCCEEDED"])

    def test_a_lost_node_starts_the_whole_attempt_again(self) -> None:
        number = self.submit("{cpu: 1, ranks: 2, strategy: STRICT_SPREAD}")
        self.wait_met(1, 2)
        members = self.attempts(number)[0]["members"]
        pids = [member["pid"] for member in members]
        name = next(node["name"] for node in self.cluster.json("node", "list")["items"]
                    if node["id"] == members[1]["node_id"])
        # The machine goes: its daemon, its shim and its program, all at once.
        daemon = self.cluster.pid(name)
        shim = int(pathlib.Path(f"/proc/{pids[1]}/stat").read_text().split()[3])
        for pid in (daemon, shim, pids[1]):
            os.kill(pid, signal.SIGKILL)
        self.wait_met(2, 2)
        wait_until("rank 0 of the lost attempt is gone",
                   lambda: not pathlib.Path(f"/proc/{pids[0]}").exists())
        (self.files / "end").touch()
        self.assertEqual(self.cluster.wait_experiment(number)["state"], "COMPLETED")
        trial = self.cluster.trials(number)[0]
        self.assertEqual((trial["failures"], trial["preemptions"]), (0, 1))

    def test_a_killed_daemon_disturbs_no_rank(self) -> None:
        number = self.submit("{cpu: 1, ranks: 2, strategy: STRICT_SPREAD}")
        self.wait_met(1, 2)
        for name in ("worker-1", "worker-2"):
            pid = self.cluster.kill(name)
            wait_until(f"{name} is back", lambda n=name, p=pid: self.cluster.pid(n) != p)
        self.cluster.kill("head")
        (self.files / "end").touch()
        self.assertEqual(self.cluster.wait_experiment(number)["state"], "COMPLETED")
        self.assertEqual([a["outcome"] for a in self.attempts(number)], ["SUCCEEDED"])

    def test_a_gang_that_can_never_fit_is_refused_and_one_that_waits_says_why(self) -> None:
        path = self.cluster.work / "big.yaml"
        path.write_text("experiment: big\ncommand: [x]\n"
                        "resources: {cpu: 1, ranks: 3, strategy: STRICT_SPREAD}\n")
        done = self.cluster.rt("submit", "-o", "json", str(path), check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("cannot hold them at once", json.loads(done.stderr)["error"]["message"])
        first = self.submit("{cpu: 1, ranks: 2, strategy: STRICT_SPREAD}")
        self.wait_met(1, 2)
        waits = self.cluster.submit("waits", """
experiment: waits
command: ["true"]
resources: {bundles: [{cpu: 2}, {cpu: 1}]}
""")
        shown = self.cluster.json("trial", "show", f"{waits}/0")["waiting"]
        self.assertEqual(shown["reason"], "needs 2 bundles of 2 cpus; 1 cpu (PACK), all at "
                                          "once; 1 of them fit now")
        self.assertEqual((shown["needs"]["cpu"], shown["needs"]["strategy"]), (3, "PACK"))
        (self.files / "end").touch()
        for number in (first, waits):
            self.assertEqual(self.cluster.wait_experiment(number)["state"], "COMPLETED")


@unittest.skipUnless(HAS_TORCH, "torch==2.13.0 is not installed in build/venv")
class TorchTest(unittest.TestCase):
    def test_torch_distributed_over_two_workers(self) -> None:
        cluster = Cluster(workers=2, cpus=2)
        self.addCleanup(cluster.close)
        cluster.up()
        (cluster.work / "ranks.py").write_text(TORCH)
        cluster.env["PATH"] = f"{PYTHON.parent}:{cluster.env['PATH']}"
        cluster.env["PYTHONPATH"] = str(ROOT / "python")
        done = cluster.rt("submit", "ranks.py")
        self.assertEqual(json.loads(done.stdout.splitlines()[-1]),
                         [[-5.0, 0, 3, 5], [-10.0, 0, 3, 5]])


if __name__ == "__main__":
    unittest.main()
