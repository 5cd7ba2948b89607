"""A Python driver over k = 0 … TRIALS-1 whose trials note what was committed, for checks.py.

    driver_program.py NAME NOTES TRIALS STEPS PAUSE_S CHECKPOINT_EVERY [MAX_FAILURES]
"""

import json
import os
import pathlib
import sys
import time

from rt import tune
from rt.tune import Checkpoint, CheckpointConfig

NAME, NOTES = sys.argv[1], sys.argv[2]
TRIALS, STEPS, PAUSE_S, EVERY = (float(word) for word in sys.argv[3:7])
MAX_FAILURES = int(sys.argv[7]) if len(sys.argv) > 7 else 0


def objective(config):
    attempt = int(os.environ["RT_ATTEMPT"])
    path = pathlib.Path(NOTES) / f"{os.environ['RT_TRIAL_ID'].replace('/', '_')}.{attempt}"
    out = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def note(what, step):
        os.write(out, json.dumps({what: step}).encode() + b"\n")

    base = 0
    restored = tune.get_checkpoint()
    if restored is not None:
        base = int((pathlib.Path(restored.path) / "step").read_text())
    note("start", base)
    for step in range(base + 1, int(STEPS) + 1):
        row = {"i": step, "k": config["k"], "attempt": attempt}
        if EVERY and step % EVERY == 0:
            folder = pathlib.Path(os.environ["RT_TRIAL_DIR"]) / f"checkpoint-{step}"
            folder.mkdir()
            (folder / "step").write_text(str(step))
            tune.report(row, checkpoint=Checkpoint(str(folder)))
            note("committed", step)
        else:
            tune.report(row)
        time.sleep(PAUSE_S)
    note("end", int(STEPS))


analysis = tune.run(objective, name=NAME, config={"k": tune.grid_search(list(range(int(TRIALS))))},
                    max_failures=MAX_FAILURES,
                    checkpoint_config=CheckpointConfig(num_to_keep=1))
print(f"driver: {len(analysis.trials)} trials of {NAME}")
