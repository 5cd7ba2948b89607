"""The fork server: it has loaded the trainable once, and forks a process per trial.

It is started like a trial (`python -m rt._trial`, with the same interpreter, flags, environment and
import path) under a group's rt-shim. It talks to the shim over the socket RT_WARM_SERVER
(worker/shim/shim_group.h has the messages). A child is made to look like a new process before any
user code runs. It then tells the shim that it started, and runs the trial as rt/_attempt.py does.

The fork server refuses a trainable whose imports do not survive a fork. Its trials then start cold.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import os
import select
import signal
import socket
import sys
import threading
import traceback
from typing import Any, Callable, NoReturn, Optional

from rt import _api, _attempt, _imports, _session, _training
from rt._collector import rarely_collecting
from rt._session import Session
from rt._wire import Wire

_PDEATHSIG = 1  # prctl
_REHEARSALS = 16  # After eight the interpreter has adapted.
_HELLO = (
    b'{"op":"hello","ok":true,"control":{},"params":{"x":0.5},"spooled_seq":0,'
    b'"iteration_base":0,"time_total_base_s":0,"checkpoint_dir":null}\n'
)
_ACK = b'{"op":"ack","seq":1}\n'
_OWN_VARIABLES = ("RT_WARM_SERVER", "RT_WARM_ROOM", "RT_RUN_DIR")


def obstacle() -> Optional[str]:
    """Why this process must not be forked, or None. Forks once to find out."""
    gpu = _training.opens_gpus()
    if gpu:
        what = "initialised CUDA" if gpu.startswith("/dev/nvidia") else "opened a gpu"
        return f"its import {what} ({gpu} is open)"
    others = [each.name for each in threading.enumerate() if each is not threading.main_thread()]
    if others:
        return f"its import left the thread {others[0]!r}, which does not survive a fork"
    sockets = sum(path.startswith("socket:") for path in _open_files())
    if sockets > 1:  # One socket is the shim's.
        return f"its import left {sockets - 1} open connections, which trials would share"
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        return "its import ignores SIGCHLD"
    if _children():
        return "its import left a child process"
    # OpenBLAS and others end their threads before a fork and start new ones after it. Threads that
    # remain after a fork are of another kind.
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    threads = len(os.listdir("/proc/self/task")) - 1
    if threads:
        return f"its import left {threads} native threads, which do not survive a fork"
    return None


def keep_libraries_without_threads() -> None:
    """Before imports: pyarrow's allocator (jemalloc) must not start its background thread.

    pandas imports pyarrow, too. Unused pages are then returned by the threads that free memory.
    """
    os.environ.setdefault("JE_ARROW_MALLOC_CONF", "background_thread:false")


def _open_files() -> list[str]:
    found = []
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            found.append(os.readlink(f"/proc/self/fd/{name}"))
    return found


def _children() -> list[str]:
    with contextlib.suppress(OSError), open("/proc/thread-self/children") as file:
        return file.read().split()
    return []


class Environment:
    """The environment block of this process, as /proc/PID/environ shows it."""

    def __init__(self) -> None:
        with open("/proc/self/stat", "rb") as file:
            fields = file.read().rsplit(b")", 1)[1].split()
        self._start, end = int(fields[47]), int(fields[48])  # Fields 50 and 51 of the line.
        self._size = max(0, end - self._start)
        for name, value in list(os.environb.items()):
            os.environb[name] = value  # Copied, so that C no longer points into the block.
        self._known = {name + b"=" + value for name, value in os.environb.items()}

    def replace(self, entries: list[bytes]) -> None:
        """Sets the environment to `entries` (NAME=value), including that of C and of /proc."""
        for entry in self._known.difference(entries):
            del os.environb[entry.partition(b"=")[0]]
        for entry in entries:
            if entry not in self._known:
                name, _, value = entry.partition(b"=")
                os.environb[name] = value
        if not self._size:
            return
        block = b"\0".join(entries) + b"\0"
        block = block[: self._size].ljust(self._size, b"\0")
        ctypes.memmove(self._start, block, self._size)


class Request:
    """One trial to fork: its number, and its spec and streams as descriptors."""

    def __init__(self, number: str, fds: list[int]) -> None:
        self.number = number
        self.fds = fds

    def close(self) -> None:
        """Closes the descriptors."""
        for fd in self.fds:
            os.close(fd)

    def read_spec(self) -> tuple[list[bytes], bytes, bytes]:
        """(environment, working directory, directory of the cgroup to join or nothing)."""
        data = b""
        while piece := os.read(self.fds[0], 1 << 20):
            data += piece
        fields = data.split(b"\0")
        count = int(fields[0])
        variables = int(fields[count + 1])
        rest = fields[count + 2 + variables :]
        return fields[count + 2 : count + 2 + variables], rest[0], rest[4]


class Server:
    """Forks trials for the shim, and reports their ends to it."""

    def __init__(
        self,
        control: socket.socket,
        payload: dict[str, Any],
        main: Callable[[dict[str, Any]], int] = _attempt.main,
    ) -> None:
        self._control = control
        self._payload = payload
        self._main = main
        self._environment = Environment()
        self._numbers: dict[int, str] = {}  # Numbers of the attempts, by pidfd.
        self._pids: dict[int, int] = {}
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)

    def run(self) -> NoReturn:
        """Serves until the shim ends it."""
        self._tell("ready")
        while True:
            for fd, _ in self._poll.poll():
                if fd == self._control.fileno():
                    self._take()
                else:
                    self._report_exit(fd)

    def _tell(self, text: str) -> None:
        try:
            self._control.send(text.encode(errors="replace"))
        except OSError:
            self._shim_is_gone()

    def _shim_is_gone(self) -> NoReturn:
        # The daemon gives up these trials; a trial that it does not know must not survive.
        for pid in self._pids.values():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        os._exit(0)

    def _take(self) -> None:
        try:
            data, fds, _, _ = socket.recv_fds(self._control, 256, 3)
        except OSError:
            self._shim_is_gone()
        if not data:
            self._shim_is_gone()
        request = Request(data.decode(), list(fds))
        try:
            pid = os.fork()
        except OSError as error:
            self._tell(f"cold {request.number} fork: {error}")
            request.close()
            return
        if pid == 0:
            self._become(request)
        request.close()
        pidfd = os.pidfd_open(pid)
        self._numbers[pidfd] = request.number
        self._pids[pidfd] = pid
        self._poll.register(pidfd, select.POLLIN)

    def _report_exit(self, pidfd: int) -> None:
        # Reported before it is reaped: if this process is killed in between, the shim inherits it.
        pid = self._pids.pop(pidfd)
        number = self._numbers.pop(pidfd)
        self._poll.unregister(pidfd)
        info = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        if info is not None:
            exited = info.si_code == os.CLD_EXITED
            status = info.si_status << 8 if exited else info.si_status
            self._tell(f"exit {number} {status}")
        os.waitpid(pid, 0)
        os.close(pidfd)

    def _become(self, request: Request) -> NoReturn:
        """The child: it becomes a new process, as far as user code can tell, and runs the trial."""
        code = _attempt.EXIT_FAILED
        try:
            self._prepare(request)
            code = _run(self._main, self._payload)
        except BaseException:
            traceback.print_exc()
        _finish(code)

    def _prepare(self, request: Request) -> None:
        os.setsid()
        for pidfd in self._pids:
            os.close(pidfd)
        entries, cwd, cgroup = request.read_spec()
        os.dup2(request.fds[1], 1)
        os.dup2(request.fds[2], 2)
        request.close()
        what = cgroup
        try:
            if cgroup:
                with open(cgroup + b"/cgroup.procs", "wb", 0) as file:
                    file.write(b"0")
            what = cwd
            os.chdir(cwd)
        except OSError as error:
            kind = "working directory" if what is cwd else "cgroup"
            self._tell(f"failed {request.number} {kind} {os.fsdecode(what)}: {error.strerror}")
            os._exit(127)
        self._environment.replace(entries)
        sys.path[0] = os.fsdecode(cwd)
        _reseed()
        try:
            self._control.send(f"started {request.number} {os.getpid()}".encode())
        except OSError:
            os._exit(_attempt.EXIT_FAILED)  # The shim is gone: no process would reap the trial.
        self._control.close()


def _reseed() -> None:
    """Seeds random generators anew, except `random`, which does that itself at a fork."""
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.default_generator.seed()


def _run(main: Callable[[dict[str, Any]], int], payload: dict[str, Any]) -> int:
    try:
        return main(payload)
    except SystemExit as error:
        if error.code is None or isinstance(error.code, int):
            return int(error.code or 0)
        print(error.code, file=sys.stderr)
        return 1


def _finish(code: int) -> NoReturn:
    """Ends like the interpreter, but does not free its memory, which is mostly the server's."""
    with contextlib.suppress(BaseException):
        threading._shutdown()  # type: ignore[attr-defined]  # Waits for threads.
    with contextlib.suppress(BaseException):
        atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            code = code or 120  # The code that Python uses.
    os._exit(code & 0xFF)


