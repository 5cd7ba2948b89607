"""A trial of real ranks is resized: 1 -> 2 -> 1, from the checkpoint that its ranks saved."""

import json
import unittest
from typing import Any

from harness import wait_until
from rank_script import RankScriptTest

# Saves at every step, in step with the other ranks, until it is told to end.
RANK = """
import json, os, pathlib, socket, sys, time

rank, size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
generation, files = int(os.environ["RT_GENERATION"]), pathlib.Path(sys.argv[1])
wire = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
wire.connect(os.environ["RT_SOCKET"])
lines = wire.makefile("rb")

def ask(message, op):
    wire.sendall(json.dumps(message).encode() + b"\\n")
    while True:
        answer = json.loads(lines.readline())
        if answer["op"] == op:
            return answer

ask({"op": "hello", "token": os.environ["RT_TOKEN"]}, "hello")
base = 0
if "RT_CHECKPOINT_DIR" in os.environ:
    base = int((pathlib.Path(os.environ["RT_CHECKPOINT_DIR"]) / "step").read_text())
print(f"generation {generation}, rank {rank} of {size}, from step {base}", flush=True)
step = base
# Ranks that end at another step than the others would wait for them.
while not (size == 1 and (files / "end").exists()):
    step += 1
    if size > 1:
        ask({"op": "arrive", "number": step - base}, "passed")
    time.sleep(0.02)
    folder = pathlib.Path(os.environ["RT_TRIAL_DIR"]) / f"step-{generation}-{rank}-{step}"
    folder.mkdir()
    (folder / "step").write_text(str(step))
    ask({"op": "report", "seq": step - base, "metrics": {"size": size, "step": step},
         "checkpoint": str(folder), "together": True}, "ack")
    with open(files / f"steps-{generation}-{rank}", "a") as log:
        log.write(json.dumps([step, time.monotonic()]) + "\\n")
"""


class ResizeTest(RankScriptTest):
    script = RANK

    def submit(self) -> int:
        return self.submit_ranks("resized", "{cpu: 1}")

    def steps(self, generation: int, rank: int = 0) -> list[Any]:
        path = self.files / f"steps-{generation}-{rank}"
        lines = path.read_text().splitlines() if path.exists() else []
        return [json.loads(line) for line in lines]

    def wait_steps(self, generation: int, ranks: int) -> None:
        wait_until(f"generation {generation} makes steps", lambda: all(
            len(self.steps(generation, rank)) >= 3 for rank in range(ranks)))

    def test_1_to_2_to_1(self) -> None:
        number = self.submit()
        self.wait_steps(1, 1)
        refused = self.cluster.rt("trial", "resize", f"{number}/0", "--ranks", "3", check=False)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("no capacity for 2 more ranks of 1 cpu", refused.stderr)
        said = self.cluster.json("trial", "resize", f"{number}/0", "--ranks", "2")
        self.assertEqual((said["action"], said["items"][0]["id"]), ("resize", f"{number}/0"))
        self.wait_steps(2, 2)
        self.cluster.rt("trial", "resize", f"{number}/0", "--ranks", "1")
        self.wait_steps(3, 1)
        for before, after in ((1, 2), (2, 3)):
            pause = self.steps(after)[0][1] - self.steps(before)[-1][1]
            print(f"resize to generation {after}: {pause:.2f} s between two steps")
        (self.files / "end").touch()
        experiment = self.cluster.wait_experiment(number)
        self.assertEqual(experiment["state"], "COMPLETED")
        trial = self.show(number)
        self.assertEqual([(one["number"], one["generation"], len(one["members"]), one["outcome"])
                          for one in trial["attempts"]],
                         [(1, 1, 1, "RESIZED"), (1, 2, 2, "RESIZED"), (1, 3, 1, "SUCCEEDED")])
        self.assertEqual((trial["failures"], trial["preemptions"]), (0, 0))
        # Every step counts once, though some were made again by the next generation.
        rows = self.cluster.rows(experiment, trial)
        self.assertEqual([row["step"] for row in rows], list(range(1, len(rows) + 1)))
        sizes = [row["size"] for row in rows]
        changes = [size for i, size in enumerate(sizes) if i == 0 or size != sizes[i - 1]]
        self.assertEqual(changes, [1, 2, 1])
        logs = self.cluster.rt("logs", f"{number}/0", "--rank", "1", "--stream", "stdout").stdout
        self.assertIn("generation 2, rank 1 of 2", logs)


if __name__ == "__main__":
    unittest.main()
