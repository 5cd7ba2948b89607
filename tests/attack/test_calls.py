"""Calls that only make work: rapid reset (CVE-2023-44487), endless headers (CVE-2023-33953)."""

import unittest

from attackers import Victim, endless_headers, rapid_reset
from site_under_attack import AttackTest


class HeadPortTest(AttackTest):
    def victim(self) -> Victim:
        return Victim(self.site.address(), self.admin)

    def test_rapid_reset_with_an_unused_token(self) -> None:
        context = self.context(self.token_credentials())
        self.survive(rapid_reset(self.site.address(), context, threads=2), self.victim())

    def test_rapid_reset_of_a_user(self) -> None:
        context = self.context(self.credentials("user"))
        self.survive(rapid_reset(self.site.address(), context, threads=2), self.victim())

    def test_endless_headers_with_an_unused_token(self) -> None:
        context = self.context(self.token_credentials())
        self.survive(endless_headers(self.site.address(), context, False, 16_000), self.victim())

    def test_endless_headers_in_small_pieces(self) -> None:
        context = self.context(self.token_credentials())
        self.survive(endless_headers(self.site.address(), context, False, 1), self.victim())

    def test_endless_headers_of_a_user(self) -> None:
        context = self.context(self.credentials("user"))
        self.survive(endless_headers(self.site.address(), context, True, 16_000), self.victim())


if __name__ == "__main__":
    unittest.main()
