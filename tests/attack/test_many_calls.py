"""An honest client with many calls at once: a script that waits for hundreds of things."""

from __future__ import annotations

import json
import time
import unittest

from http2 import Connection, number_field
from site_under_attack import STATUS, AttackTest

OK, RESOURCE_EXHAUSTED = 0, 8
WAIT = "/rt.v1.JobService/Wait"
HOLD_MS = 1_000


class ManyCallsTest(AttackTest):
    def setUp(self) -> None:
        self.user = self.context(self.credentials("user"))

    def job(self) -> bytes:
        """A Wait for a job that does not end, held for a second."""
        done = self.site.rt("submit", "--detach", "-o", "json", "/bin/true")  # No node runs it.
        job = int(json.loads(done.stdout)["id"])
        return number_field(1, job) + number_field(3, HOLD_MS)

    def ask(self, path: str, message: bytes, connections: int, calls: int) -> list[int]:
        """The statuses of `calls` calls that are begun at once on each connection."""
        opened = [Connection(self.site.address(), self.user, 30) for _ in range(connections)]
        for connection in opened:
            self.assertEqual(connection.call(STATUS), OK)
        for connection in opened:
            connection.begin_many(path, message, calls)
        statuses: list[int] = []
        for connection in opened:
            while len(connection.statuses) < calls:
                connection.take(*connection.next_frame())
            statuses += connection.statuses.values()
            connection.socket.close()
        return statuses

    def check(self, statuses: list[int], count: int) -> None:
        self.assertEqual(len(statuses), count)
        self.assertLessEqual(set(statuses), {OK, RESOURCE_EXHAUSTED})
        begun = time.monotonic()
        with Connection(self.site.address(), self.user) as connection:  # Nobody is blocked.
            self.assertEqual(connection.call(STATUS), OK)
        self.assertLess(time.monotonic() - begun, 4)

    def test_a_thousand_waits_on_one_connection_are_all_answered(self) -> None:
        statuses = self.ask(WAIT, self.job(), 1, 1_000)
        self.check(statuses, 1_000)
        self.assertEqual(set(statuses), {OK})

    def test_a_thousand_short_calls_on_one_connection_are_all_answered(self) -> None:
        statuses = self.ask(STATUS, b"", 1, 1_000)
        self.check(statuses, 1_000)
        self.assertEqual(set(statuses), {OK})

    def test_calls_on_a_few_connections_are_answered_or_refused_and_nobody_is_blocked(
            self) -> None:
        for path, message in ((WAIT, self.job()), (STATUS, b"")):
            statuses = self.ask(path, message, 4, 1_000)
            self.check(statuses, 4_000)
            self.assertGreaterEqual(statuses.count(OK), 1_000)


if __name__ == "__main__":
    unittest.main()
