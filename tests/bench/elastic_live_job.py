"""A rank of what `elastic_live` runs: elastic_live_job.py WORK_S SYNC_S. A step takes 0.1 s, and
SYNC_S more for each further rank. With r ranks it is worth r steps of one rank. It is over after
WORK_S seconds of one rank, and saves after each step."""

from __future__ import annotations

import json
import os
import pathlib
import socket
import sys
import time

STEP_S = 0.1
work = float(sys.argv[1]) / STEP_S
rank, size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
sync_s = float(sys.argv[2]) * (size - 1)
wire = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
wire.connect(os.environ["RT_SOCKET"])
lines = wire.makefile("rb")


def say(message: dict) -> None:
    wire.sendall(json.dumps(message).encode() + b"\n")


def wait(op: str) -> dict:
    while True:
        answer = json.loads(lines.readline())
        if answer["op"] == op:
            return answer


def profile(number: int, done: int, count: int) -> None:
    say({"op": "profile", "type": "profile", "seq": number, "elastic": {
        "max_batch": 64, "local_bounds": [16, 16], "initial_batch": 16, "accumulation": False,
        "progress": done, "total": work, "sqr": 1e-6, "var": 1, "noise_weight": count,
        "points": [{"nodes": 1, "ranks": size, "local": 16, "accum": 0, "gpu_type": "",
                    "count": count, "step": [STEP_S + sync_s, 1e-6], "sync": [sync_s, 1e-6]}]}})


say({"op": "hello", "token": os.environ["RT_TOKEN"]})
takes = "profile" in wait("hello").get("takes", [])
done = 0
if "RT_CHECKPOINT_DIR" in os.environ:
    done = int((pathlib.Path(os.environ["RT_CHECKPOINT_DIR"]) / "done").read_text())
step = 0
while done < work:
    step += 1
    if size > 1:
        say({"op": "arrive", "number": step})
        wait("passed")
    time.sleep(STEP_S + sync_s)
    done += size
    folder = pathlib.Path(os.environ["RT_TRIAL_DIR"]) / f"{rank}-{step}"
    folder.mkdir()
    (folder / "done").write_text(str(done))
    say({"op": "report", "seq": step, "metrics": {"done": done}, "checkpoint": str(folder),
         "together": True})
    wait("ack")
    if takes and step % 5 == 0:
        profile(step // 5, done, 5)
