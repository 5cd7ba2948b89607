"""A cluster whose head and workers run in the namespaces of network.py, and are looked after as an
init system would: what a fault ends is started again by whoever injected it. Every state directory
is a small tmpfs of its own, which can be filled. `n1` reaches the head through proxy.py."""

from __future__ import annotations

import json
import pathlib
import shutil
import subprocess
from typing import Any, Collection, Mapping

from daemon import Daemon
from harness import BIN, Cluster, wait_until
from network import BRIDGE, Network, command
from proxy import Proxy

PORT = 7070
DISK_BYTES = {"head": 512 << 20, "worker": 192 << 20}


def takes_notices() -> bool:
    """Whether this worker knows --notice-file."""
    said = subprocess.run([str(BIN / "rt-worker"), "--help"], text=True, capture_output=True,
                          check=True).stdout
    return "--notice-file" in said


class ChaosCluster(Cluster):
    """`wait_ready` returns once every node can take work."""

    def __init__(self, network: Network, cpus: int = 1, proxied: Collection[str] = (),
                 disks: Mapping[str, int] = DISK_BYTES) -> None:
        self.network = network
        self.disks = disks
        self.nodes = network.nodes[1:]
        super().__init__(workers=len(self.nodes), cpus=cpus)
        self.home.chmod(0o755)
        self.cpus = cpus
        self.config = self.home / "config.json"
        self.config.write_text(json.dumps({"cluster_name": "it",
                                           "results_root": str(self.home / "results")}))
        address = f"{network.address('head')}:{PORT}"
        self.proxies = {node: Proxy(BRIDGE, (network.address("head"), PORT)) for node in proxied}
        self.daemons = {"head": self._daemon("head", [
            str(BIN / "rt-head"), "--listen", address, "--config", str(self.config)])}
        for node in self.nodes:
            via = self.proxies[node].address if node in self.proxies else address
            self.daemons[node] = self._daemon(node, [
                str(BIN / "rt-worker"), "--head", via, "--name", node, "--resources",
                f"cpu={cpus}", "--token-file", str(self.home / f"token-{node}"),
                *(["--notice-file", str(self.notice(node))] if takes_notices() else [])])

    def _daemon(self, node: str, argv: list[str]) -> Daemon:
        folder = self.home / node
        folder.mkdir(mode=0o700)
        size = self.disks["head" if node == "head" else "worker"]
        command("mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "tmpfs", str(folder))
        return Daemon(folder, argv, Network.inside(node))

    def notice(self, node: str) -> pathlib.Path:
        """While this file is there, the node is about to go."""
        return self.home / f"notice-{node}"

    @property
    def head(self) -> Daemon:
        return self.daemons["head"]

    def up(self) -> None:
        self.head.start()
        wait_until("the head is up", self.is_up, 30)
        self.rt("context", "add", "it", "--from", str(self.home / "head/admin"))
        for node in self.nodes:
            token = self.rt("token", "create", "--role", "worker").stdout
            (self.home / f"token-{node}").write_text(token)
            self.daemons[node].start()
        self.wait_ready()

    def is_up(self) -> bool:
        """Whether this head serves: it writes its pid last."""
        assert self.head.ended() is None, f"the head ended: {self.logs()}"
        path = self.home / "head/pid"
        return path.exists() and path.read_text().strip() == str(self.head.pid)

    def start_head(self) -> None:
        self.head.start()
        wait_until("the head is up again", self.is_up, 60)

    def wait_ready(self) -> None:
        wait_until("every node is there", lambda: sum(
            one["state"] == "READY" for one in self.node_items()) == len(self.nodes), 60)

    def fill(self, node: str) -> pathlib.Path:
        """Leaves nothing free on the disk of the node. Removing the file frees it again."""
        path = self.home / node / "ballast"
        with open(path, "wb", buffering=0) as ballast:
            for size in (1 << 24, 1 << 12, 1):
                try:
                    while True:
                        ballast.write(b"0" * size)
                except OSError:
                    continue  # That is the aim: nothing of this size fits any more.
        return path

    def dump(self, experiment: int, trials: int) -> Any:
        """What the head says of the experiment that must be the same after a restart."""
        shown, listed = self.experiment(experiment), self.trials(experiment)
        whole = self.bridge([{"op": op, "trial_id": f"{experiment}/{n}"}
                             for n in range(trials) for op in ("trial_get", "trial_rows")])
        return {"experiment": shown, "trials": listed, "whole": whole}

    def logs(self) -> str:
        return "\n".join(f"--- {name}\n{daemon.log()[-4000:]}"
                         for name, daemon in self.daemons.items())

    def close(self) -> None:
        """Ends everything, without asking whether it was in order."""
        self.close_bridges()
        sockets = self.sockets()
        for proxy in self.proxies.values():
            proxy.close()
        for name in self.network.nodes:
            self.network.heal(name)
            self.network.kill_all(name)
        for daemon in self.daemons.values():
            if daemon.process is not None:
                daemon.process.wait(timeout=10)
            command("umount", "-l", str(daemon.folder))
        for path in sockets:
            shutil.rmtree(path, ignore_errors=True)
        shutil.rmtree(self.home, ignore_errors=True)

    def sockets(self) -> list[pathlib.Path]:
        return [self.runtime_dir(self.home / node) for node in self.nodes
                if (self.home / node / "runtime-dir").exists()]
