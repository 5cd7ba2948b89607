"""Connections that never say who they are (CVE-2023-4785): silent ones, unfinished handshakes."""

import socket
import unittest

from attackers import Flood, Victim, client_hello
from site_under_attack import AttackTest

CONNECTIONS = 1_500


def drip(one: socket.socket) -> None:
    """One more byte of a ClientHello that never ends."""
    one.send(b"\x00")


class HeadPortTest(AttackTest):
    def victim(self) -> Victim:
        return Victim(self.site.address(), self.admin)

    def test_silent_connections(self) -> None:
        self.survive(Flood(self.site.address(), CONNECTIONS), self.victim())

    def test_handshakes_that_never_finish(self) -> None:
        self.survive(Flood(self.site.address(), CONNECTIONS, client_hello()), self.victim())

    def test_hellos_that_arrive_byte_by_byte(self) -> None:
        self.survive(Flood(self.site.address(), CONNECTIONS, b"\x16\x03\x01\x3f\xff", drip=drip),
                     self.victim())


if __name__ == "__main__":
    unittest.main()