def _rehearse() -> None:
    """Runs a trial that reports a number to a simulated worker, a few times.

    The interpreter adapts code to its use as it runs, and so writes to it. The code that every
    trial runs is adapted here once, instead of in each child in pages of its own.
    """
    payload: dict[str, Any] = {"trainable": _rehearsed, "values": {}, "call": ("config",)}
    for _ in range(_REHEARSALS):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            theirs.sendall(_HELLO)
            session = Session("", "", wire=Wire(ours))
            _session.current = session
            config = _attempt.read_config(session, payload)
            _attempt.run_function(_rehearsed, config, payload["call"])
            theirs.sendall(_ACK)  # A session drops one that comes before its report.
            session.barrier()
    _session.current = None


def _rehearsed(config: dict[str, Any]) -> None:
    _api.report({"loss": config["x"]})


def _open_control() -> socket.socket:
    """The connection to the shim, whose end is this process's while it loads the user's code."""
    control = socket.socket(fileno=int(os.environ["RT_WARM_SERVER"]))
    control.set_inheritable(False)
    for name in _OWN_VARIABLES:
        os.environ.pop(name, None)
    keep_libraries_without_threads()
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # User code may block us meanwhile.
    return control


def _begin(control: socket.socket, why: Optional[str]) -> None:
    """It has loaded; ends the process if it cannot serve."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    if why is not None:
        with contextlib.suppress(OSError):
            control.send(f"refused {why}"[:4000].encode(errors="replace"))
        os._exit(0)
    ctypes.CDLL(None, use_errno=True).prctl(_PDEATHSIG, 0, 0, 0, 0)


def serve_executors(load: Callable[[], None], main: Callable[[dict[str, Any]], int]) -> NoReturn:
    """The fork server of executors (rt/_executor.py): `load` imports, `main` runs in each fork."""
    control = _open_control()
    try:
        load()
        why = obstacle()
    except BaseException as error:
        why = f"loading it raised {type(error).__name__}: {error}"
    _begin(control, why)
    gc.collect()
    gc.freeze()
    Server(control, {}, main).run()


def serve() -> NoReturn:
    """Loads the trainable that the environment names, then serves, or refuses and ends."""
    control = _open_control()
    why: Optional[str] = None
    payload: dict[str, Any] = {}
    try:
        with rarely_collecting():
            payload = _attempt.load_payload()
            found = _imports.import_all([payload["trainable"], payload.get("stop_function")])
            _training.import_ahead(found)
        _attempt.keep_object(payload)
        why = obstacle()
        if why is not None and "kept" in payload:
            why = why.replace("its import", "its import or set-up (reuse_actors)")
    except BaseException as error:
        why = f"loading it raised {type(error).__name__}: {error}"
    _begin(control, why)
    _rehearse()
    gc.collect()
    gc.freeze()
    Server(control, payload).run()
