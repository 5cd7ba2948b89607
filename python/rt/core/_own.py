"""Executors in the driver's own capacity, for while it waits.

A trial, a job or a detached actor holds capacity of the cluster. While its code waits in `rt.get`
or `rt.wait` for tasks that no executor takes, a child of its process runs them in that capacity.
Without it, trials that fill the cluster would wait for ever for room that they hold themselves.
Actors wait for an executor of the head's: they would keep the capacity after the wait.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from typing import Any, Callable

from rt.core._assigned import assigned, to_text
from rt.core._near import listens
from rt.core._places import Pool, Slot
from rt.core._spec import code_of

_AFTER_S = 0.3  # Tasks that have waited for so long found no capacity at once.
_LINGER_S = 0.2  # A driver that takes results one by one does not wait in between.
# What says that a process is the trial, the job or the rank itself.
_NOT_INHERITED = (
    "RT_ATTEMPT", "RT_CHECKPOINT_DIR", "RT_EXPERIMENT_ID", "RT_EXPERIMENT_NAME", "RT_GENERATION",
    "RT_JOB_ID", "RT_MAX_T", "RT_SOCKET", "RT_TOKEN", "RT_TRIAL_ID", "RT_TRIAL_NAME",
    "RT_WARM_SERVER",
)  # fmt: skip


class OwnCapacity:
    """The capacity of the driver's process: at most one executor for each pool uses it, with
    negative numbers. All but `_run` with the hub's lock."""

    def __init__(self, hub: Any, spec_of: Callable[[Pool], dict[str, Any]]) -> None:
        self._hub = hub
        self._spec_of = spec_of
        # Without gpus: their memory stays in use while the driver waits.
        self._capacity = {name: amount for name, amount in assigned().items() if name != "gpu"}
        self._slots: dict[int, Slot] = {}
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._is_starting = False
        self._next = 0
        self._waited_at = 0.0
        hub.pump.on_tick.append(self.tick)

    def tick(self, now: float) -> None:
        """Begins to lend when the driver waits for tasks that wait, and ends with the wait."""
        if not self._capacity:
            return
        waits = bool(self._hub.pump.waiters)
        if waits:
            self._waited_at = now
            if not self._is_starting and not any(one.running for one in self._slots.values()):
                self._lend(now)
        for slot in list(self._slots.values()):
            is_needed = not any(one.is_granted for one in slot.pool.slots.values())
            if slot.width and (now - self._waited_at > _LINGER_S or not is_needed):
                self._hub.schedule.drain_slot(slot.pool, slot)
                self._hub.schedule.settle(slot)

    def _lend(self, now: float) -> None:
        for pool in self._hub.schedule.pools.values():
            if pool.slots or pool.head() is None or pool.hungry_at is None:
                continue
            width = width_of(self._capacity, pool.shape[0])
            if width and now - pool.hungry_at > _AFTER_S:
                self._is_starting = True
                self._next -= 1
                threading.Thread(
                    target=self._run, args=(pool, self._next, width), name="rt-own", daemon=True
                ).start()
                return

    def release(self, executor: int) -> None:
        """It is not needed any more."""
        self._slots.pop(executor, None)
        process = self._processes.get(executor)
        if process is not None:
            process.terminate()

    def close(self) -> None:
        """The session ends."""
        self._capacity = {}
        for executor in list(self._processes):
            self.release(executor)

    def _run(self, pool: Pool, number: int, width: int) -> None:
        """One executor, in a thread of its own."""
        hub = self._hub
        run_dir = f"{os.path.dirname(os.environ['RT_TRIAL_DIR'])}/own{-number}"
        trial_dir = f"{run_dir}/trial"
        why = "its executor ended"
        try:
            process = self._start(pool, run_dir, trial_dir)
            with hub.lock:
                self._processes[number] = process
            if listens(trial_dir, lambda: process.poll() is None):
                node = {"id": os.environ.get("RT_NODE_ID", ""), "name": os.uname().nodename}
                with hub.lock:
                    if self._capacity:
                        self._slots[number] = Slot(number, pool, trial_dir, node, width)
                        hub.schedule.slot_came(pool, self._slots[number])
                    else:
                        process.terminate()
                    self._is_starting = False
                hub.pump.wake()
            process.wait()
        except OSError as error:
            why = str(error)
            hub.print_out("err", f"rt: no executor in this process's own capacity: {error}\n")
            with hub.lock:
                self._capacity = {}
        with hub.lock:
            self._is_starting = False
            if self._slots.pop(number, None) is not None:
                hub.schedule.slot_went(pool, number, why, True)
        hub.pump.wake()
        shutil.rmtree(run_dir, ignore_errors=True)
        with hub.lock:
            self._processes.pop(number, None)

    def _start(self, pool: Pool, run_dir: str, trial_dir: str) -> subprocess.Popen[bytes]:
        os.mkdir(run_dir, 0o700)
        os.mkdir(trial_dir, 0o700)
        config = f"{run_dir}/config.json"
        spec = self._spec_of(pool)
        with open(config, "w", encoding="utf-8") as file:
            json.dump(spec["params"], file)
        env = {key: value for key, value in os.environ.items() if key not in _NOT_INHERITED}
        env |= {
            **spec["env"],
            "CUDA_VISIBLE_DEVICES": "",
            "RT_CONFIG": config,
            "RT_ASSIGNED": to_text(spec["resources"]),
            "RT_TRIAL_DIR": trial_dir,
        }
        code = code_of(pool.shape)  # It is on this machine.
        if code.py_modules:
            folders = [os.path.dirname(each) for each in code.py_modules]
            env["PYTHONPATH"] = os.pathsep.join([*folders, env.get("PYTHONPATH", "")])
        place = code.working_dir or None
        return subprocess.Popen(spec["argv"], env=env, stdin=subprocess.DEVNULL, cwd=place)


def width_of(capacity: dict[str, float], shape: tuple[tuple[str, float], ...]) -> int:
    """How many tasks of this shape run in the capacity at a time."""
    widths = [int(capacity.get(name, 0.0) / amount + 1e-9) for name, amount in shape if amount > 0]
    return min(widths, default=0)
