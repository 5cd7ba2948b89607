"""`python -m rt._executor`: an executor, which forks a process for each connection of its driver.

It runs no code of the user itself (adr/0041). It ends when it has had no process for a while, so
that nothing is left of a driver that was killed. With RT_WARM_SERVER the process is the fork server
of executors.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import select
import signal
import socket
import struct
import sys
import time
from typing import Any, NoReturn, Optional

from rt._collector import rarely_collecting
from rt._runtime_env import MODULES_VARIABLE
from rt.core import _dial

_IDLE_S = 10.0  # Without any process: the driver is gone, or has given the executor back.
_GREETING_S = 5.0
_GREETINGS_MAX = 256  # Connections that have not greeted; a further one ends the oldest.
_KEEPER_S = 10.0  # For the keeper of a value to come after who needs it.
_TAKERS_MAX = 1024
_NOTES_BYTES_MAX = 1 << 16  # Of how processes ended: a driver reads the newest ones.
_PDEATHSIG = 1


def preload() -> None:
    """Imports what each process needs, and the packages that the driver has imported. One that
    fails will fail where it is needed."""
    importlib.import_module("rt.core._process")
    importlib.import_module("rt.core._keeper")
    for name in os.environ.get("RT_PRELOAD", "").split(","):
        if name:
            with contextlib.suppress(Exception), rarely_collecting():
                importlib.import_module(name)


class Executor:
    """Accepts connections and forks."""

    def __init__(self, directory: str, secret: str) -> None:
        self._secret = secret
        self._directory = directory
        self._listener = _dial.listen(directory)
        self._pids: dict[int, int] = {}  # pidfd -> pid.
        self._greetings: dict[int, _dial.Greeting] = {}  # By descriptor; the oldest is first.
        self._actor = -1  # The pidfd of a detached actor.
        self._actor_control: Optional[socket.socket] = None
        self._keeper = -1  # The pidfd of the process that keeps values (rt/core/_keeper.py).
        self._keeper_control: Optional[socket.socket] = None
        self._had_keeper = False
        # Processes that ask for a value before there is a keeper: (connection, serial, deadline).
        self._takers: list[tuple[socket.socket, int, float]] = []
        self._poll = select.poll()
        self._poll.register(self._listener, select.POLLIN)

    def run(self) -> int:
        """Until it is idle, or is told to end."""
        signal.signal(signal.SIGTERM, self._end)
        if "RT_ACTOR" in os.environ:
            self._start_actor()
        idle_since = time.monotonic()
        while True:
            if self._pids:
                idle_since = time.monotonic()
            left = idle_since + _IDLE_S - time.monotonic()
            if left <= 0:
                return 0
            for fd, _ in self._poll.poll(self._wait_ms(None if self._pids else left)):
                if fd == self._listener.fileno():
                    self._accept()
                elif fd in self._greetings:
                    self._read(fd)
                elif fd == self._actor:
                    return self._reap(fd)
                elif fd in self._pids:
                    self._reap(fd)
                    idle_since = time.monotonic()
            self._end_silent()

    def _wait_ms(self, left: Optional[float]) -> Optional[float]:
        """How long to poll: until the executor is idle, or a greeting is late."""
        for each in self._greetings.values():
            until = each.deadline - time.monotonic()
            left = until if left is None else min(left, until)
            break
        for _, _, deadline in self._takers[:1]:
            until = deadline - time.monotonic()
            left = until if left is None else min(left, until)
        return None if left is None else max(0.0, left) * 1000

    def _end_silent(self) -> None:
        """Ends the connections that have not greeted in time, or were not served."""
        now = time.monotonic()
        while self._takers and self._takers[0][2] <= now:
            self._takers.pop(0)[0].close()
        for fd, each in list(self._greetings.items()):
            if each.deadline > now and len(self._greetings) <= _GREETINGS_MAX:
                return
            self._forget(fd).close()

    def _forget(self, fd: int) -> socket.socket:
        self._poll.unregister(fd)
        return self._greetings.pop(fd).sock

    def _end(self, *_: Any) -> NoReturn:
        for pid in self._pids.values():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        os._exit(128 + signal.SIGTERM)

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except OSError:  # It has gone again, or there are too many descriptors.
            return
        fd = sock.fileno()
        self._greetings[fd] = _dial.Greeting(sock, time.monotonic() + _GREETING_S)
        self._poll.register(fd, select.POLLIN)
        self._read(fd)

    def _read(self, fd: int) -> None:
        """Reads what has come of a greeting; serves the connection once it is whole."""
        try:
            found = self._greetings[fd].read(self._secret)
        except (OSError, PermissionError):
            self._forget(fd).close()
            return
        if found is not None:
            self._serve(self._forget(fd), *found)

    def _serve(self, sock: socket.socket, what: int, number: int) -> None:
        if what == _dial.KILL:
            if number == _dial.ACTORS_PROCESS:
                number = self._pids.get(self._actor, -1)
            if number in self._pids.values():
                with contextlib.suppress(OSError):
                    os.kill(number, signal.SIGKILL)
            sock.close()
            return
        if what == _dial.ACTOR and self._actor_control is not None:
            with contextlib.suppress(OSError):
                socket.send_fds(self._actor_control, [b"c"], [sock.fileno()])
            sock.close()
            return
        if what == _dial.TAKE:
            self._pass_to_keeper(sock, number)
            return
        control = theirs = None
        if what == _dial.KEEP:
            control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        parent = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            print(f"rt: fork: {error}", file=sys.stderr, flush=True)
            sock.close()
            return
        if pid == 0:
            self._prepare_child(parent)
            if theirs is not None and control is not None:
                control.close()
                sys.modules["rt.core._keeper"].run_keeper(sock, theirs)
            sys.modules["rt.core._process"].run_process(sock, number, self._secret)
            os._exit(1)
        sock.close()
        pidfd = self._watch(pid)
        if theirs is not None and control is not None:
            theirs.close()
            self._keeper_came(pidfd, control)

    def _keeper_came(self, pidfd: int, control: socket.socket) -> None:
        """The newest keeper takes the place of an earlier one, which the driver has given up."""
        if self._keeper_control is not None:
            self._keeper_control.close()
        control.setblocking(False)
        self._keeper, self._keeper_control, self._had_keeper = pidfd, control, True
        takers, self._takers = self._takers, []
        for sock, number, _ in takers:
            self._pass_to_keeper(sock, number)

    def _pass_to_keeper(self, sock: socket.socket, number: int) -> None:
        """Another process of the session needs a value. It may have come before the keeper; when
        the keeper is gone, it asks the driver."""
        if self._keeper_control is None and not self._had_keeper:
            if len(self._takers) < _TAKERS_MAX:
                self._takers.append((sock, number, time.monotonic() + _KEEPER_S))
                return
        elif self._keeper_control is not None:
            with contextlib.suppress(OSError):
                data = struct.pack("<Q", number)
                socket.send_fds(self._keeper_control, [data], [sock.fileno()])
        sock.close()

    def _start_actor(self) -> None:
        self._actor_control, theirs = socket.socketpair()
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            self._prepare_child(parent)
            self._actor_control.close()
            importlib.import_module("rt.core._desk").run_actor(theirs)
            os._exit(1)
        theirs.close()
        self._actor = self._watch(pid)

    def _watch(self, pid: int) -> int:
        pidfd = os.pidfd_open(pid)
        self._pids[pidfd] = pid
        self._poll.register(pidfd, select.POLLIN)
        return pidfd

    def _prepare_child(self, parent: int) -> None:
        ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        for pidfd in self._pids:
            os.close(pidfd)
        for each in self._greetings.values():
            each.sock.close()
        for taker, _, _ in self._takers:
            taker.close()
        if self._keeper_control is not None:
            self._keeper_control.close()
        self._listener.close()

    def _reap(self, pidfd: int) -> int:
        """The exit code of the process, as a shell has it."""
        pid = self._pids.pop(pidfd)
        if pidfd == self._keeper and self._keeper_control is not None:
            self._keeper_control.close()
            self._keeper, self._keeper_control = -1, None
        self._poll.unregister(pidfd)
        os.close(pidfd)
        _, status = os.waitpid(pid, 0)
        self._note(pid, status)
        return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)

    def _note(self, pid: int, status: int) -> None:
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            text = f"signal {number} ({signal.Signals(number).name})"
        else:
            text = f"exit code {os.WEXITSTATUS(status)}"
        with (
            contextlib.suppress(OSError),
            open(f"{self._directory}/ends", "a", encoding="ascii") as file,
        ):
            if file.tell() > _NOTES_BYTES_MAX:
                file.truncate(0)
            file.write(f"{pid} {text}\n")


def main(loaded: Optional[dict[str, Any]] = None) -> int:
    """One executor, in a process of its own or in a fork of the fork server."""
    if loaded is None:  # Not in a fork.
        preload()
    with open(os.environ["RT_CONFIG"], encoding="utf-8") as file:
        secret = str(json.load(file)["secret"])
    modules = os.environ.get(MODULES_VARIABLE)
    if modules:
        sys.path.insert(1, modules)  # After the working directory.
    executor = Executor(os.environ["RT_TRIAL_DIR"], secret)
    gc.collect()
    gc.freeze()
    return executor.run()


if __name__ == "__main__":
    if "RT_WARM_SERVER" in os.environ:
        from rt import _warm

        _warm.serve_executors(preload, main)
    sys.exit(main())
