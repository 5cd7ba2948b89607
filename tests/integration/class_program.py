"""A driver whose class trainables die once in their fourth step and go on from what they saved.

    class_program.py path|dict
"""

import json
import os
import signal
import sys

from rt import tune


class Counter(tune.Trainable):
    def _setup(self, config):
        self.total = 0

    def _train(self):
        if self.iteration == 3 and os.environ["RT_ATTEMPT"] == "1":
            os.kill(os.getpid(), signal.SIGKILL)
        self.total += self.config["k"]
        return {"total": self.total, "attempt": int(os.environ["RT_ATTEMPT"])}


class SavesPath(Counter):
    def _save(self, folder):
        path = os.path.join(folder, "total.json")
        with open(path, "w") as out:
            json.dump(self.total, out)
        return path

    def _restore(self, path):
        with open(path) as saved:
            self.total = json.load(saved)


class SavesDict(Counter):
    def _save(self, folder):
        return {"total": self.total}

    def _restore(self, saved):
        self.total = saved["total"]


analysis = tune.run(
    SavesPath if sys.argv[1] == "path" else SavesDict, name=f"class-{sys.argv[1]}",
    config={"k": tune.grid_search([1, 10])}, stop={"training_iteration": 7}, max_failures=1,
    checkpoint_freq=2, checkpoint_at_end=True, keep_checkpoints_num=2)
for trial in analysis.trials:
    print("result", trial.config["k"], trial.last_result["total"],
          trial.last_result["training_iteration"])
