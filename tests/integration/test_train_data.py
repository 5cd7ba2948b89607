"""Data sets of a trainer with real daemons: each row once per epoch, also when ranks are killed."""

import collections
import json
import os
import signal
import unittest

from harness import wait_until
from test_train import PYTHON, TrainCase

ROWS, EPOCHS = 90, 3
SCRIPT = """
import json, os, pathlib, sys, tempfile, time
from rt import data, train
from rt.train import Checkpoint, DataParallelTrainer, FailureConfig, ScalingConfig

def loop(config):
    files, rank = pathlib.Path(config["files"]), train.get_context().get_world_rank()
    seen, first, checkpoint = [], 0, train.get_checkpoint()
    if checkpoint is not None:
        state = json.loads((pathlib.Path(checkpoint.path) / f"rank-{rank}.json").read_text())
        seen, first = state["seen"], state["epoch"]
    batches = train.get_dataset_shard("train").iter_batches(batch_size=4)
    for epoch in range(first, config["epochs"]):
        for number, batch in enumerate(batches):
            seen += [[epoch, row] for row in batch["id"].tolist()]
            if number % 3 == 0:
                with tempfile.TemporaryDirectory() as directory:
                    state = {"seen": seen, "epoch": epoch}
                    (pathlib.Path(directory) / f"rank-{rank}.json").write_text(json.dumps(state))
                    train.report({"epoch": epoch, "rows": len(seen)},
                                 checkpoint=Checkpoint.from_directory(directory))
            if epoch == 1 and number == 4:
                (files / f"held-{rank}-{os.getpid()}").touch()
                while not (files / "go").exists():
                    time.sleep(0.01)
    (files / f"seen-{rank}.json").write_text(json.dumps(seen))

dataset = data.range(int(sys.argv[2])).filter(lambda row: row["id"] % 5 != 0)
result = DataParallelTrainer(
    loop, train_loop_config={"files": sys.argv[1], "epochs": int(sys.argv[3])},
    datasets={"train": dataset.random_shuffle(seed=4)},
    scaling_config=ScalingConfig(num_workers=2),
    run_config=train.RunConfig(failure_config=FailureConfig(max_failures=1)),
).fit()
print("positions", [name for name in sorted(os.listdir(result.checkpoint.path)) if "data" in name])
"""


class TrainDataTest(TrainCase):
    def python(self) -> str:
        return str(PYTHON)  # It has pyarrow.

    def test_a_killed_rank_repeats_and_skips_no_row(self) -> None:
        driver = self.start(SCRIPT, self.files, ROWS, EPOCHS)
        wait_until("both ranks are in epoch 1", lambda: len(list(self.files.glob("held-*"))) == 2)
        (held,) = self.files.glob("held-1-*")
        os.kill(int(held.name.rpartition("-")[2]), signal.SIGKILL)
        wait_until("both ranks are there again",
                   lambda: len(list(self.files.glob("held-*"))) == 4)
        (self.files / "go").touch()
        self.assertIn("positions ['.rt_data.0.json', '.rt_data.1.json']", self.finish(driver))
        shares = [json.loads((self.files / f"seen-{rank}.json").read_text()) for rank in range(2)]
        self.assertLessEqual(abs(len(shares[0]) - len(shares[1])), EPOCHS)
        taken = collections.Counter(tuple(each) for share in shares for each in share)
        wanted = {(epoch, row) for epoch in range(EPOCHS) for row in range(ROWS) if row % 5}
        self.assertEqual(set(taken), wanted)
        self.assertEqual(set(taken.values()), {1})


if __name__ == "__main__":
    unittest.main()
