"""Hosts with sshd for a test: daemons on 127.0.0.1 with ports, host keys and homes of their own."""

from __future__ import annotations

import os
import pathlib
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

from harness import processes_of, wait_until

SSHD = shutil.which("sshd") or "/usr/sbin/sshd"
USER = pwd.getpwuid(os.geteuid()).pw_name


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def make_key(path: pathlib.Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)


class Host:
    """One sshd, and the home directory that its logins get."""

    def __init__(self, root: pathlib.Path, name: str, client_key: pathlib.Path) -> None:
        self.name, self.root = name, root / name
        self.home = self.root / "home"
        self.home.mkdir(parents=True)
        self.root.chmod(0o700)
        (self.root / "authorized_keys").write_text(client_key.with_suffix(".pub").read_text())
        make_key(self.root / "host_key")
        python = pathlib.Path(sys.executable).parent
        # What a login shell finds: the Python of the tests.
        (self.home / ".profile").write_text(f'PATH="{python}:$PATH"\nexport RT_TEST_HOST={name}\n')
        self.port = free_port()
        self.config = self.root / "sshd_config"
        self.config.write_text(
            f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {self.root}/host_key\n"
            f"AuthorizedKeysFile {self.root}/authorized_keys\nPidFile {self.root}/pid\n"
            "PasswordAuthentication no\nKbdInteractiveAuthentication no\nUsePAM no\n"
            f"PermitRootLogin yes\nStrictModes no\nSetEnv HOME={self.home}\nLogLevel VERBOSE\n"
            "MaxStartups 100\n")
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        os.makedirs("/run/sshd", exist_ok=True)
        log = open(self.root / "log", "ab")
        self.process = subprocess.Popen([SSHD, "-D", "-e", "-f", str(self.config)], stdout=log,
                                        stderr=log, stdin=subprocess.DEVNULL)
        log.close()

        def answers() -> bool:
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", self.port)) == 0
        wait_until(f"sshd of {self.name} listens", answers)

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(timeout=20)
            self.process = None

    def kill(self) -> None:
        """As a machine that lost its power: sshd and everything that it started."""
        self.stop()
        for pid in processes_of(self.root):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def rt_files(self) -> list[str]:
        """What rt has left in the home directory, but for what only `--purge` removes."""
        node = self.home / ".rt-node"
        return sorted(path.name for path in node.glob("*"))


class Hosts:
    """Several hosts and the key of their client."""

    def __init__(self, count: int) -> None:
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="rt-hosts-"))
        self.key = self.root / "client_key"
        make_key(self.key)
        self.all = [Host(self.root, f"h{number + 1}", self.key) for number in range(count)]
        for host in self.all:
            host.start()

    def inventory(self, resources: str = "{cpu: 1}") -> str:
        """`provider` and `auth` of cluster.yaml."""
        lines = "".join(f"    - {{name: {host.name}, host: 127.0.0.1, port: {host.port}, "
                        f"resources: {resources}}}\n" for host in self.all)
        return (f"auth: {{ssh_user: {USER}, ssh_private_key: {self.key}}}\n"
                f"provider:\n  type: ssh\n  hosts:\n{lines}")

    def close(self) -> None:
        for host in self.all:
            host.kill()
        shutil.rmtree(self.root, ignore_errors=True)
