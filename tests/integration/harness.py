"""A real local cluster for a test: its own RT_HOME, ports and processes, gone afterwards."""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from typing import Any, Callable, Iterator

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("RT_BIN", ROOT / "build/release/bin"))


def wait_until(what: str, condition: Callable[[], Any], deadline_s: float = 60,
               lasting: bool = False) -> Any:
    """Waits until `condition` answers something true, and returns it. Fails after `deadline_s`.

    It looks 50 times a second at first, and 10 times where it waits for long: 2 % of the time
    waited may pass between two looks. A `lasting` condition stays true once it is, so that a late
    look misses nothing: 5 % may pass, and looking takes a quarter of the time at most. A process
    of `rt` for each look is dear.
    """
    start = time.monotonic()
    while True:
        began = time.monotonic()
        answer = condition()
        now = time.monotonic()
        if answer:
            return answer
        if now > start + deadline_s:
            raise AssertionError(f"waited {deadline_s} s in vain: {what}")
        # The pace of polling, not a wait for something to have happened.
        pause = min(max(0.02, 0.02 * (now - start)), 0.1)
        if lasting:
            pause = max(pause, min(3 * (now - began), 1), min(0.05 * (now - start), 0.5))
        time.sleep(pause)


def is_private(path: str) -> bool:
    """Whether nobody else may use the file; true also where a daemon removed it meanwhile."""
    try:
        return os.lstat(path).st_mode & 0o077 == 0
    except FileNotFoundError:
        return True


# With what the Python tests need, where tests/python/venv.sh has made it.
VENV = ROOT / "build/venv/bin/python"
PYTHON = VENV if VENV.exists() else pathlib.Path(sys.executable)


def has(*modules: str) -> bool:
    """Whether PYTHON finds all modules. It does not import them: PyTorch takes seconds."""
    look = "import importlib.util as u, sys; sys.exit(None in map(u.find_spec, sys.argv[1:]))"
    return subprocess.run([str(PYTHON), "-c", look, *modules], check=False).returncode == 0


