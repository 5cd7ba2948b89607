"""A bridge in this process's own network namespace, and nodes on it that are namespaces each.

What is made here goes with the namespaces of tests/chaos/run. Names are "head", "n1", "n2", …; a
node's cable is `eth0` inside and `v-NAME` on the bridge.
"""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess

from harness import wait_until

BRIDGE = "10.77.0.1"


def command(*words: str) -> str:
    done = subprocess.run(words, text=True, capture_output=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr or done.stdout}")
    return done.stdout


def read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return bytes(file.readall())


class Network:
    def __init__(self, nodes: list[str]) -> None:
        folder = pathlib.Path("/run/netns")
        folder.mkdir(exist_ok=True)
        command("mount", "-t", "tmpfs", "tmpfs", str(folder))
        command("ip", "link", "set", "lo", "up")
        command("ip", "link", "add", "bridge", "type", "bridge")
        command("ip", "addr", "add", f"{BRIDGE}/24", "dev", "bridge")
        command("ip", "link", "set", "bridge", "up")
        self.nodes = ["head", *nodes]
        for index, name in enumerate(self.nodes):
            self._add(name, f"10.77.0.{10 + index}")

    def _add(self, name: str, address: str) -> None:
        command("ip", "netns", "add", name)
        command("ip", "link", "add", f"v-{name}", "type", "veth", "peer", "name", "eth0", "netns",
                name)
        command("ip", "link", "set", f"v-{name}", "master", "bridge", "up")
        for words in (["addr", "add", f"{address}/24", "dev", "eth0"],
                      ["link", "set", "eth0", "up"], ["link", "set", "lo", "up"]):
            command("ip", "-n", name, *words)

    def address(self, name: str) -> str:
        return f"10.77.0.{10 + self.nodes.index(name)}"

    @staticmethod
    def inside(name: str) -> list[str]:
        """What to put before a command that is to run on that node."""
        return ["nsenter", f"--net=/run/netns/{name}"]

    def cable(self, name: str, up: bool) -> None:
        command("ip", "link", "set", f"v-{name}", "up" if up else "down")

    def rule(self, name: str, chain: str, *match: str) -> None:
        """A rule that drops packets: INPUT is what comes to the node, OUTPUT what it sends."""
        command(*self.inside(name), "iptables", "-w", "-A", chain, "-i" if chain == "INPUT" else
                "-o", "eth0", *match, "-j", "DROP")

    def dropped(self, name: str) -> int:
        """Packets that the rules have dropped so far."""
        said = command(*self.inside(name), "iptables", "-w", "-nvxL")
        return sum(int(line.split()[0]) for line in said.splitlines() if " DROP " in line)

    def heal(self, name: str) -> None:
        command(*self.inside(name), "iptables", "-w", "-F")
        self.cable(name, True)

    def processes(self, name: str) -> dict[int, str]:
        """pid -> arguments, of everything that runs on the node."""
        wanted = os.stat(f"/run/netns/{name}").st_ino
        found = {}
        for pid in os.listdir("/proc"):  # Without pathlib: faults wait by this function.
            try:
                if pid.isdigit() and os.stat(f"/proc/{pid}/ns/net").st_ino == wanted and \
                        b") Z " not in read(f"/proc/{pid}/stat"):
                    text = read(f"/proc/{pid}/cmdline").replace(b"\0", b" ")
                    found[int(pid)] = text.decode(errors="replace").strip()
            except OSError:
                continue  # It has just ended.
        return found

    def kill_all(self, name: str) -> int:
        """As when the machine's power goes. Returns how many were killed."""
        killed = set()

        def gone() -> bool:
            left = self.processes(name)
            for pid in left:
                killed.add(pid)
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            return not left
        wait_until(f"everything on {name} is killed", gone, 10)
        return len(killed)
