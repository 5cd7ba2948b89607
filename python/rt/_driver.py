"""The driver's connection to the head: `rt bridge` outside of jobs, the worker's socket inside.

`get()` opens the one connection of this process when it is first needed, and `close()` ends it. An
embedded cluster ends with its connection. Both kinds of connection answer call(op, ...) with the
result of the operation. They raise ValueError for mistakes of the user and RtError for all other
errors. They are safe to use from several threads.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import shutil
import sys
import threading
import time
import weakref
from dataclasses import dataclass
from typing import Any, Optional, Protocol

from rt._errors import RtError, error_from_reply
from rt._json import dump
from rt._wire import HELLO_WAIT_S, NO_HELLO, Wire

RECONNECT_DEADLINE_S = 600.0  # A worker daemon may be away for an upgrade.
ASK_AGAIN = ("UNAVAILABLE", "RESOURCE_EXHAUSTED")  # Every operation is safe to repeat.
BRIDGE_ENDED = "BRIDGE_ENDED"  # The way to the cluster is gone, and does not come back.
BRIDGE_EXIT_S = 20.0  # The time that an embedded cluster has to end its trials.


@dataclass
class Settings:
    """The choices of init(); by default RT_CLUSTER and the machine's cores."""

    cluster: Optional[str] = None
    cpus: Optional[int] = None
    gpus: Optional[int] = None
    resources: Optional[dict[str, float]] = None  # More of an embedded cluster.
    state: Optional[str] = None  # State of an embedded cluster, from which the next continues.


settings = Settings()


class Driver(Protocol):
    """One connection to a head."""

    embedded: bool  # The head ends with this process.
    embedded_dir: str  # The directory of an embedded cluster's daemons; else empty.
    inside_job: bool
    id: str  # The job's id, or a random text (outside of jobs see rt._identity).

    def call(self, op: str, **fields: Any) -> Any:
        """The result of one operation."""

    def push_dir(self, path: str) -> str:
        """Stores a directory; returns the digest of its manifest."""

    def close(self) -> None:
        """Ends the connection; safe to repeat."""


class BridgeDriver:
    """Exchanges JSON lines with a child process, `rt bridge`, which ends when its input ends."""

    inside_job = False

    def __init__(self, argv: list[str], embedded: bool) -> None:
        import subprocess

        self.embedded = embedded
        self.embedded_dir = ""
        self.id = os.urandom(8).hex()
        self._writing = threading.Lock()  # Of the bridge's input.
        self._lock = threading.Lock()  # Of what follows.
        self._answered = threading.Condition(self._lock)
        self._reading = False  # A thread reads the answers of all.
        self._answers: dict[int, Any] = {}
        self._lost: Optional[Exception] = None
        self._next_id = 0
        try:
            # Its own session: Ctrl-C in the terminal reaches this process only.
            self._child = subprocess.Popen(
                argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
            )
        except OSError as error:
            raise cannot_start(argv[0], error) from None
        os.register_at_fork(after_in_child=self._forget_in_child)
        self.hello = self.call("hello") or {}
        if embedded:
            self.embedded_dir = str(self.hello.get("local_directory") or "")

    def _forget_in_child(self) -> None:
        """A forked child must not keep the bridge's input open."""
        for stream in (self._child.stdin, self._child.stdout):
            try:
                if stream is not None and not stream.closed:
                    os.close(stream.fileno())
            except OSError:
                pass

    def call(self, op: str, **fields: Any) -> Any:
        """The result of one operation. Several threads may call at a time."""
        with self._lock:
            self._next_id += 1
            number = self._next_id
        assert self._child.stdin is not None
        line = dump({"id": number, "op": op, **fields})
        with self._writing:  # Not with the other lock: answers are read meanwhile.
            try:
                self._child.stdin.write(line)
                self._child.stdin.flush()
            except (OSError, ValueError) as error:
                raise self._ended() from error
        with self._lock:
            while number not in self._answers and self._lost is None:
                if self._reading:
                    self._answered.wait()
                else:
                    self._read_one()
            if number not in self._answers:
                assert self._lost is not None
                raise self._lost
            return _result(self._answers.pop(number))

    def _read_one(self) -> None:
        """Reads an answer for whichever thread waits for it. With the lock, which it releases."""
        assert self._child.stdout is not None
        self._reading = True
        self._lock.release()
        try:
            line = self._child.stdout.readline()
        except (OSError, ValueError):  # It was closed.
            line = b""
        finally:
            self._lock.acquire()
            self._reading = False
            self._answered.notify_all()
        if not line:
            self._lost = self._ended()
            return
        reply = json.loads(line)
        if "id" in reply:
            self._answers[int(reply["id"])] = reply
        else:  # The bridge refuses all: it could not begin, or did not understand a line.
            self._lost = error_from_reply(reply.get("error"))

    def _ended(self) -> RtError:
        import subprocess

        text, hint = "the connection to the cluster ended", ""
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self._child.wait(2.0)
            if code == 127:  # The loader's exit code; it printed a message.
                hint = "if a library is missing, run deploy/install-deps.sh or pip install ./python"
            elif code < 0:
                text += f": rt bridge was killed by signal {-code}"
        return RtError(text, BRIDGE_ENDED, hint)

    def push_dir(self, path: str) -> str:
        """Stores a directory; returns the digest of its manifest."""
        reply = self.call("blob_push_dir", path=path, honour_ignore_files=False)
        return str(reply["manifest"])

    def close(self) -> None:
        """Closes the bridge's input and waits for it to end; never kills it midway."""
        import subprocess

        try:
            if self._child.stdin is not None:
                self._child.stdin.close()
        except OSError:
            pass
        if self._child.stdout is not None and not self._child.stdout.closed:
            # The output ends with the bridge, at once; waiting for a process only polls.
            poller = select.poll()
            poller.register(self._child.stdout, select.POLLHUP)
            poller.poll(BRIDGE_EXIT_S * 1000)
            if not self._reading:  # Else closing would wait for the thread that reads.
                self._child.stdout.close()
        try:
            self._child.wait(BRIDGE_EXIT_S)
        except subprocess.TimeoutExpired:
            print("rt: the local cluster is still ending its trials", file=sys.stderr)


