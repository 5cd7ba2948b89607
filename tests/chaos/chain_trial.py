"""The fake trainer: deterministic, and it notices when its checkpoint is not what it saved.

    chain_trial.py NOTES STEPS PAUSE_S CHECKPOINT_EVERY CHECKPOINT_BYTES SEED [GATE]

With GATE, a trial waits after its first checkpoint until there is a file of that name.

Speaks docs/trial-protocol.md, and writes what it was told into NOTES/<trial>.<attempt>, as
tests/integration/trial_program.py does, with the time of each note.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import sys
import time
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "integration"))

import chain  # noqa: E402
from trial_program import Wire  # noqa: E402


def restored(size: int) -> tuple[int, str]:
    """(step, state) of the checkpoint, every byte of which is compared."""
    folder = pathlib.Path(os.environ["RT_CHECKPOINT_DIR"])
    step, state = (folder / "state").read_text().split()
    if (folder / "weights").read_bytes() != chain.weights_of(state, size):
        raise SystemExit(f"the weights of step {step} are not those that were saved")
    return int(step), state


def save(folder: pathlib.Path, step: int, state: str, size: int) -> None:
    folder.mkdir()
    (folder / "weights").write_bytes(chain.weights_of(state, size))
    (folder / "state").write_text(f"{step} {state}")


def main() -> None:
    notes, steps, pause_s = pathlib.Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    every, size, seed = (int(word) for word in sys.argv[4:7])
    gate = pathlib.Path(sys.argv[7]) if len(sys.argv) > 7 else None
    attempt = int(os.environ["RT_ATTEMPT"])
    name = os.environ["RT_TRIAL_ID"].replace("/", "_")
    k = json.loads(pathlib.Path(os.environ["RT_CONFIG"]).read_text())["k"]
    out = os.open(notes / f"{name}.{attempt}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def note(what: str, step: int) -> None:
        os.write(out, json.dumps({what: step, "t": time.time()}).encode() + b"\n")

    base, state = 0, chain.first(seed, k)
    if "RT_CHECKPOINT_DIR" in os.environ:
        base, state = restored(size)
    note("start", base)
    wire = Wire()
    if wire.hello["iteration_base"] != base:
        sys.exit(f"the checkpoint is of step {base}, the daemon says {wire.hello}")
    for step in range(base + 1, steps + 1):
        time.sleep(pause_s)  # The work of a step.
        while gate is not None and step > every and not gate.exists():
            time.sleep(0.01)
        state = chain.following(state, step)
        message: dict[str, Any] = {"op": "report", "seq": step - base, "metrics": {
            "i": step, "k": k, "attempt": attempt, "state": state, "loss": chain.loss_of(state)}}
        if step % every == 0:
            folder = pathlib.Path(os.environ["RT_TRIAL_DIR"]) / f"checkpoint-{step}"
            save(folder, step, state, size)
            commit = step // every % 2 == 1  # The others are pushed while it goes on.
            wire.report({**message, "checkpoint": str(folder), "commit": commit})
            note("committed" if commit else "acked", step)
            shutil.rmtree(folder)
        else:
            wire.report(message)
            note("acked", step)
    pathlib.Path("written").write_text(state)
    note("end", steps)


if __name__ == "__main__":
    main()
