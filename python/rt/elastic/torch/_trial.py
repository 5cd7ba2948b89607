"""The run's side towards rt's worker: requests for checkpoints, rows, and the profile line.

Outside a trial, SIGTERM and SIGINT ask for a checkpoint, if there is a place for it.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import sys
import tempfile
import time
import uuid
from typing import Any, Optional

from rt import _api, _script, _session
from rt._checkpoint import Checkpoint
from rt._session import Session
from rt.elastic import checkpoint, collective, env

EXIT_TERMINATED = 143
REQUEST_WAIT_S = 2.0  # Of ranks that save, for a request that some of them have had already.
LATE_REQUEST_S = 10.0  # Of a rank that is asked only once it has reported.
REQUEST_LOOK_S = 0.005
PROFILE_INTERVAL_S = 30.0

_signalled = False
_sent_at: Optional[float] = None
_sent = 0


def session() -> Optional[Session]:
    """The session of this process, if it is a trial or a rank of one."""
    return _session.current or _script.attach()


def catch_signals() -> None:
    """Outside a trial that can save: SIGTERM and SIGINT end the run after the step in hand."""
    if session() is not None or env.checkpoint_path() is None:
        return

    def note(_number: int, _frame: Any) -> None:
        global _signalled
        _signalled = True

    for number in (signal.SIGTERM, signal.SIGINT):
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, note)


def requested() -> bool:
    """Whether a checkpoint is wanted from this rank now."""
    if _signalled:
        return True
    own = session()
    return own is not None and own.checkpoint_requested() is not None


def can_save() -> bool:
    """Whether a checkpoint has a place to go to."""
    return session() is not None or env.checkpoint_path() is not None


def save(
    row: dict[str, Any], with_checkpoint: bool, on_request: bool, is_last: bool = False
) -> None:
    """Reports a row, with a checkpoint or without; every rank calls it at the same step.

    `on_request`: a checkpoint was requested from some rank. It returns when the run goes on. A full
    disk is no reason to end a run, except for the checkpoint with which it ends: OSError is raised.
    """
    own = session()
    if own is None:
        ends = on_request and with_checkpoint
        if with_checkpoint:
            _save_states(None, ends or is_last)
        if ends:
            sys.exit(EXIT_TERMINATED)
        return
    if not with_checkpoint:
        _api.report_at_barrier(row)
        return
    directory = os.environ.get("RT_TRIAL_DIR") or tempfile.gettempdir()
    staging = os.path.join(directory, f".elastic-{uuid.uuid4().hex}")
    try:
        is_saved = _save_states(staging, is_last)
        saved = None
        if own.rank == 0 and is_saved:
            saved = Checkpoint(staging)
            saved.is_given = True
        ends = on_request and _await_requests(own)
        _api.report_at_barrier(row, saved)
        if ends and is_saved:
            _await_late_request(own)
        if is_saved and (own.pausing or own.moving):
            own.leave(True)
        own.checkpoint_served()
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _save_states(directory: Optional[str], must: bool) -> bool:
    """Saves all states; whether it could, which rank 0 tells the others."""
    full = False
    try:
        checkpoint.save_all_states(directory)
    except (OSError, RuntimeError) as error:  # PyTorch raises the latter because of the former.
        found = _full_disk(error)
        if found is None:
            raise
        if must:
            raise found from error
        full = True
        print(f"rt.elastic: no checkpoint was saved: {found}", file=sys.stderr, flush=True)
    return not collective.broadcast(full)


def _full_disk(error: Optional[BaseException]) -> Optional[OSError]:
    """What says in the error, or in one that led to it, that a disk is full."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return error
    return None if error is None else _full_disk(error.__cause__ or error.__context__)


def _await_requests(own: Session) -> bool:
    """Returns on all ranks at once: when all were asked to save, when none is asked any more (the
    request was withdrawn), or when REQUEST_WAIT_S have passed. Whether some rank ends after it.

    Ranks are not asked at the same moment, and one that went on would wait in its next step for
    those that end.
    """
    end = time.monotonic() + REQUEST_WAIT_S
    while True:
        asked = own.checkpoint_requested() is not None or own.stopping
        ends = own.pausing or own.moving or own.stopping
        said = collective.gather([asked, ends, time.monotonic() >= end])
        count = sum(1 for each in said if each[0])
        if count in (0, len(said)) or said[0][2]:
            return any(each[1] for each in said)
        time.sleep(REQUEST_LOOK_S)


def _await_late_request(own: Session) -> None:
    """Where other ranks end now. (A rank of a fixed number is not asked before it has reported.)"""
    end = time.monotonic() + LATE_REQUEST_S
    while not (own.pausing or own.moving or own.stopping) and time.monotonic() < end:
        time.sleep(REQUEST_LOOK_S)
        own.checkpoint_requested()  # It reads what the worker has sent.


def takes_profile() -> bool:
    """Whether the worker takes profile lines."""
    own = session()
    return own is not None and "profile" in own.takes


def send_profile(elastic: dict[str, Any], now: float) -> None:
    """Sends the profile line to the worker, which must take it."""
    global _sent, _sent_at
    own = session()
    assert own is not None
    _sent, _sent_at = _sent + 1, now
    own.tell({"op": "profile", "type": "profile", "seq": _sent, "elastic": elastic})


def profile_due(now: float) -> bool:
    """Whether a profile line may be sent now."""
    return _sent_at is None or now - _sent_at >= PROFILE_INTERVAL_S
