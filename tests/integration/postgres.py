"""A real PostgreSQL for a test: in a temporary directory, on a Unix socket, ended by its pid."""

from __future__ import annotations

import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import tempfile
import urllib.parse

from harness import wait_until


class Postgres:
    """Started at once. It refuses to run as root: root's tests run it as "postgres"."""

    def __init__(self) -> None:
        found = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/initdb"))
        if not found:
            raise AssertionError("install the package postgresql (deploy/install-deps.sh)")
        self.bin = found[-1].parent
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="rt-pg-"))
        self.before: list[str] = []
        if os.geteuid() == 0:
            account = pwd.getpwnam("postgres")
            os.chown(self.folder, account.pw_uid, account.pw_gid)
            self.before = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups",
                           "--"]
        subprocess.run([*self.before, str(self.bin / "initdb"), "-D", str(self.folder / "data"),
                        "-A", "trust", "-U", "rt", "-E", "UTF8", "--no-locale", "--no-sync"],
                       cwd=self.folder, check=True, capture_output=True)
        self.start()

    def start(self) -> None:
        """Starts the server; also again, after kill()."""
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                [*self.before, str(self.bin / "postgres"), "-D", str(self.folder / "data"),
                 "-k", str(self.folder), "-h", ""],
                cwd=self.folder, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        wait_until("PostgreSQL", lambda: self.ask("SELECT 1", check=False) == "1")

    def kill(self) -> None:
        """As a machine that fails: nothing is tidied up."""
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait(30)

    @property
    def url(self) -> str:
        return f"postgres://rt@/postgres?host={urllib.parse.quote(str(self.folder), safe='')}"

    def ask(self, sql: str, check: bool = True) -> str:
        done = subprocess.run([str(self.bin / "psql"), "-XAtq", "-c", sql, self.url],
                              capture_output=True, text=True, check=False)
        if check and done.returncode != 0:
            raise AssertionError(f"{sql}: {done.stderr}")
        return done.stdout.strip()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(30)
        shutil.rmtree(self.folder, ignore_errors=True)
