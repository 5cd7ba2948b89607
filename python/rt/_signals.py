"""Signal handlers of a trial."""

from __future__ import annotations

import _signal
import os
import signal
import threading
from typing import Any

# Without the wrapper of signal.signal, whose enums cost a forked trial dozens of page faults.
set_handler: Any = _signal.signal
SIG_IGN: Any = _signal.SIG_IGN


def leave_to_children(number: int, handler: Any) -> None:
    """Gives forked children the signal's default handler, from their first moment on.

    Python runs handlers between two steps of its interpreter. Right after a fork it forgets those
    that are due: a pool that is terminated would wait without end for a child without its signal.
    """
    masks = threading.local()

    def before() -> None:
        masks.old = signal.pthread_sigmask(signal.SIG_BLOCK, {number})

    def in_parent() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, masks.old)

    def in_child() -> None:
        if signal.getsignal(number) is handler:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, masks.old)

    os.register_at_fork(before=before, after_in_parent=in_parent, after_in_child=in_child)
