"""A head and workers of this machine, each a child of this process in a folder of its own: no root,
no namespaces. What ends is started again by whoever ended it."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import signal
from typing import Any, Collection

from daemon import Daemon
from harness import BIN, Cluster, wait_until

NODES = ["n1", "n2"]


class PlainCluster(Cluster):
    def __init__(self, config: dict[str, Any], flags: Collection[str] = ()) -> None:
        super().__init__(workers=len(NODES), cpus=1)
        text = json.dumps({"cluster_name": "it", "results_root": str(self.home / "results"),
                           **config})
        (self.home / "config.json").write_text(text.replace("@HOME@", str(self.home)))
        self.flags = list(flags)
        self.daemons = {"head": self._daemon("head", [
            str(BIN / "rt-head"), "--config", str(self.home / "config.json")])}

    def _daemon(self, name: str, argv: list[str]) -> Daemon:
        folder = self.home / name
        folder.mkdir(mode=0o700)
        return Daemon(folder, argv)

    def up(self) -> None:
        head = self.daemons["head"]
        head.start()
        whereabouts = head.folder / "address"  # The last that it writes.
        wait_until("the head is up", whereabouts.exists, 30)
        self.rt("context", "add", "it", "--from", str(head.folder / "admin"))
        address = whereabouts.read_text().strip()
        for node in NODES:
            token = self.home / f"token-{node}"
            token.write_text(self.rt("token", "create", "--role", "worker").stdout)
            self.daemons[node] = self._daemon(node, [
                str(BIN / "rt-worker"), "--head", address, "--name", node, "--resources", "cpu=1",
                "--token-file", str(token), *self.flags])
            self.daemons[node].start()

    def has_all_nodes(self) -> bool:
        states = [node["state"] for node in self.node_items()]
        return len(states) == len(NODES) and set(states) <= {"READY", "DRAINING"}

    def run_directories(self) -> list[pathlib.Path]:
        """Of attempts, on both nodes."""
        return [path for node in NODES for path in (self.home / node / "attempts").glob("*")]

    def trial_pids(self, node: str) -> dict[int, str]:
        """Of the users' programs on the node, with the trial of each."""
        mark = "\0RT_TRIAL_ID="
        return {pid: text.split(mark)[1].split("\0")[0]
                for pid, text in self.processes(node).items()
                if "rt-shim" not in text.split("\0")[0] and mark in text}

    def processes(self, node: str) -> dict[int, str]:
        mark = str(self.home / node) + "/"
        return {pid: text for pid, text in self.leftovers().items() if mark in text}

    def logs(self) -> str:
        return "\n".join(f"--- {name}\n{daemon.log()[-4000:]}"
                         for name, daemon in self.daemons.items())

    def sockets(self) -> list[pathlib.Path]:
        return [self.runtime_dir(self.home / node) for node in NODES
                if (self.home / node / "runtime-dir").exists()]

    def end(self) -> None:
        """Ends all daemons in order; fails when one did not end well, or something is left."""
        self.close_bridges()
        for name in reversed(list(self.daemons)):
            self.daemons[name].end()
        wait_until("nothing is left", lambda: not self.leftovers(), 20, lasting=True)
        kept = [str(path) for path in self.sockets() if path.exists()]
        assert not kept, f"left behind: {kept}"
        for name, daemon in self.daemons.items():
            assert "check failed" not in daemon.log(), f"{name}: {daemon.log()[-2000:]}"

    def close(self) -> None:
        """Ends everything, without asking whether it was in order."""
        self.close_bridges()
        for daemon in self.daemons.values():
            if daemon.process is not None and daemon.ended() is None:
                daemon.process.kill()
                daemon.process.wait(timeout=10)
        for pid in self.leftovers():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        for path in self.sockets():
            shutil.rmtree(path, ignore_errors=True)
        self.remove_files()
