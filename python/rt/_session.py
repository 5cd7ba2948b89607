"""The connection of a trial to its worker, which `report()` and its relatives use.

A Session has one connection to the worker daemon (docs/trial-protocol.md). Reports are numbered by
`seq` from 1, kept until acknowledged, and sent again after a reconnection: a restart of the daemon
loses none. report() returns at once except at a milestone, with a checkpoint, when a stop rule is
met, or when UNACKNOWLEDGED_MAX reports wait. One report at a time: a lock is held.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import socket
import sys
import threading
import time
from collections import deque
from typing import Any, NoReturn, Optional

from rt._barrier import Barrier
from rt._checkpoint import Checkpoint
from rt._freeze import FreezeNotice
from rt._json import clean_row, dump, number_at, numbers
from rt._rules import is_over
from rt._signals import leave_to_children, set_handler
from rt._wire import Wire, greet, refusal

UNACKNOWLEDGED_MAX = 4096  # Reports kept for a resend; beyond it report() blocks.
RECONNECT_DEADLINE_S = 600.0  # A daemon may be away for an upgrade.
BARRIER_ROUNDS_MAX = 5
BARRIER_LOOK_S = 0.2  # How often a waiting rank looks whether it was asked to end.
ACKS_WAIT_S = 5.0  # At the end, before the daemon is asked for its progress.
NOTICE_DEFAULT_S = 30.0  # The deadline of SIGUSR2, which carries none.
RANKS_WAIT_S = 30.0  # For the shards of other ranks; a rank that saved ends after it.
NO_DEADLINE_S = 86_400.0  # The deadline of a drain without one.


class TrialStopped(BaseException):
    """Ends a trial from inside report(). Not an Exception, so that user code does not catch it."""


class Session:
    """One attempt's conversation with its worker daemon."""

    def __init__(
        self,
        path: str,
        token: str,
        deadline_s: float = RECONNECT_DEADLINE_S,
        wire: Optional[Wire] = None,
    ) -> None:
        self._path = path
        self._token = token
        self._hostname = socket.gethostname()
        self._deadline_s = deadline_s
        self._lock = threading.RLock()
        self._unacked: deque[tuple[int, bytes]] = deque()
        self._verdicts: dict[int, str] = {}
        self._notice_end: Optional[float] = None
        self._terminated = False
        self._stop_told = False
        self._pause_told = False
        self._freezes = FreezeNotice()
        self._last_row: dict[str, Any] = {}
        self._move_told = False
        self._told_more = False  # Messages other than reports, which are not acknowledged.
        self._saves = False  # It reports checkpoints, or asks whether one is requested.
        self._awaited: Optional[tuple[int, bytes]] = None  # The report that waits for its answer.
        self._rank_barrier = Barrier()
        self._wire = wire or Wire.dial(path, deadline_s)
        self.world_size = int(os.environ.get("WORLD_SIZE") or 1)
        self.rank = int(os.environ.get("RANK") or 0) if self.world_size > 1 else 0
        self.busy = False  # Inside report(): a signal handler must not raise now.
        self.ended = False
        self.defers_stop = False  # The caller ends the trial itself when `stopping`.
        self.stop_exception: type[BaseException] = TrialStopped
        self.experiment_name = ""
        self.resources: dict[str, Any] = {}
        self._adopt(self._greet(time.monotonic() + deadline_s))

    def _adopt(self, reply: dict[str, Any]) -> None:
        control = reply.get("control") or {}
        self.params: dict[str, Any] = reply.get("params") or {}
        self.takes: list[str] = reply.get("takes") or []
        self.checkpoint_dir: Optional[str] = reply.get("checkpoint_dir") or None
        self._time_attr = control.get("time_attr") or "training_iteration"
        self._milestones: list[float] = sorted(control.get("milestones") or [])
        self._judged = bool(control.get("judged"))  # By the experiment's driver, row by row.
        self._max_t: Optional[float] = control.get("max_t")
        self._rules: list[dict[str, Any]] = list(control.get("stop") or [])
        self._stop_when: Optional[dict[str, Any]] = control.get("stop_when")
        self._seq = int(reply.get("spooled_seq") or 0)
        self._base = float(reply.get("iteration_base") or 0)
        self._time_base_s = float(reply.get("time_total_base_s") or 0)
        self._since_restore, self._timesteps, self._time_s = 0, 0, 0.0
        self._last = time.monotonic()
        self._totals: dict[str, float] = {}

    @property
    def iteration(self) -> float:
        """The training_iteration of the newest report; the restored one before the first."""
        value = self._base + self._since_restore
        return int(value) if value == int(value) else value

    def go_on_from(self, iteration: int) -> None:
        """Called before the first report: the next row is the one after `iteration`."""
        self._base = float(iteration)

    @property
    def terminated(self) -> bool:
        """Whether SIGTERM asked this process to end."""
        return self._terminated

    @property
    def stopping(self) -> bool:
        """Whether the current step is the last: SIGTERM, or the worker asked for a stop."""
        return self._terminated or self._stop_told

    @property
    def moving(self) -> bool:
        """Whether the node drains: the trial ends once it has saved, and resumes elsewhere."""
        return self._move_told

    @property
    def pausing(self) -> bool:
        """Whether the trial was asked to save and end, to be resumed later."""
        return self._pause_told

    def milestone_ahead(self, metrics: dict[str, Any]) -> bool:
        """Whether a report of `metrics` now would wait for a verdict."""
        row = dict(metrics)
        row.setdefault("training_iteration", self.iteration + 1)
        given = number_at(row, "time_this_iter_s")
        step_s = time.monotonic() - self._last if given is None else float(given)
        row.setdefault("time_total_s", self._time_base_s + self._time_s + step_s)
        reached = number_at(row, self._time_attr) or 0  # All milestones are above 0.
        return self._judged or any(mark <= reached for mark in self._milestones)

    def ends_with(self, metrics: dict[str, Any]) -> bool:
        """Whether a report of `metrics` now would meet a stop rule."""
        row = dict(metrics)
        row["training_iteration"] = self.iteration + 1
        row.setdefault("time_total_s", self._time_base_s + self._time_s)
        return bool(metrics.get("done")) or self._rule_met(row)

    def report(
        self,
        metrics: dict[str, Any],
        checkpoint: Optional[Checkpoint] = None,
        together: bool = False,
        barrier: bool = False,
    ) -> None:
        """Sends one row. Raises TrialStopped when the trial ends here; ValueError on bad input.

        `together`: the checkpoint is collective. The other ranks report the row of the same number,
        and the checkpoints that ranks save there are its shards. `barrier`: it returns once the
        other ranks have called it as often; raises RuntimeError when one never will.
        """
        if not isinstance(metrics, dict):
            raise ValueError(f"report() takes a dict of metrics, not {type(metrics).__name__}")
        with self._lock:
            if self.ended:
                raise self.stop_exception()
            self.busy = True
            try:
                stop = self._report(clean_row(metrics), checkpoint, together)
                if barrier and self.world_size > 1:
                    self._await_barrier()
            finally:
                self.busy = False
        self._saves = self._saves or checkpoint is not None
        if stop or (self.stopping and not self.defers_stop):
            self.ended = True
            raise self.stop_exception()
        if self._freezes.has_nothing(checkpoint is not None, self._saves):
            self._notice_end = None
            self.tell({"op": "nothing_to_save"})
        # A paused trial that never saves has nothing to wait for.
        leaves = checkpoint is not None and (self._pause_told or self._move_told)
        if not self.defers_stop and (leaves or (self._pause_told and not self._saves)):
            self.leave(checkpoint is not None)

    def leave(self, saved: bool) -> None:
        """Ends the trial because of a pause or a drain; returns if the request was withdrawn.

        In a trial of several ranks, a rank that saved waits until all ranks have saved, and is then
        ended. A rank that has nothing to save continues until rank 0 has saved.
        """
        if self.world_size > 1 and not saved and self.rank > 0:
            return
        if self.world_size > 1 and saved:
            self._await_ranks()
            if not (self._pause_told or self._move_told):
                return
        self.end_paused()

    def _await_ranks(self) -> None:
        end = time.monotonic() + RANKS_WAIT_S
        while (self._pause_told or self._move_told) and not self.stopping:
            left_s = end - time.monotonic()
            if left_s <= 0:
                return
            try:
                if (message := self._wire.receive(min(left_s, 0.2))) is not None:
                    self._handle(message)
            except ConnectionError:
                self._reconnect()

    def attach(self, _: dict[str, Any], checkpoint: Checkpoint) -> None:
        """Commits a checkpoint with the last reported row."""
        with self._lock:
            seq = self._seq
            message = {"op": "report", "seq": seq, "metrics": self._last_row, "wait": False}
            message.update(checkpoint=checkpoint.path, give=checkpoint.is_given)
            message["together"] = self.world_size > 1
            self._unacked.append((seq, dump(message)))
            self._send(self._unacked[-1][1])
            self._await_verdict(seq, needs_verdict=False)

    def end_paused(self) -> NoReturn:
        """Tells the daemon that the trial ends because it was asked to pause, and ends it."""
        self.tell({"op": "paused"})
        self.ended = True
        raise self.stop_exception()

    def _report(
        self, metrics: dict[str, Any], checkpoint: Optional[Checkpoint], together: bool
    ) -> bool:
        self._read_without_blocking()  # The time of a freeze does not count in this row.
        row = self._filled(metrics)
        ends = bool(row["done"]) or self._rule_met(numbers(row))
        row["done"] = ends
        wait = not ends and (self._takes_milestone(row) or self._judged)
        self._seq += 1
        self._last_row = row
        message: dict[str, Any] = {"op": "report", "seq": self._seq, "metrics": row, "wait": wait}
        if checkpoint is not None:
            message["checkpoint"] = checkpoint.path
            if checkpoint.is_given:
                message["give"] = True
            if together and self.world_size > 1:
                message["together"] = True
        self._unacked.append((self._seq, dump(message)))
        self._send(self._unacked[-1][1])
        if wait or checkpoint is not None:
            self._awaited = self._unacked[-1]
            verdict = self._await_verdict(self._seq, wait)
            self._awaited = None
            return ends or verdict in ("stop", "pause")
        self._read_without_blocking()
        while len(self._unacked) >= UNACKNOWLEDGED_MAX:
            self._handle(self._receive())
        return ends

    def _await_barrier(self) -> None:
        self._send(self._rank_barrier.arrive())
        while not self._rank_barrier.is_passed and not self._terminated:
            question = self._rank_barrier.overdue()
            if question is not None:
                self._send(question)
            try:
                message = self._wire.receive(BARRIER_LOOK_S)
                if message is not None:
                    self._handle(message)
            except ConnectionError:
                self._reconnect()

    def _filled(self, metrics: dict[str, Any]) -> dict[str, Any]:
        now = time.monotonic()
        elapsed, self._last = now - self._last, now
        given = number_at(metrics, "time_this_iter_s")
        step_s = float(given) if given is not None else elapsed
        self._time_s += step_s
        self._since_restore += 1
        for unit in ("timesteps", "episodes"):
            amount = number_at(metrics, f"{unit}_this_iter")
            if amount is not None and unit == "timesteps":
                self._timesteps += int(amount)
            if amount is not None:
                self._totals[unit] = self._totals.get(unit, 0) + amount
                metrics.setdefault(f"{unit}_total", self._totals[unit])
        loss = number_at(metrics, "mean_loss")
        if loss is not None:
            metrics.setdefault("neg_mean_loss", -loss)
        return {
            **metrics,
            "training_iteration": self.iteration,
            "time_this_iter_s": step_s,
            "time_total_s": self._time_base_s + self._time_s,
            "time_since_restore": self._time_s,
            "iterations_since_restore": self._since_restore,
            "timesteps_since_restore": self._timesteps,
            "done": bool(metrics.get("done", False)),
            "hostname": self._hostname,
        }

    def _rule_met(self, row: dict[str, Any]) -> bool:
        return is_over(row, self._rules, self._stop_when, self._time_attr, self._max_t)

    def _takes_milestone(self, row: dict[str, Any]) -> bool:
        reached = number_at(row, self._time_attr)
        if reached is None:
            return False
        passed = [mark for mark in self._milestones if mark <= reached]
        if not passed:
            return False
        self._milestones.remove(passed[-1])
        return True

    def _await_verdict(self, seq: int, needs_verdict: bool) -> str:
        while True:
            if seq in self._verdicts:
                return self._verdicts.pop(seq)
            if not needs_verdict and not any(each == seq for each, _ in self._unacked):
                return "continue"
            self._handle(self._receive())

    def _handle(self, message: dict[str, Any]) -> None:
        op, seq = message.get("op"), message.get("seq")
        if op in ("ack", "verdict") and isinstance(seq, int):
            while self._unacked and self._unacked[0][0] <= seq:
                self._unacked.popleft()
            if op == "verdict" or message.get("verdict"):
                self._verdicts[seq] = str(message.get("verdict") or "continue")
        elif op == "checkpoint_now":
            left_s = message.get("deadline_s")
            self._move_told = True
            self._notice_end = time.monotonic() + float(NO_DEADLINE_S if left_s is None else left_s)
        elif op == "stay":
            self._move_told = False
            self._notice_end = None
        elif op == "checkpoint_lost":
            line = f"rt: the checkpoint of report {seq} is lost: {message.get('message')}"
            print(line, file=sys.stderr, flush=True)
        elif op == "profile_dropped":
            print(f"rt: {message.get('message')}", file=sys.stderr, flush=True)
        elif op in ("passed", "missing"):
            self._rank_barrier.take(message)
        elif op == "stop":
            self._stop_told = True
        elif op == "thawed":
            self._last, self._notice_end = self._last + self._freezes.take(message), None
        elif op in ("pause", "save"):
            self._pause_told = self._pause_told or op == "pause"
            self._freezes.take(message)
            self._notice_end = time.monotonic() + message.get("deadline_s", NOTICE_DEFAULT_S)
        if error := message.get("error"):  # The report would be refused again.
            self._unacked = deque(each for each in self._unacked if each[0] != seq)
            raise refusal(error)

    def _read_without_blocking(self) -> None:
        try:
            while (message := self._wire.receive(0)) is not None:
                self._handle(message)
        except ConnectionError:
            self._reconnect()

    def _receive(self) -> dict[str, Any]:
        """The next message, over a new connection if needed."""
        while True:
            try:
                message = self._wire.receive(None)
                if message is not None:
                    return message
            except ConnectionError:
                self._reconnect()

    def _send(self, line: bytes) -> None:
        try:
            self._wire.send(line)
        except ConnectionError:
            self._reconnect()

    def _greet(self, end: float) -> dict[str, Any]:
        """The answer to a hello; over another connection if the daemon is replaced meanwhile."""
        while True:
            try:
                return greet(self._wire, self._token, self._handle)
            except ConnectionError:
                if time.monotonic() >= end:
                    raise
                time.sleep(0.05)
            self._dial(end)

    def _dial(self, end: float) -> None:
        self._wire.close()
        self._wire = Wire.dial(self._path, max(0.1, end - time.monotonic()))

    def _reconnect(self) -> None:
        """Reconnects, and sends the reports that are not spooled and the one that is awaited."""
        end = time.monotonic() + self._deadline_s
        while True:
            self._dial(end)
            reply = self._greet(end)
            self._last += self._freezes.hear(reply)
            try:
                return self._resend(int(reply.get("spooled_seq") or 0))
            except ConnectionError:
                if time.monotonic() >= end:
                    raise
                time.sleep(0.05)

    def _resend(self, spooled: int) -> None:
        for seq, line in list(self._unacked):
            if seq > spooled:
                self._wire.send(line)
        if self._awaited is not None and self._awaited[0] <= spooled:
            self._wire.send(self._awaited[1])
        if not self._rank_barrier.is_passed:
            self._wire.send(self._rank_barrier.message())

    def _all_acked(self) -> bool:
        end = time.monotonic() + ACKS_WAIT_S
        while self._unacked:
            message = self._wire.receive(max(0.0, end - time.monotonic()))
            if message is None:
                return False
            self._handle(message)
        return True

    def barrier(self) -> None:
        """Returns once the daemon has received every message. Where the acknowledgements of the
        reports do not prove that, a second hello does."""
        with self._lock:
            self.busy = True
            try:
                try:
                    if not self._told_more and self._all_acked():
                        return
                except ConnectionError:
                    self._reconnect()
                for _ in range(BARRIER_ROUNDS_MAX):
                    try:
                        reply = greet(self._wire, self._token, self._handle)
                        spooled = int(reply.get("spooled_seq") or 0)
                        if spooled >= self._seq or not self._unacked:
                            return
                        self._resend(spooled)
                    except ConnectionError:
                        self._reconnect()
            finally:
                self.busy = False

    def send_error(self, kind: str, message: str, traceback: str) -> None:
        """Sends the exception of the user's code to the daemon."""
        self.tell({"op": "error", "kind": kind, "message": message, "traceback": traceback})

    def tell(self, message: dict[str, Any]) -> None:
        """Sends a message that is not a report; one that the daemon takes (`takes`)."""
        with self._lock:
            self._told_more = True
            try:
                self._wire.send(dump(message))
            except ConnectionError:
                self._reconnect()
                self._wire.send(dump(message))

    def checkpoint_requested(self) -> Optional[float]:
        """Seconds left to report a requested checkpoint, or None without a request."""
        self._saves = True
        with self._lock:
            self._read_without_blocking()
        if self._notice_end is None:
            return None
        return max(0.0, self._notice_end - time.monotonic())

    def checkpoint_served(self) -> None:
        """Forgets the request: a checkpoint has just been reported."""
        self._notice_end = None

    def handle_signals(self, raises: bool) -> None:
        """SIGTERM ends the trial (`raises`: at once, else after the step); SIGUSR2 is a notice."""

        own_pid = os.getpid()

        def terminate(number: int, _frame: Any) -> None:
            if os.getpid() != own_pid:  # A child process of the trial ends as usual.
                signal.signal(number, signal.SIG_DFL)
                os.kill(os.getpid(), number)
                return
            self._terminated = True
            # A trial that has ended is cleaning up, which must not be interrupted.
            if raises and not self.busy and not self.ended:
                self.ended = True
                raise self.stop_exception()

        def notice(_number: int, _frame: Any) -> None:
            if self._notice_end is None:
                self._notice_end = time.monotonic() + NOTICE_DEFAULT_S

        self.defers_stop = not raises
        set_handler(signal.SIGTERM, terminate)
        leave_to_children(signal.SIGTERM, terminate)
        # A trial that hangs is asked for its stacks before it is ended.
        faulthandler.register(signal.SIGQUIT, file=2, all_threads=True, chain=False)
        set_handler(signal.SIGUSR2, notice)


current: Optional[Session] = None  # The session of this process, if it is a trial.