class SocketDriver:
    """Talks to the worker daemon of the job (or trial) that this process belongs to."""

    embedded = False
    embedded_dir = ""
    inside_job = True

    def __init__(self, path: str, token: str, deadline_s: float = RECONNECT_DEADLINE_S) -> None:
        self.id = os.environ.get("RT_JOB_ID") or os.environ.get("RT_TRIAL_ID") or "driver"
        self._path = path
        self._token = token
        self._deadline_s = deadline_s
        self._lock = threading.RLock()
        self._next_id = 0
        self._wire = self._dial()

    def _dial(self) -> Wire:
        end = time.monotonic() + self._deadline_s
        while True:
            try:
                wire = Wire.dial(self._path, max(0.1, end - time.monotonic()))
                wire.send(dump({"op": "hello", "token": self._token}))
                reply = wire.receive(HELLO_WAIT_S)
                if reply is None:
                    raise ConnectionError(NO_HELLO)
                if not reply.get("ok", True):
                    raise error_from_reply(reply.get("error"))
                return wire
            except ConnectionError as error:
                if time.monotonic() >= end:
                    message = f"the worker cannot be reached: {error}"
                    raise RtError(message, "UNAVAILABLE") from error
                time.sleep(0.1)

    def _request(self, message: dict[str, Any]) -> Any:
        """One answer to one request. The request is repeated when the connection is lost."""
        with self._lock:
            self._next_id += 1
            line = dump({**message, "id": self._next_id})
            while True:
                try:
                    self._wire.send(line)
                    while True:
                        reply = self._wire.receive(None)
                        if reply is not None and reply.get("id") == self._next_id:
                            return _result(reply)
                except ConnectionError:
                    self._wire.close()
                    self._wire = self._dial()

    def call(self, op: str, **fields: Any) -> Any:
        """The result of one operation; repeated while the head is away or overloaded."""
        end = time.monotonic() + self._deadline_s
        pause_s = 0.05
        while True:
            try:
                return self._request({"op": "driver", "call": {"op": op, **fields}})
            except RtError as error:
                if error.code not in ASK_AGAIN or time.monotonic() + pause_s >= end:
                    raise
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, 1.0)

    def push_dir(self, path: str) -> str:
        """Stores a directory; returns the digest of its manifest."""
        reply = self.call("blob_push_dir", path=path, honour_ignore_files=False)
        return str(reply["manifest"])

    def say_error(self, kind: str, message: str, traceback: str) -> None:
        """Tells the daemon why this process is about to end. Raises ConnectionError."""
        with self._lock:
            text = {"kind": kind, "message": message, "traceback": traceback}
            self._wire.send(dump({"op": "error", **text}))
            reply = self._wire.receive(self._deadline_s)
            while reply is not None and reply.get("op") != "ok":
                reply = self._wire.receive(self._deadline_s)
            if reply is None:
                raise ConnectionError("the worker did not answer")

    def close(self) -> None:
        """Ends the connection; the job continues."""
        self._wire.close()


def _result(reply: dict[str, Any]) -> Any:
    if not reply.get("ok", "error" not in reply):
        raise error_from_reply(reply.get("error"))
    return reply.get("result")


def _script_folders(site: str) -> list[str]:
    """The directories where pip installs programs: environment, user, and --target."""
    import sysconfig

    schemes = [None, "posix_user"]
    paths = [
        sysconfig.get_path("scripts", scheme) if scheme else sysconfig.get_path("scripts")
        for scheme in schemes
    ]
    return [*(path for path in paths if path), os.path.join(site, "bin")]


