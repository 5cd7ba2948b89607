"""The units of deploy/systemd: what systemd-analyze says of them, what the daemons tell a service
manager, and, in namespaces where systemd is process 1, that restarting a unit restarts no trial."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

from harness import BIN, Cluster, wait_until

HERE = pathlib.Path(__file__).resolve().parent
UNITS = ("rt-head", "rt-worker")
# Tenths of systemd-analyze's "exposure": 0 is closed, 100 open.
EXPOSURE_MAX = {"rt-head": 20, "rt-worker": 50}
INSTALL = ["cmake", "--install", str(BIN.parent), "--component", "systemd", "--prefix"]


class UnitsTest(unittest.TestCase):
    def setUp(self) -> None:
        self.prefix = pathlib.Path(tempfile.mkdtemp(prefix="rt-units-"))
        self.addCleanup(shutil.rmtree, self.prefix)
        subprocess.run([*INSTALL, str(self.prefix)], check=True, stdout=subprocess.DEVNULL)
        (self.prefix / "bin").mkdir()
        for unit in UNITS:
            (self.prefix / "bin" / unit).symlink_to(BIN / unit)

    def analyze(self, *words: str) -> str:
        done = subprocess.run(["systemd-analyze", *words], text=True, capture_output=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def test_systemd_finds_no_fault(self) -> None:
        paths = [str(self.prefix / f"lib/systemd/system/{unit}.service") for unit in UNITS]
        self.assertEqual(self.analyze("verify", *paths), "")

    def test_exposure(self) -> None:
        for unit, most in EXPOSURE_MAX.items():
            said = self.analyze("security", "--offline=yes", f"--threshold={most}", "--no-pager",
                                str(self.prefix / f"lib/systemd/system/{unit}.service"))
            self.assertIn("Overall exposure level", said)


class NotifyTest(unittest.TestCase):
    """A socket of ours in the place of systemd's."""

    def setUp(self) -> None:
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="rt-notify-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(self.socket.close)
        self.socket.bind(str(self.folder / "notify"))
        self.socket.settimeout(30)
        self.env = {**os.environ, "NOTIFY_SOCKET": str(self.folder / "notify"),
                    "WATCHDOG_USEC": "400000"}
        self.env.pop("WATCHDOG_PID", None)

    def start(self, *argv: str) -> "subprocess.Popen[bytes]":
        daemon = subprocess.Popen(argv, env=self.env, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(daemon.wait)
        self.addCleanup(daemon.kill)
        return daemon

    def next(self) -> str:
        return self.socket.recv(4096).decode()

    def check_words(self, daemon: "subprocess.Popen[bytes]", status: str) -> None:
        ready = self.next()
        self.assertTrue(ready.startswith("READY=1\nSTATUS="), ready)
        self.assertIn(status, ready)
        for _ in range(3):
            self.assertEqual(self.next(), "WATCHDOG=1\n")
        daemon.send_signal(signal.SIGTERM)
        last = self.next()
        while last == "WATCHDOG=1\n":
            last = self.next()
        self.assertEqual(last, "STOPPING=1\n")
        self.assertEqual(daemon.wait(timeout=30), 0)

    def test_head(self) -> None:
        daemon = self.start(str(BIN / "rt-head"), "--state-dir", str(self.folder / "head"))
        self.check_words(daemon, "serving at 127.0.0.1:")

    def test_worker(self) -> None:
        cluster = Cluster(workers=1)
        self.addCleanup(cluster.close)
        cluster.up()
        token = self.folder / "token"
        token.write_text(cluster.rt("token", "create", "--role", "worker").stdout)
        head = (cluster.home / "home/clusters/it/head/address").read_text().strip()
        daemon = self.start(str(BIN / "rt-worker"), "--head", head, "--name", "noted",
                            "--state-dir", str(self.folder / "worker"), "--token-file", str(token))
        self.check_words(daemon, f"(noted) of {head}")


def has_cgroup2() -> bool:
    return " - cgroup2 " in pathlib.Path("/proc/self/mountinfo").read_text()


@unittest.skipUnless(os.geteuid() == 0 and has_cgroup2(),
                     "systemd is started in namespaces: that needs root and a mounted cgroup2")
class SystemdTest(unittest.TestCase):
    """A systemd as process 1 of namespaces (services_init.sh), with both units."""

    def setUp(self) -> None:
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="rt-systemd-"))
        self.folder.chmod(0o755)
        self.addCleanup(shutil.rmtree, self.folder)
        self.log = self.folder / "log"
        group = pathlib.Path(next(line.split()[4] for line in pathlib.Path(
            "/proc/self/mountinfo").read_text().splitlines() if " - cgroup2 " in line))
        self.group = group / self.folder.name
        self.group.mkdir()
        self.addCleanup(self.remove_group)
        with open(self.log, "wb") as log:
            self.init = subprocess.Popen(
                ["unshare", "--fork", "--kill-child", "--pid", "--mount", "--uts", "--ipc",
                 "--net", "--cgroup", "--mount-proc", str(HERE / "services_init.sh"),
                 str(BIN.parent), *INSTALL],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                preexec_fn=lambda: (self.group / "cgroup.procs").write_text(str(os.getpid())))
        self.addCleanup(self.end)
        wait_until("systemd runs", self.is_running, 60)

    def is_running(self) -> bool:
        assert self.init.poll() is None, self.log.read_text()
        children = pathlib.Path(f"/proc/{self.init.pid}/task/{self.init.pid}/children")
        pids = children.read_text().split()
        self.pid = pids[0] if pids else ""
        return bool(pids) and self.inside("systemctl", "is-system-running",
                                          check=False) == "running\n"

    def end(self) -> None:
        self.init.kill()
        self.init.wait(timeout=30)

    def remove_group(self) -> None:
        def removed() -> bool:
            for path, _, _ in os.walk(self.group, topdown=False):
                try:
                    os.rmdir(path)
                except OSError:
                    return False  # What ran there is just ending.
            return True
        wait_until("the control group is empty", removed, 20)

    def inside(self, *argv: str, check: bool = True) -> str:
        done = subprocess.run(
            ["nsenter", "-t", self.pid, "-m", "-p", "-u", "-i", "-n", "-C", *argv], text=True,
            capture_output=True, stdin=subprocess.DEVNULL, timeout=120,
            env={"PATH": "/opt/rt/bin:" + os.environ["PATH"], "RT_HOME": "/run/home"})
        said = done.stdout + (done.stderr if check else "")
        if check and done.returncode != 0:
            logs = "".join(path.read_text() for path in [self.log])
            raise AssertionError(f"{argv} -> {done.returncode}\n{said}\n{logs}")
        return said

    def pid_of(self, unit: str) -> int:
        return int(self.inside("systemctl", "show", "-P", "MainPID", unit))

    def node(self) -> dict[str, str]:
        items = json.loads(self.inside("rt", "node", "list", "-o", "json"))["items"]
        return dict(items[0])

    def running(self) -> dict[str, object]:
        """The one trial: its attempt's number and its program's pid."""
        shown = json.loads(self.inside("rt", "trial", "show", "1/0", "-o", "json"))
        member = shown["attempts"][-1]["members"][0]
        return {"state": shown["state"], "attempt": shown["attempt"], "pid": member["pid"]}

    def test_restarting_a_unit_restarts_no_trial(self) -> None:
        self.inside("systemctl", "start", "rt-head")
        self.inside("rt", "context", "add", "it", "--from", "/var/lib/rt-head/admin")
        self.inside("sh", "-c", "rt token create --role worker > /etc/rt/worker.token && "
                                "chown rt /etc/rt/worker.token")
        self.inside("systemctl", "start", "rt-worker")
        self.inside("sh", "-c", "cd /run/home && printf 'experiment: long\\ncommand: [sleep, "
                                "\"1000\"]\\n' > long.yaml && rt submit --detach long.yaml")
        before = wait_until("it runs", lambda: self.running()
                            if self.running()["state"] == "RUNNING" else None)
        self.assertEqual(before["attempt"], 1)
        for unit in ("rt-worker", "rt-head"):
            daemon = self.pid_of(unit)
            self.inside("systemctl", "restart", unit)
            self.assertNotEqual(self.pid_of(unit), daemon)
        wait_until("its node is back", lambda: self.node()["state"] == "READY")
        self.assertEqual(self.running(), before)
        # Stopped for longer than a node may be silent, as for an upgrade, and started again.
        self.inside("systemctl", "stop", "rt-worker")
        stopped = time.monotonic()
        self.assertIn("away until", self.node()["reason"])
        wait_until("three seconds have passed", lambda: time.monotonic() - stopped > 3)
        self.assertEqual(self.node()["state"], "SUSPECT")
        self.inside("systemctl", "start", "rt-worker")
        wait_until("its node is back", lambda: self.node()["state"] == "READY")
        self.assertEqual(self.running(), before)
        status = self.inside("systemctl", "status", "rt-worker", "--no-pager")
        self.assertIn("sleep 1000", status)  # In the unit's control group, as it was.
        self.watchdog("rt-head")
        self.assertEqual(self.running(), before)
        self.watchdog("rt-worker")  # It was silent for longer than a node may be.

    def watchdog(self, unit: str) -> None:
        """A daemon that hangs is killed and started again (services_init.sh shortens the time)."""
        daemon = self.pid_of(unit)
        self.inside("kill", "-STOP", str(daemon))
        wait_until(f"{unit} was started again",
                   lambda: self.pid_of(unit) not in (0, daemon) and self.inside(
                       "systemctl", "is-active", unit, check=False) == "active\n", 60)
        wait_until("its node is back", lambda: '"READY"' in self.inside(
            "rt", "node", "list", "-o", "json", check=False).replace(" ", ""))


if __name__ == "__main__":
    sys.exit(unittest.main())
