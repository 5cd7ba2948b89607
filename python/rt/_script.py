"""A Python program that is a trial, or a rank of one, without a trainable: its session.

Such a program is the command of an experiment, or was submitted with `rt submit --nproc-per-node`.
Its session begins with the first report, and ends with the interpreter.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from types import TracebackType
from typing import Optional

from rt import _session, _signals
from rt._session import Session, TrialStopped
from rt._traceback import user_traceback


def attach() -> Optional[Session]:
    """The session of this program; None if it is not a trial, or only a child process of one.

    Raises ConnectionError or RuntimeError when the worker cannot be reached or refuses.
    """
    if not _is_trial():
        return None
    session = Session(os.environ["RT_SOCKET"], os.environ.get("RT_TOKEN", ""))
    session.experiment_name = os.environ.get("RT_EXPERIMENT_NAME", "")
    _session.current = session
    own_pid = os.getpid()

    class Ended(TrialStopped, SystemExit):
        """Ends the interpreter, with the exit code of a trial that ends early."""

        def __init__(self) -> None:
            super().__init__()
            self.code = 143 if session.terminated else 0

    def finish() -> None:
        if os.getpid() != own_pid:
            return
        try:
            if not session.terminated:
                session.barrier()
        except (ConnectionError, RuntimeError) as error:
            print(f"rt: the worker was lost: {error}", file=sys.stderr)
        # A stop that arrives while the interpreter ends must not change the exit code.
        _signals.set_handler(signal.SIGTERM, _signals.SIG_IGN)

    previous = sys.excepthook

    def failed(
        kind: type[BaseException], error: BaseException, trace: Optional[TracebackType]
    ) -> None:
        previous(kind, error, trace)
        if os.getpid() != own_pid or session.terminated:
            return
        try:
            session.send_error(kind.__name__, str(error), user_traceback(error))
        except (ConnectionError, RuntimeError) as lost:
            print(f"rt: the worker was lost: {lost}", file=sys.stderr)

    session.stop_exception = Ended
    sys.excepthook = failed
    atexit.register(finish)
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        session.handle_signals(raises=True)
    return session


def _is_trial() -> bool:
    """Whether rt started this very process: it leads a process group of its own."""
    known = os.environ.get("RT_SOCKET") and os.environ.get("RT_TRIAL_ID")
    return bool(known) and os.getpgrp() == os.getpid()
