"""Somebody else has a node's certificate: what the node's own daemon and the head make of it."""

from __future__ import annotations

import itertools
import json
import pathlib
import signal
import time
import unittest
from typing import Any

from http2 import Connection, number_field
from site_under_attack import AttackTest, wait_until

OK, FAILED_PRECONDITION = 0, 9
SYNC = "/rt.v1.WorkerService/Sync"


class ImpostorTest(AttackTest):
    worker: pathlib.Path
    incarnation: int

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.site.worker("w1", cls.site.token("worker"))
        wait_until("the worker is ready", lambda: cls.site.nodes() == {"w1": "READY"})
        cls.worker = next(path.parent for path in (cls.site.root / "w1").rglob("cert.pem"))
        cls.incarnation = int((cls.site.root / "w1/incarnation").read_text())

    def sync(self, seq: int, ahead: int = 0) -> int:
        """Calls as the daemon, or as one whose incarnation is `ahead` of it."""
        incarnation = number_field(1, self.incarnation + ahead)
        with Connection(self.site.address(), self.context(self.worker)) as connection:
            return connection.call(SYNC, incarnation + number_field(2, seq))

    def node(self) -> dict[str, Any]:
        shown = json.loads(self.site.rt("node", "show", "w1", "-o", "json").stdout)
        assert isinstance(shown, dict)
        return shown

    def restart_head(self) -> None:
        self.assertEqual(self.site.end("head"), 0)
        self.limited("head", "rt-head", "--state-dir", str(self.state), "--listen", "127.0.0.1:0")
        wait_until("the head is back", (self.state / "pid").exists)

    def wait_for_log(self, text: str) -> None:
        wait_until(f"the daemon says '{text}'", lambda: text in self.site.log("w1"))

    def test_a_call_number_that_is_made_up_shuts_the_daemon_out_of_nothing(self) -> None:
        for seq in (2**64 - 1, 2**63, 2**41):
            self.assertEqual(self.sync(seq), FAILED_PRECONDITION, seq)
        self.assertEqual(self.sync(1_000_000), OK)
        self.wait_for_log("another program has used this node's certificate: the head heard "
                          "call 1000000")
        caught_up = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() + 3))
        states = set()

        def is_heard() -> bool:
            states.add(self.site.nodes()["w1"])
            return str(self.node()["last_seen_at"]) > caught_up

        wait_until("it is heard for longer than its lease", is_heard)
        self.assertEqual(states, {"READY"})

    def test_a_later_incarnation_is_named_while_it_calls_and_gives_way_when_it_is_silent(
            self) -> None:
        ahead = 3_600_000
        seqs = itertools.count(1)

        def is_named() -> bool:
            self.assertEqual(self.sync(next(seqs), ahead), OK)
            return "two programs have this node's certificate" in (self.node()["reason"] or "")

        wait_until("the head names the second program", is_named)
        self.wait_for_log("the head listens to a later daemon of this node")
        self.assertNotIn("continues as incarnation", self.site.log("w1"))
        self.wait_for_log("the later daemon of this node is silent: this one continues as "
                          f"incarnation {self.incarnation + ahead + 1}")
        pid = self.site.daemons["w1"].pid
        wait_until("the daemon is heard", lambda: self.node()["pid"] == pid)
        self.assertEqual(self.site.nodes(), {"w1": "READY"})
        type(self).incarnation += ahead + 1
        self.assertEqual(int((self.site.root / "w1/incarnation").read_text()), self.incarnation)

    def test_a_daemon_whose_numbers_were_driven_up_is_heard_after_a_restart_of_the_head(
            self) -> None:
        daemon = self.site.daemons["w1"]
        daemon.send_signal(signal.SIGSTOP)
        self.restart_head()
        self.assertEqual(self.sync(2**40 + 1), FAILED_PRECONDITION)
        self.assertEqual(self.sync(2**40), OK)
        daemon.send_signal(signal.SIGCONT)
        self.wait_for_log(f"the head heard call {2**40}")
        self.restart_head()
        self.wait_for_log("lies too far ahead of its first calls")
        wait_until("it is ready", lambda: self.site.nodes() == {"w1": "READY"})


if __name__ == "__main__":
    unittest.main()