def cannot_start(program: str, error: OSError) -> RtError:
    """The error for a program of rt that is not there, or is none."""
    hint = "RT_BIN names it; unset it, or name the directory of rt's programs"
    text = f"{program} cannot be started: {error.strerror}"
    return RtError(text, "UNAVAILABLE", hint if os.environ.get("RT_BIN") else "")


def find_binary() -> str:
    """The path of `rt`: RT_BIN, the programs installed with this package, the build in the source
    tree, then PATH.
    """
    given = os.environ.get("RT_BIN")
    if given:
        return os.path.join(given, "rt") if os.path.isdir(given) else given
    package = os.path.dirname(os.path.abspath(__file__))
    source = os.path.dirname(os.path.dirname(package))
    folders = [os.path.join(package, "bin"), *_script_folders(source)]
    candidates = [os.path.join(folder, "rt") for folder in folders]
    if os.path.exists(os.path.join(source, "CMakeLists.txt")):
        candidates.append(os.path.join(source, "build", "release", "bin", "rt"))
    for candidate in candidates:
        # rt's other programs are next to it: another program may also be called rt.
        if os.access(candidate, os.X_OK) and os.path.exists(candidate + "-shim"):
            return candidate
    found = shutil.which("rt")
    if found is None:
        raise RtError("the program 'rt' was not found", "UNAVAILABLE", "set RT_BIN to its path")
    return found


def cpus_here() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


def _cluster() -> Optional[str]:
    return settings.cluster or os.environ.get("RT_CLUSTER")


def _socket() -> Optional[tuple[str, str]]:
    path, token = os.environ.get("RT_SOCKET"), os.environ.get("RT_TOKEN")
    return (path, token) if path and token else None


def is_embedded() -> bool:
    """Whether the head lives and dies with this process: it knows of no earlier run."""
    return _socket() is None and not _cluster()


def has_no_cpus() -> bool:
    """Whether the embedded cluster was asked for without cpus: rt.init(num_cpus=0)."""
    return settings.cpus == 0 and is_embedded()


def open_driver(for_tasks: bool = False) -> Driver:
    """Opens the connection that the environment selects.

    Raises RtError inside a trial, unless the connection is for tasks.
    """
    socket = _socket()
    if (
        socket
        and not for_tasks
        and os.environ.get("RT_TRIAL_ID")
        and not os.environ.get("RT_JOB_ID")
    ):
        raise RtError(
            "a trial cannot start or read a search: fit() and tune.run() are for the script",
            "FAILED_PRECONDITION",
            "to search over a training, pass the trainer to the Tuner of the script: "
            "Tuner(trainer, param_space={'train_loop_config': {...}, 'scaling_config': ...})",
        )
    if socket:
        return SocketDriver(*socket)
    cluster = _cluster()
    if cluster:
        return _open_named(cluster)
    # A worker daemon has at least one cpu. With num_cpus=0 no task of this script gets it.
    cpus = cpus_here() if settings.cpus is None else max(1, settings.cpus)
    argv = [find_binary(), "bridge", "--local", "--cpus", str(cpus)]
    if settings.gpus is not None:
        argv += ["--gpus", str(settings.gpus)]
    if settings.resources:
        more = [f"{name}={amount:g}" for name, amount in settings.resources.items()]
        argv += ["--resources", ",".join(more)]
    state, settings.state = settings.state, None
    return BridgeDriver([*argv, "--state", state] if state else argv, embedded=True)


def _open_named(cluster: str) -> BridgeDriver:
    try:
        return BridgeDriver([find_binary(), "-c", cluster, "bridge"], embedded=False)
    except RtError as error:
        if error.hint or not str(error).startswith("unknown cluster"):
            raise
        named = "rt.init(address=...)" if settings.cluster else "RT_CLUSTER"
        hint = f"{named} names it; rt context list shows the clusters that this account knows"
        raise RtError(str(error), error.code, hint) from None


_current: Optional[Driver] = None
_opening = threading.RLock()
_calls = 0  # Number of searches started by this process: part of a request key.
readers: weakref.WeakSet[Any] = weakref.WeakSet()  # Results that may still read rows.


def get() -> Driver:
    """The connection of this process; opens one if there is none."""
    return _get(for_tasks=False)


def get_for_tasks() -> Driver:
    """The same; a trial may use it, too."""
    return _get(for_tasks=True)


def _get(for_tasks: bool) -> Driver:
    global _current
    with _opening:
        if _current is None:
            _current = open_driver(for_tasks)
            atexit.register(_close_at_exit, _current)
        return _current


def is_open() -> bool:
    """Whether there is a connection."""
    return _current is not None


def next_ordinal() -> int:
    """1 for the first search of this process, and so on."""
    global _calls
    _calls += 1
    return _calls


def close() -> None:
    """Ends the connection after the results that are still in use have read their rows."""
    global _current
    if _current is None:
        return
    for reader in list(readers):
        reader.load_all()
    driver, _current = _current, None
    driver.close()


def _close_at_exit(driver: Driver) -> None:
    global _current
    if _current is driver:
        _current = None
        driver.close()
