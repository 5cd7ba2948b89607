"""A worker daemon's side of the trial socket, in a thread: what it was told, and what it says."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
from typing import Any, Callable


class FakeWorker:
    """Spools reports; answers hello, wait and checkpoint. `verdict(seq)` decides."""

    def __init__(self, directory: str, **hello: Any) -> None:
        self.path = os.path.join(directory, "trial.sock")
        self.token = "secret"
        self.hello = hello
        self.verdict: Callable[[int], str] = lambda seq: "continue"
        self.reports: list[dict[str, Any]] = []
        self.errors: list[dict[str, Any]] = []
        self.calls: list[dict[str, Any]] = []
        self.dropped = ""  # Why profile lines are dropped.
        self.profiles: list[dict[str, Any]] = []
        self.refusals: list[str] = []  # Codes that the next driver calls are answered with.
        self.checkpoints: list[dict[str, str]] = []
        self.hellos = 0
        self.paused = False
        self.drop_at: set[int] = set()  # Close the connection instead of answering these, once.
        self.drop_hellos = 0  # So many of them, first of all.
        self.refused: dict[int, dict[str, Any]] = {}  # Reports, and the error of each.
        self.barrier: Callable[[dict[str, Any]], list[Any]] = lambda message: [
            {"op": "passed", "number": message["number"]}
        ]
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(self.path)
        self._listener.listen(8)
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def spooled(self) -> int:
        return self.reports[-1]["seq"] if self.reports else 0

    def env(self, **more: str) -> dict[str, str]:
        return {"RT_SOCKET": self.path, "RT_TOKEN": self.token, "RT_TRIAL_ID": "1/0", **more}

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as lines, contextlib.suppress(OSError):
            for line in lines:
                message = json.loads(line)
                for reply in self._answers(message):
                    if reply is None:
                        return
                    connection.sendall(json.dumps(reply).encode() + b"\n")

    def _answers(self, message: dict[str, Any]) -> list[Any]:
        op = message["op"]
        if op == "hello":
            self.hellos += 1
            if self.hellos <= self.drop_hellos:
                return [None]
            if message["token"] != self.token:
                return [{"op": "error", "ok": False, "error": {"message": "wrong token"}}]
            return [{"op": "hello", "ok": True, "spooled_seq": self.spooled, **self.hello}]
        if op == "driver":
            self.calls.append(message["call"])
            if self.refusals:
                error = {"code": self.refusals.pop(0), "message": "not now", "hint": None}
                return [{"op": "driver", "id": message["id"], "ok": False, "error": error}]
            return [{"op": "driver", "id": message["id"], "ok": True, "result": {"n": 1}}]
        if op == "paused":
            self.paused = True
            return []
        if op == "profile":
            self.profiles.append(message)
            return [{"op": "profile_dropped", "message": self.dropped}] if self.dropped else []
        if op in ("arrive", "missing"):
            return self.barrier(message)
        if op == "error":
            self.errors.append(message)
            return [{"op": "ok"}]
        return self._report(message)

    def _report(self, message: dict[str, Any]) -> list[Any]:
        seq = message["seq"]
        if error := self.refused.get(seq):
            return [{"op": "error", "ok": False, "seq": seq, "error": error}]
        if seq > self.spooled:
            self.reports.append(message)
        if seq in self.drop_at:
            self.drop_at.remove(seq)
            return [None]
        answers: list[Any] = [{"op": "ack", "seq": seq}]
        if "checkpoint" in message:
            names = sorted(os.listdir(message["checkpoint"]))
            self.checkpoints.append(dict.fromkeys(names, message["checkpoint"]))
        if message["wait"]:
            answers.append({"op": "verdict", "seq": seq, "verdict": self.verdict(seq)})
        return answers


def wait_until(condition: Callable[[], bool], deadline_s: float = 10.0) -> None:
    """Returns once `condition()` holds; fails the test after the deadline."""
    end = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end, "the condition did not come true in time"
        time.sleep(0.002)
