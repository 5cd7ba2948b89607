"""A trial that speaks docs/trial-protocol.md and writes down what it was told, for checks.py.

    trial_program.py NOTES STEPS PAUSE_S [CHECKPOINT_EVERY [VERDICT_EVERY]]

Every note is one line of JSON in NOTES/<trial>.<attempt>, written after the answer that it is
about: {"start": step}, {"acked": step}, {"verdict": step}, {"committed": step}, {"end": step}.
It imports little: tests start hundreds of it.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

DEADLINE_S = 60.0


def read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


class Wire:
    """The trial's socket, dialled again when it is lost."""

    def __init__(self) -> None:
        self.hello: dict[str, Any] = {}
        self.dial()

    def dial(self) -> None:
        end = time.monotonic() + DEADLINE_S
        while True:
            try:
                self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                self.socket.connect(os.environ["RT_SOCKET"])
                self.lines = self.socket.makefile("rb")
                self.send({"op": "hello", "token": os.environ["RT_TOKEN"]})
                answer: dict[str, Any] = {}
                while "spooled_seq" not in answer:
                    answer = self.receive()
                self.hello = answer
                return
            except OSError:
                self.socket.close()
                if time.monotonic() > end:
                    raise
                time.sleep(0.02)

    def send(self, message: dict[str, Any]) -> None:
        self.socket.sendall(json.dumps(message).encode() + b"\n")

    def receive(self) -> dict[str, Any]:
        line = self.lines.readline()
        if not line.endswith(b"\n"):
            raise ConnectionError("the daemon is gone")
        message = json.loads(line)
        if message.get("op") == "stop":
            sys.exit(0)
        if message.get("op") == "error":
            sys.exit(f"refused: {message}")
        return dict(message)

    def report(self, message: dict[str, Any]) -> None:
        """Returns once the daemon has answered all that was asked for."""
        wanted = {"verdict"} if message.get("wait") else {"ack"}
        while True:
            try:
                self.send(message)
                while True:
                    answer = self.receive()
                    if answer.get("op") in wanted and answer["seq"] == message["seq"]:
                        if answer.get("verdict") == "stop":
                            sys.exit(0)
                        return
            except OSError:
                self.dial()
                spooled = int(self.hello["spooled_seq"]) >= message["seq"]
                if spooled and not message.get("wait") and "checkpoint" not in message:
                    return


def main() -> None:
    notes, steps, pause_s = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    checkpoint_every, verdict_every = ([int(word) for word in sys.argv[4:]] + [0, 0])[:2]
    attempt = int(os.environ["RT_ATTEMPT"])
    name = os.environ["RT_TRIAL_ID"].replace("/", "_")
    out = os.open(f"{notes}/{name}.{attempt}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def note(what: str, step: int) -> None:
        os.write(out, json.dumps({what: step}).encode() + b"\n")

    base = 0
    if "RT_CHECKPOINT_DIR" in os.environ:
        base = int(read(f"{os.environ['RT_CHECKPOINT_DIR']}/step"))
    note("start", base)
    wire = Wire()
    if wire.hello["iteration_base"] != base:
        sys.exit(f"the checkpoint is of step {base}, the daemon says {wire.hello}")
    params = json.loads(read(os.environ["RT_CONFIG"]))
    for step in range(base + 1, steps + 1):
        message: dict[str, Any] = {"op": "report", "seq": step - base,
                                   "metrics": {"i": step, "k": params["k"], "attempt": attempt}}
        if checkpoint_every and step % checkpoint_every == 0:
            folder = f"{os.environ['RT_TRIAL_DIR']}/checkpoint-{step}"
            os.mkdir(folder)
            with open(f"{folder}/step", "w", encoding="utf-8") as file:
                file.write(str(step))
            with open(f"{folder}/weights", "wb") as weights:
                weights.write(os.urandom(10_000))
            wire.report({**message, "checkpoint": folder, "commit": True})
            note("committed", step)
        else:
            message["wait"] = bool(verdict_every) and step % verdict_every == 0
            wire.report(message)
            note("verdict" if message["wait"] else "acked", step)
        time.sleep(pause_s)
    note("end", steps)


if __name__ == "__main__":
    main()
