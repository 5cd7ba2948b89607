"""The same attacks on a worker's port for its peers and on the metrics page."""

import unittest

import listening
from attackers import Flood, Page, Victim, client_hello, endless_headers, rapid_reset
from site_under_attack import AttackTest, wait_until

CONNECTIONS = 1_500
PULL = "/rt.v1.PeerService/PullChunks"
PERMISSION_DENIED = 7  # What a person gets there: an answer.


class PeerPortTest(AttackTest):
    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        token = cls.site.root / "w1.token"
        token.touch(0o600)
        token.write_text(cls.site.token("worker"))
        pid = cls.limited("w1", "rt-worker", "--head", cls.site.address(), "--state-dir",
                          str(cls.site.root / "w1"), "--name", "w1", "--token-file", str(token))
        wait_until("the worker is ready", lambda: cls.site.nodes() == {"w1": "READY"})
        [port] = listening.ports(pid)
        cls.address = f"127.0.0.1:{port}"

    def attacked(self, attack: object) -> None:
        victim = Victim(self.address, self.admin, PULL, PERMISSION_DENIED)
        self.survive(attack, victim, "w1")  # type: ignore[arg-type]
        wait_until("the worker is ready", lambda: self.site.nodes() == {"w1": "READY"})

    def test_silent_connections(self) -> None:
        self.attacked(Flood(self.address, CONNECTIONS))

    def test_handshakes_that_never_finish(self) -> None:
        self.attacked(Flood(self.address, CONNECTIONS, client_hello()))

    def test_rapid_reset(self) -> None:
        context = self.context(self.token_credentials())
        self.attacked(rapid_reset(self.address, context, threads=2, path=PULL))

    def test_endless_headers(self) -> None:
        context = self.context(self.token_credentials())
        self.attacked(endless_headers(self.address, context, False, 16_000))


class MetricsPageTest(AttackTest):
    flags = ["--metrics", "127.0.0.1:0"]

    def attacked(self, attack_of: "type[Flood]", first: bytes = b"") -> None:
        address = (self.state / "metrics").read_text().strip()
        victim = Victim(address, self.admin, "/metrics", 200, Page)
        self.survive(attack_of(address, CONNECTIONS, first), victim)

    def test_silent_connections(self) -> None:
        self.attacked(Flood)

    def test_handshakes_that_never_finish(self) -> None:
        self.attacked(Flood, client_hello())


if __name__ == "__main__":
    unittest.main()
