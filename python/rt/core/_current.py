"""The client of this process: a driver's hub, or the borrower of a task's process."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any, Callable, Optional

_current: Optional[Any] = None  # rt.core._client.Client
_opening = threading.Lock()


def _not_loaded() -> Any:
    raise RuntimeError("import rt.core first")


opener: Callable[[], Any] = _not_loaded  # Set by rt.core: opens the session of a driver.


def get_client() -> Any:
    """The client; in a driver the first call connects to the cluster."""
    if _current is None:
        with _opening:
            if _current is None:
                set_client(opener())
    return _current


def set_client(client: Optional[Any]) -> None:
    """The client of this process from here on."""
    global _current
    _current = client


def find_client() -> Optional[Any]:
    """The client, if there is one."""
    return _current


# Sessions of this process. A fork gets copies of their descriptors, and must not use them.
forgetful: weakref.WeakSet[Any] = weakref.WeakSet()


def _forget_in_child() -> None:
    for each in list(forgetful):
        each.forget_in_child()
        if find_client() is each:
            set_client(None)


os.register_at_fork(after_in_child=_forget_in_child)
