"""`rt bridge` with a canned search: writes what it is asked to $FAKE_LOG, answers from $FAKE_WORLD.

The world: {"trials": [...], "rows": {id: [...]}, "details": {id: {...}}, "experiment": {...},
"fail": {op: error}, "attached": True, "seed": number, "warnings": [...]}. With "endless" the
experiment ends only when it is stopped, with "stubborn" not even then. With "old_head" the answers
are those of a head of 0.1.0.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import sys
import time
from typing import Any


def answer(world: dict[str, Any], state: dict[str, Any], op: str, args: dict[str, Any]) -> Any:
    if op == "blob_push_dir":
        with open(os.path.join(args["path"], "trainable.pkl"), "rb") as file:
            pickle.load(file)
        return {"manifest": "m1"}
    if op == "experiment_create":
        attached = bool(world.get("attached"))
        return {"experiment_id": 1, "results_dir": "/results/e", "attached": attached}
    if op == "experiment_find":
        known = {"experiment_id": 1, "results_dir": "/results/e", "attached": True}
        return known if world.get("attached") else dict.fromkeys(known)
    if op == "experiment_get":
        warnings = world.get("warnings", [])
        return {"id": 1, "state": "RUNNING", "seed": world.get("seed"), "warnings": warnings}
    if op == "driver_attach":
        return {"session": 1, "answered_seq": 0, "created_seq": 1}
    if op == "experiment_stop":
        state["stopped"] = not world.get("stubborn")
    if op == "experiment_wait":
        time.sleep(0.02)
        ended = state.get("stopped") or not world.get("endless")
        outcome = "STOPPED" if state.get("stopped") else "COMPLETED"
        running = {"state": "RUNNING", "version": "1", "trials_by_state": {"RUNNING": 1}}
        return {**running, "state": outcome, **world.get("experiment", {})} if ended else running
    if op == "trial_list":
        return {"schema": 1, "items": world["trials"], "next": None}
    if op == "trial_rows":
        rows = world.get("rows", {}).get(args["trial_id"], [])
        first = int(args["after"] or 0)
        left = [row for row in rows[first:] if row["training_iteration"] > args["after_iteration"]]
        reply = {"rows": left[:2], "more": len(left) > 2}
        if world.get("old_head"):
            return reply
        return {**reply, "next": str(first + 2) if len(left) > 2 else None}
    if op == "trial_get":
        detail = world.get("details", {}).get(args["trial_id"], {})
        # At each call the next of them, and from then on the last.
        passing = world.get("durability", ["DURABLE"])
        state["gets"] = state.get("gets", 0) + 1
        for one in detail.get("checkpoints", []):
            one["durability"] = passing[min(state["gets"], len(passing)) - 1]
            one["held_by"] = [] if one["durability"] == "DURABLE" else [7]
        return detail
    if op == "blob_pull_dir":
        with open(os.path.join(args["target"], "weights"), "w") as file:
            file.write(args["manifest"])
    return {}


def main() -> None:
    with open(os.environ["FAKE_WORLD"]) as file:
        world = json.load(file)
    state: dict[str, Any] = {}
    with open(os.environ["FAKE_LOG"], "a") as log:
        log.write(json.dumps({"op": "argv", "argv": sys.argv[1:]}) + "\n")
        for line in sys.stdin:
            request = json.loads(line)
            log.write(json.dumps(request) + "\n")
            log.flush()
            error = world.get("fail", {}).get(request["op"])
            if error:
                reply = {"id": request["id"], "ok": False, "error": error}
            else:
                result = answer(world, state, request["op"], request)
                reply = {"id": request["id"], "ok": True, "result": result}
            with contextlib.suppress(BrokenPipeError):  # Nobody reads; the end of input follows.
                print(json.dumps(reply), flush=True)
        log.write(json.dumps({"op": "end of input"}) + "\n")


main()
