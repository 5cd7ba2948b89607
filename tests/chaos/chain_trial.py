"""The fake trainer: deterministic, and it notices when its checkpoint is not what it saved.

    chain_trial.py NOTES STEPS PAUSE_S CHECKPOINT_EVERY CHECKPOINT_BYTES SEED [GATE]

With GATE, a trial waits after its first checkpoint until there is a file of that name.

Speaks docs/trial-protocol.md, and writes what it was told into NOTES/<trial>.<attempt>, as
tests/integration/trial_program.py does, with the time of each note.
"""

from __future__ import annotations

import json
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "integration"))

import chain  # noqa: E402
from trial_program import Wire, read  # noqa: E402


def restored(size: int) -> tuple[int, str]:
    """(step, state) of the checkpoint, every byte of which is compared."""
    folder = os.environ["RT_CHECKPOINT_DIR"]
    step, state = read(f"{folder}/state").split()
    with open(f"{folder}/weights", "rb") as weights:
        if weights.read() != chain.weights_of(state, size):
            raise SystemExit(f"the weights of step {step} are not those that were saved")
    return int(step), state


def save(folder: str, step: int, state: str, size: int) -> None:
    os.mkdir(folder)
    with open(f"{folder}/weights", "wb") as weights:
        weights.write(chain.weights_of(state, size))
    with open(f"{folder}/state", "w", encoding="utf-8") as file:
        file.write(f"{step} {state}")


def remove(folder: str) -> None:
    os.unlink(f"{folder}/weights")
    os.unlink(f"{folder}/state")
    os.rmdir(folder)


def main() -> None:
    notes, steps, pause_s = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    every, size, seed = (int(word) for word in sys.argv[4:7])
    gate = sys.argv[7] if len(sys.argv) > 7 else ""
    attempt = int(os.environ["RT_ATTEMPT"])
    name = os.environ["RT_TRIAL_ID"].replace("/", "_")
    k = json.loads(read(os.environ["RT_CONFIG"]))["k"]
    out = os.open(f"{notes}/{name}.{attempt}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

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
        while gate and step > every and not os.path.exists(gate):
            time.sleep(0.01)
        state = chain.following(state, step)
        message: dict[str, Any] = {"op": "report", "seq": step - base, "metrics": {
            "i": step, "k": k, "attempt": attempt, "state": state, "loss": chain.loss_of(state)}}
        if step % every == 0:
            folder = f"{os.environ['RT_TRIAL_DIR']}/checkpoint-{step}"
            save(folder, step, state, size)
            commit = step // every % 2 == 1  # The others are pushed while it goes on.
            wire.report({**message, "checkpoint": folder, "commit": commit})
            note("committed" if commit else "acked", step)
            remove(folder)
        else:
            wire.report(message)
            note("acked", step)
    with open("written", "w", encoding="utf-8") as written:
        written.write(state)
    note("end", steps)


if __name__ == "__main__":
    main()
