"""Ranks that save together: all, or nobody. Two real ranks, killed between their commits."""

import os
import pathlib
import signal
import unittest

from harness import wait_until
from rank_script import RankScriptTest

# Each rank reports steps; the parts of one step are files of its own. Told to by a file, a rank
# waits before it saves step 4. Rank 0 waits there for rank 1's step 3: the head keeps the parts of
# the newest few steps of one rank that wait for another's.
RANK = """
import json, os, pathlib, socket, sys, time

rank, attempt = int(os.environ["RANK"]), int(os.environ["RT_ATTEMPT"])
files = pathlib.Path(sys.argv[1])
wire = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
wire.connect(os.environ["RT_SOCKET"])
lines = wire.makefile("rb")

def ask(message, op):
    wire.sendall(json.dumps(message).encode() + b"\\n")
    while True:
        answer = json.loads(lines.readline())
        if answer["op"] == op:
            return answer

hello = ask({"op": "hello", "token": os.environ["RT_TOKEN"]}, "hello")
base, found = 0, []
if "RT_CHECKPOINT_DIR" in os.environ:
    folder = pathlib.Path(os.environ["RT_CHECKPOINT_DIR"])
    found = sorted(each.name for each in folder.iterdir())
    base = int((folder / f"shard-{rank}").read_text())
    assert (folder / "common").read_text() == "of rank 0", "of files with one name rank 0's stays"
# A rename: the test never sees the file without its text.
started = files / f"start-{attempt}-{rank}"
started.with_suffix(".new").write_text(json.dumps([base, found]))
started.with_suffix(".new").rename(started)
for step in range(base + 1, 7):
    while step == 4 and (files / f"hold-{attempt}-{rank}").exists():
        time.sleep(0.02)
    while base < 3 and step == 4 and rank == 0 and not (files / f"third-{attempt}-1").exists():
        time.sleep(0.02)
    folder = pathlib.Path(os.environ["RT_TRIAL_DIR"]) / f"step-{step}"
    folder.mkdir()
    (folder / f"shard-{rank}").write_text(str(step))
    (folder / "common").write_text(f"of rank {rank}")
    ask({"op": "report", "seq": step - base, "metrics": {"i": step}, "checkpoint": str(folder),
         "together": True, "commit": True}, "ack")
    if step == 3:
        (files / f"third-{attempt}-{rank}").touch()
(files / f"done-{attempt}-{rank}").touch()
"""


class RanksSaveTest(RankScriptTest):
    script = RANK

    def submit(self) -> int:
        return self.submit_ranks("save", "{cpu: 1, ranks: 2, strategy: STRICT_SPREAD}")

    def steps(self, number: int) -> list:
        return [one["step"] for one in self.show(number)["checkpoints"]]

    def test_killed_between_the_two_commits(self) -> None:
        (self.files / "hold-1-1").touch()
        number = self.submit()
        # Rank 0 has committed its part of all six steps; rank 1 holds before step 4.
        wait_until("rank 0 has saved", (self.files / "done-1-0").exists)
        wait_until("step 3 is whole", lambda: 3 in self.steps(number))
        self.assertEqual(self.steps(number), [1, 2, 3])
        self.assertEqual([len(one["parts"]) for one in self.show(number)["checkpoints"]], [1] * 3)
        self.lose_rank_1(number)
        for rank in range(2):
            start = self.files / f"start-2-{rank}"
            wait_until(f"rank {rank} has started again", start.exists)
            self.assertEqual(start.read_text(), '[3, ["common", "shard-0", "shard-1"]]')
        self.assertEqual(self.cluster.wait_experiment(number)["state"], "COMPLETED")
        trial = self.show(number)
        self.assertEqual(trial["failures"], 0)
        self.assertEqual([one["step"] for one in trial["checkpoints"]], [1, 2, 3, 4, 5, 6])
        self.pulls_both(trial["checkpoints"][-1])

    def lose_rank_1(self, number: int) -> None:
        """Its machine goes: daemon, shim and program at once."""
        member = self.show(number)["attempts"][0]["members"][1]
        name = next(node["name"] for node in self.cluster.json("node", "list")["items"]
                    if node["id"] == member["node_id"])
        shim = int(pathlib.Path(f"/proc/{member['pid']}/stat").read_text().split()[3])
        for pid in (self.cluster.pid(name), shim, member["pid"]):
            os.kill(pid, signal.SIGKILL)

    def pulls_both(self, checkpoint: dict) -> None:
        """Who fetches the checkpoint gets the files of all ranks."""
        target = self.cluster.home / "pulled"
        self.cluster.bridge([{"op": "blob_pull_dir", "manifest": manifest, "target": str(target)}
                             for manifest in [*checkpoint["parts"], checkpoint["manifest"]]])
        self.assertEqual({each.name: each.read_text() for each in target.iterdir()},
                         {"common": "of rank 0", "shard-0": "6", "shard-1": "6"})


if __name__ == "__main__":
    unittest.main()
