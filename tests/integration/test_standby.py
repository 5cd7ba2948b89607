"""Two heads, one of them standing by: kill -9 of the one that leads, and the other one goes on."""

import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

from checks import Search
from harness import BIN, Cluster, processes_of, wait_until
from postgres import Postgres


def free_port() -> int:
    """Of a head whose address others must know before it listens."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Pair(Cluster):
    """Heads "a" and "b", each with --standby; whoever is free first leads. Two workers."""

    def __init__(self, journal: dict) -> None:
        super().__init__()
        self.daemons = self.home / "daemons"
        self.ports = {"a": free_port(), "b": free_port()}
        self.running: list[subprocess.Popen[bytes]] = []
        self.config = self.home / "head.json"
        self.config.write_text(json.dumps({
            "cluster_name": "it", "results_root": str(self.home / "results"), "journal": journal}))
        (self.home / "blobs").mkdir()

    def start(self, name: str, *argv: str) -> None:
        folder = self.daemons / name
        folder.mkdir(parents=True, exist_ok=True)
        with open(folder / "log", "ab") as log:
            self.running.append(subprocess.Popen(
                [*argv, "--state-dir", str(folder)], stdout=log, stderr=log, env=self.env,
                stdin=subprocess.DEVNULL, start_new_session=True))

    def start_head(self, name: str) -> None:
        other = "b" if name == "a" else "a"
        folder = self.daemons / name
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "blobs").exists():  # Both mount the same store of checkpoints.
            (folder / "blobs").symlink_to(self.home / "blobs")
        self.start(name, str(BIN / "rt-head"), "--standby", "--config", str(self.config),
                   "--listen", f"127.0.0.1:{self.ports[name]}",
                   "--peers", f"127.0.0.1:{self.ports[other]}")

    def up(self) -> None:
        self.start_head("a")
        wait_until("the first head", (self.daemons / "a/address").exists)
        self.start_head("b")
        self.rt("context", "add", "it", "--from", str(self.daemons / "a/admin"))
        heads = ",".join(f"127.0.0.1:{port}" for port in self.ports.values())
        for name in ("worker-1", "worker-2"):
            token = self.home / f"{name}.token"
            token.write_text(self.rt("token", "create", "--role", "worker").stdout)
            self.start(name, str(BIN / "rt-worker"), "--head", heads, "--token-file", str(token),
                       "--name", name, "--resources", "cpu=2")
        wait_until("the workers",
                   lambda: self.json("status")["nodes"]["by_state"].get("READY") == 2,
                   lasting=True)
        wait_until("the standby", lambda: "standby: follows" in self.log("b"))

    def log(self, name: str) -> str:
        return (self.daemons / name / "log").read_text(errors="replace")

    def pid(self, part: str) -> int:
        return int((self.daemons / part / "pid").read_text().split()[0])

    def logs(self) -> str:
        return "\n".join(f"--- {path}\n" + path.read_text(errors="replace")[-3000:]
                         for path in sorted(self.daemons.glob("*/log")))

    def fail_over(self, dead: str, heir: str) -> float:
        """kill -9 of the head that leads; the seconds until the other one answers."""
        began = time.monotonic()
        pid = self.kill(dead)
        wait_until("its end", lambda: pid not in processes_of(self.home))
        self.reap()
        wait_until(f"{heir} leads", (self.daemons / heir / "pid").exists)
        self.json("status")
        return time.monotonic() - began

    def reap(self) -> None:
        for process in self.running:
            process.poll()

    def close(self) -> None:
        try:
            for number in (signal.SIGTERM, signal.SIGKILL):
                for process in self.running:
                    if process.poll() is None:
                        process.send_signal(number)
                        try:
                            process.wait(10)
                        except subprocess.TimeoutExpired:
                            continue
        finally:
            for pid in processes_of(self.home):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            shutil.rmtree(self.home, ignore_errors=True)


class StandbyTest(unittest.TestCase):
    def pair(self, journal: dict) -> Pair:
        pair = Pair(journal)
        self.addCleanup(pair.close)
        pair.up()
        return pair

    def shipped(self, mode: str) -> Pair:
        home = pathlib.Path(tempfile.mkdtemp(prefix="rt-standby-"))
        self.addCleanup(shutil.rmtree, home, ignore_errors=True)
        return self.pair({"ship": {"to": str(home / "store"), "mode": mode},
                          "key_file": str(home / "key")})

    def check_takeover(self, pair: Pair, restarted) -> None:
        search = Search(pair, "takeover", verdict_every=3, checkpoint_every=3)
        search.submit()
        search.wait_done(3)
        seconds = pair.fail_over("a", "b")
        epoch = pair.json("status")["cluster"]["epoch"]
        self.assertEqual(epoch, 2, pair.logs())
        search.check(restarted=restarted)
        print(f"takeover by a standby: {seconds:.2f} s until it answered")

    def test_shipped_sync(self) -> None:
        pair = self.shipped("sync")
        self.check_takeover(pair, restarted=())
        # And back: what was the leader stands by, and takes over in turn.
        pair.start_head("a")
        wait_until("a stands by",
                   lambda: "standby: follows" in pair.log("a").split("serving at")[-1])
        search = Search(pair, "back", verdict_every=3)
        search.submit()
        search.wait_done(3)
        (pair.daemons / "a/pid").unlink()
        pair.fail_over("b", "a")
        self.assertEqual(pair.json("status")["cluster"]["epoch"], 3)
        search.check(restarted=())

    def test_postgres(self) -> None:
        database = Postgres()
        self.addCleanup(database.close)
        folder = pathlib.Path(tempfile.mkdtemp(prefix="rt-standby-"))
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        self.check_takeover(self.pair({"url": database.url, "key_file": str(folder / "key")}),
                            restarted=())

    def test_a_head_that_ends_hands_over_at_once(self) -> None:
        pair = self.shipped("async")
        search = Search(pair, "handed", verdict_every=3)
        search.submit()
        search.wait_done(3)
        pair.kill("a", signal.SIGTERM)
        wait_until("b leads", (pair.daemons / "b/pid").exists, 20)
        search.check(restarted=())

    def test_a_leader_that_stood_still_is_fenced(self) -> None:
        pair = self.shipped("sync")
        search = Search(pair, "frozen", verdict_every=3)
        search.submit()
        search.wait_done(3)
        frozen = pair.kill("a", signal.SIGSTOP)
        wait_until("b leads", (pair.daemons / "b/pid").exists, 30)
        os.kill(frozen, signal.SIGCONT)
        wait_until("a has ended", lambda: pair.reap() or frozen not in processes_of(pair.home))
        self.assertIn("this head leads no more", pair.log("a"))
        search.check(restarted=None)


if __name__ == "__main__":
    unittest.main()
