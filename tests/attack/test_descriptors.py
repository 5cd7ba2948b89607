"""A daemon without a descriptor for a connection says so where people look, until it has one."""

from __future__ import annotations

import contextlib
import json
import pathlib
import resource
import socket
import subprocess
from typing import Any, Iterator

from listening import ports
from site_under_attack import BIN, AttackTest, wait_until

REASON = "no file descriptor was left"


@contextlib.contextmanager
def without_descriptors(pid: int) -> Iterator[None]:
    """The process cannot open anything as long as this lasts."""
    used = {int(one.name) for one in pathlib.Path(f"/proc/{pid}/fd").iterdir()}
    free = next(number for number in range(len(used) + 1) if number not in used)
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (free, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


def is_refused(port: int) -> bool:
    """Whether a connection is closed before the server has said anything."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.settimeout(1)
        try:
            return connection.recv(1) == b""
        except ConnectionError:
            return True
        except TimeoutError:
            return False


class DescriptorsTest(AttackTest):
    def test_a_head_without_descriptors_says_so_until_it_has_some(self) -> None:
        bridge = subprocess.Popen([str(BIN / "rt"), "bridge"], env=self.site.env, text=True,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(bridge.wait, 30)
        assert bridge.stdin is not None and bridge.stdout is not None
        self.addCleanup(bridge.stdout.close)
        self.addCleanup(bridge.stdin.close)

        def problem() -> str:
            assert bridge.stdin is not None and bridge.stdout is not None
            bridge.stdin.write('{"id": 1, "op": "cluster_status"}\n')
            bridge.stdin.flush()
            answer = json.loads(bridge.stdout.readline())
            return str(answer["result"]["cluster"]["port_problem"] or "")

        self.assertEqual(problem(), "")
        port = int(self.site.address().rsplit(":", 1)[1])
        with without_descriptors(self.site.daemons["head"].pid):
            wait_until("a connection is refused", lambda: is_refused(port))
            self.assertIn(REASON, problem())
        self.assertIn(f"port    connections were closed, because {REASON}",
                      self.site.rt("status").stdout)
        self.assertIn(REASON, self.site.rt("doctor", code=1).stdout)
        wait_until("it is over", lambda: problem() == "")
        self.assertNotIn(REASON, self.site.rt("status").stdout)

    def test_a_worker_without_descriptors_takes_no_work_until_it_has_some(self) -> None:
        daemon = self.site.worker("w1", self.site.token("worker"))
        wait_until("the worker is ready", lambda: self.site.nodes() == {"w1": "READY"})
        (port,) = ports(daemon.pid)

        def node() -> dict[str, Any]:
            shown = json.loads(self.site.rt("node", "show", "w1", "-o", "json").stdout)
            assert isinstance(shown, dict)
            return shown

        with without_descriptors(daemon.pid):
            wait_until("a connection is refused", lambda: is_refused(port))
            wait_until("the node is SUSPECT", lambda: node()["state"] == "SUSPECT")
            self.assertIn(REASON, node()["reason"])
        wait_until("the node is READY", lambda: node()["state"] == "READY")
        self.assertIsNone(node()["reason"])