def driver_python() -> str:
    """A Python that has cloudpickle: this one, or that of a venv under build/ made for it."""
    if importlib.util.find_spec("cloudpickle"):
        return sys.executable
    folder = ROOT / "build/driver-venv"
    python = folder / "bin/python"
    with open(ROOT / "build/driver-venv.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # Tests run side by side.
        if not (folder / ".installed").exists():
            subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
            subprocess.run([str(python), "-m", "pip", "install", "--quiet",
                            "--disable-pip-version-check", "cloudpickle"], check=True)
            (folder / ".installed").touch()
    return str(python)


def state_hash(state_dir: pathlib.Path) -> str:
    """By which a worker's cgroup is named: worker/limits/cgroup.cc."""
    mask, value = (1 << 64) - 1, 0
    for byte in str(state_dir).encode():  # common/base/rng.h
        value = ((value ^ byte) + 0x9e3779b97f4a7c15) & mask
        value = ((value ^ (value >> 30)) * 0xbf58476d1ce4e5b9) & mask
        value = ((value ^ (value >> 27)) * 0x94d049bb133111eb) & mask
        value ^= value >> 31
    return f"{value & 0xffffffff:08x}"


def processes_of(root: pathlib.Path) -> dict[int, str]:
    """Processes that carry the path in their arguments or environment, with both."""
    def read(name: str) -> bytes:
        with open(f"/proc/{pid}/{name}", "rb", buffering=0) as file:
            return bytes(file.readall())  # In one go: whole tests wait by this function.
    mark, own = str(root).encode(), str(os.getpid())
    found = {}
    for pid in os.listdir("/proc"):
        if not pid.isdigit() or pid == own:
            continue
        try:
            text = read("cmdline") + read("environ")
            if mark in text and b") Z " not in read("stat"):
                found[int(pid)] = text.decode(errors="replace")
        except OSError:
            continue
    return found


class Cluster:
    """`rt up` on this machine; `rt down --purge` and a check for leftovers in close()."""

    def __init__(self, workers: int = 2, cpus: int = 2) -> None:
        self.home = pathlib.Path(tempfile.mkdtemp(prefix="rt-it-"))
        self.env = {**os.environ, "RT_HOME": str(self.home / "home"), "NO_COLOR": "1",
                    "RT_RESULTS": str(self.home / "results")}
        self.env.pop("RT_CLUSTER", None)
        self.idle_bridges: list[Bridge] = []  # For the next question.
        self.by_demand = False  # It may have no worker at its end.
        self.work = self.home / "work"
        self.work.mkdir()
        self.yaml = self.work / "cluster.yaml"
        self.yaml.write_text(
            "cluster_name: it\nprovider: {type: local}\nhead_node_type: head\n"
            f"max_workers: {workers}\n"
            "available_node_types:\n"
            "  head: {resources: {CPU: 0}, node_config: {}}\n"
            f"  cpu: {{min_workers: {workers}, max_workers: {workers}, node_config: {{}},"
            f" resources: {{CPU: {cpus}}}}}\n")

    def rt(self, *args: str, check: bool = True, timeout: float = 120,
           **kwargs: Any) -> subprocess.CompletedProcess[str]:
        """Runs `rt ARGS`; with check, a failure shows what it printed."""
        if args[:1] in (("up",), ("down",)):
            self.close_bridges()  # They know the cluster that was there before.
        done = subprocess.run([str(BIN / "rt"), *args], env=self.env, cwd=self.work, text=True,
                              capture_output=True, timeout=timeout, stdin=subprocess.DEVNULL,
                              **kwargs)
        if check and done.returncode != 0:
            raise AssertionError(f"rt {' '.join(args)} -> {done.returncode}\n"
                                 f"{done.stdout}\n{done.stderr}\n{self.logs()}")
        return done

    def json(self, *args: str) -> Any:
        return json.loads(self.rt(*args, "-o", "json").stdout)

    def up(self) -> None:
        self.rt("up", str(self.yaml))

    def pid(self, part: str) -> int:
        """The pid of "head" or "worker-1"."""
        path = self.home / "home/clusters/it" / part / "pid"
        return int(path.read_text().split()[0])

    def kill(self, part: str, number: int = signal.SIGKILL) -> int:
        pid = self.pid(part)
        os.kill(pid, number)
        return pid

    def node_items(self) -> list[Any]:
        return list(self.ask("node_list")["items"])

    def node(self, name: str) -> Any:
        """The node of a worker: ids count in the order of joining, which is by chance."""
        return next(one for one in self.node_items() if one["name"] == name)

    def logs(self) -> str:
        out = []
        for path in sorted((self.home / "home").glob("clusters/*/*/log")):
            out.append(f"--- {path}\n" + path.read_text(errors="replace")[-3000:])
        return "\n".join(out)

    def submit(self, name: str, text: str) -> int:
        """Submits an experiment YAML without waiting for it; returns its id."""
        path = self.work / f"{name}.yaml"
        path.write_text(text)
        return int(self.rt("submit", "--detach", "-o", "quiet", str(path)).stdout)

    def experiment(self, number: int) -> Any:
        """As `rt exp show` has it; so are the next ones, at the price of no process."""
        return self.ask("experiment_get", experiment_id=number)

    def experiments(self) -> list[Any]:
        return list(self.ask("experiment_list")["items"])

    def trial(self, trial: str) -> Any:
        return self.ask("trial_get", trial_id=trial)

    def trials(self, number: int) -> list[Any]:
        items: list[Any] = []
        page: dict[str, Any] = {"next": ""}
        while page["next"] is not None:
            page = self.ask("trial_list", experiment_id=number, **{"from": page["next"]})
            items += page["items"]
        return items

    def wait_experiment(self, number: int, deadline_s: float = 120) -> Any:
        """Waits until it is over."""
        def over() -> Any:
            with self.lent_bridge() as bridge:
                # The answer comes when the experiment ends. Without a head it comes at once.
                bridge.ask("experiment_wait", experiment_id=number, until_end=True, hold_ms=5_000)
                shown = bridge.ask("experiment_get", experiment_id=number)
            if shown is None or not shown["ok"]:
                return None  # The head may be on its way back.
            item = shown["result"]
            return item if item["state"] in ("COMPLETED", "STOPPED", "FAILED") else None

        try:
            return wait_until(f"experiment {number} is over", over, deadline_s)
        except AssertionError as error:
            status = self.rt("status", check=False)
            text = f"{error}\n{status.stdout}{status.stderr}\n{self.logs()}"
            raise AssertionError(text) from None

    def follow(self, what: str, number: int, condition: Callable[[Any], Any],
               deadline_s: float = 60) -> None:
        """Waits until the condition holds of the experiment, as it is after each change."""
        with self.lent_bridge() as bridge:
            seen = ""

            def holds() -> Any:
                nonlocal seen
                item = bridge.call("experiment_wait", experiment_id=number, seen=seen,
                                   hold_ms=2_000)
                seen = item["version"]
                return condition(item)
            wait_until(what, holds, deadline_s)

    def bridge(self, requests: list[dict[str, Any]]) -> list[Any]:
        """The results of driver operations (docs/protocol.md), in the order asked for."""
        with self.lent_bridge() as bridge:
            return [bridge.call(**request) for request in requests]

    def ask(self, op: str, **fields: Any) -> Any:
        """The result of one such operation. It shows the daemons' logs when it fails."""
        with self.lent_bridge() as bridge:
            answer = bridge.ask(op, **fields)
        if answer is None or not answer["ok"]:
            raise AssertionError(f"{op} {fields} -> {answer}\n{self.logs()}")
        return answer["result"]

    @contextlib.contextmanager
    def lent_bridge(self) -> Iterator[Bridge]:
        """One that others have used before, since a process for each question is dear."""
        bridge = self.take_idle_bridge() or Bridge(self)
        try:
            yield bridge
        except BaseException:
            bridge.close()
            raise
        self.idle_bridges.append(bridge)

    def take_idle_bridge(self) -> Bridge | None:
        """One that is of use: it runs, in the environment that the cluster's programs have now."""
        with contextlib.suppress(IndexError):  # Threads of a test take them side by side.
            while True:
                bridge = self.idle_bridges.pop()
                if bridge.env == self.env and bridge.child.poll() is None:
                    return bridge
                bridge.close()
        return None

    def close_bridges(self) -> None:
        with contextlib.suppress(IndexError):
            while True:
                self.idle_bridges.pop().close()

    def wait_no_trials(self) -> None:
        """Waits until no process of a trial or job, and no shim of one, is left."""
        def some() -> dict[int, str]:
            return {pid: text for pid, text in self.leftovers().items()
                    if ("rt-shim" in text and "--group" not in text  # An idle warm server's stays,
                        and "--nursery" not in text)  # and what shims come from.
                    or "RT_TRIAL_ID=" in text or "RT_JOB_ID=" in text
                    or "RT_EXECUTOR_ID=" in text}
        try:
            wait_until("no trial is left", lambda: not some(), 20, lasting=True)
        except AssertionError:
            raise AssertionError(f"left behind: {some()}") from None

    def rows(self, experiment: Any, trial: Any) -> list[Any]:
        """Of the trial's result.json, which the first row makes."""
        path = pathlib.Path(experiment["results_dir"]) / trial["name"] / "result.json"
        text = path.read_text() if path.exists() else ""
        return [json.loads(line) for line in text.splitlines()]

    def runtime_dirs(self) -> list[pathlib.Path]:
        workers = (self.home / "home/clusters/it").glob("worker-*")
        return [self.runtime_dir(worker) for worker in workers]

    @staticmethod
    def runtime_dir(worker: pathlib.Path) -> pathlib.Path:
        """Where the sockets of the worker with that state directory lie: runtime_dir.h."""
        return pathlib.Path((worker / "runtime-dir").read_text().strip())

    def close(self) -> None:
        """`rt down`; fails when a process or a directory of the cluster is left."""
        try:
            sockets = self.runtime_dirs()
            if (self.home / "home/clusters/it/up").exists() and not self.by_demand:
                assert sockets and all(path.is_dir() for path in sockets), sockets
            self.rt("down", str(self.yaml), "--purge", "--no-download")
            left = {pid: text[:200] for pid, text in self.leftovers().items()}
            assert not left, f"left behind: {left}"
            kept = [path for path in sockets if path.exists()]
            assert not kept, f"left behind: {kept}"
        finally:
            self.close_bridges()
            for pid in self.leftovers():
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            self.remove_files()

    def remove_files(self) -> None:
        shutil.rmtree(self.home, ignore_errors=True)

    def leftovers(self) -> dict[int, str]:
        """What still runs of this cluster, other than idle bridges of this test."""
        bridges = {bridge.child.pid for bridge in self.idle_bridges}
        return {pid: text for pid, text in processes_of(self.home).items() if pid not in bridges}


class Bridge:
    """One `rt bridge`, asked for one thing at a time: neither pipe can fill up."""

    def __init__(self, cluster: Cluster, env: dict[str, str] | None = None) -> None:
        self.env = dict(env or cluster.env)
        self.child = subprocess.Popen([str(BIN / "rt"), "-c", "it", "bridge"], env=self.env,
                                      cwd=cluster.work, text=True, stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE)

    def ask(self, op: str, **fields: Any) -> Any:
        """The whole answer, which may be an error; None once the bridge has ended."""
        assert self.child.stdin is not None and self.child.stdout is not None
        try:
            self.child.stdin.write(json.dumps({"id": 1, "op": op, **fields}) + "\n")
            self.child.stdin.flush()
        except BrokenPipeError:
            return None
        line = self.child.stdout.readline()
        return json.loads(line) if line else None

    def call(self, op: str, **fields: Any) -> Any:
        answer = self.ask(op, **fields)
        assert answer is not None and answer["ok"], answer
        return answer["result"]

    def kill(self) -> None:
        self.child.kill()
        self.child.wait()

    def close(self) -> None:
        assert self.child.stdin is not None and self.child.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self.child.stdin.close()
        self.child.stdout.close()
        self.child.wait(timeout=30)

    def __enter__(self) -> Bridge:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ClusterTest(unittest.TestCase):
    """Tests that share one cluster, which goes also when what follows its start fails."""

    workers, cpus = 2, 2
    cluster: Cluster

    @classmethod
    def setUpClass(cls) -> None:
        cls.cluster = Cluster(cls.workers, cls.cpus)
        cls.addClassCleanup(cls.cluster.close)
        cls.prepare()
        cls.cluster.up()

    @classmethod
    def prepare(cls) -> None:
        """What must be there before the cluster comes up: its environment, files."""
