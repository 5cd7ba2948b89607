"""A head under attack: started by hand with few descriptors, with certificates of every role."""

from __future__ import annotations

import os
import pathlib
import resource
import ssl
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))

from attackers import STATUS, Attack, Memory, Share, Victim  # noqa: E402
from harness import BIN, ROOT, wait_until  # noqa: E402
from http2 import tls_context  # noqa: E402
from test_security import Site, decode  # noqa: E402

FILES = 1024  # What most machines give a process unless asked.
# RT_ATTACK=full replays each attack for as long as it took to kill a port in the field.
IS_FULL = os.environ.get("RT_ATTACK") == "full"
ATTACK_S = 15.0 if IS_FULL else 3.0
QUIET_S = 5.0 if IS_FULL else 1.0
# Of the usual answer, on a machine that does nothing else. Where other tests use three quarters of
# the processors, an answer may take four times as long.
ANSWER_S = 1.0
# Of the slowest single answer. A test of seconds on a machine that does other work as well is told
# apart from a port that is slow by the usual answer.
SLOWEST_S = ANSWER_S if IS_FULL else 8.0
MEMORY_MB = 256.0
MEMORY_LEFT = 1.5  # Of what it was before the attack.


class AttackTest(unittest.TestCase):
    """One head for all tests of a class, and what must hold during and after each attack."""

    site: Site
    flags: list[str] = []

    @classmethod
    def setUpClass(cls) -> None:
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65_536), hard))  # For the attackers.
        cls.site = Site()
        cls.addClassCleanup(cls.site.close)
        cls.state = cls.site.root / "head"
        cls.limited("head", "rt-head", "--state-dir", str(cls.state), "--listen", "127.0.0.1:0",
                    *cls.flags)
        wait_until("the head serves", (cls.state / "address").exists)
        cls.site.rt("context", "add", "lab", "--from", str(cls.state / "admin"))
        cls.ca = cls.state / "admin/ca.pem"
        cls.admin = tls_context(cls.state / "admin", cls.ca)

    @classmethod
    def limited(cls, name: str, program: str, *words: str) -> int:
        """Starts a daemon that may open 1024 files and cannot raise that; its pid."""
        cls.site.start(name, "/bin/sh", "-c", f'ulimit -n {FILES} && exec "$@"', "sh",
                       str(BIN / program), *words)
        return cls.site.daemons[name].pid

    @classmethod
    def token_credentials(cls, text: str = "") -> pathlib.Path:
        """The certificate of a join token; of a new one that nobody used, where none is given."""
        token = decode(text or cls.site.token("worker"))
        folder = cls.site.root / f"token-{time.monotonic_ns()}"
        folder.mkdir()
        for part in ("ca", "cert", "key"):
            (folder / f"{part}.pem").write_text(token[part])
        return folder

    @classmethod
    def credentials(cls, role: str) -> pathlib.Path:
        """The directory of a certificate for which a join token of `role` was exchanged."""
        name = f"{role}-{time.monotonic_ns()}"
        cls.site.rt("context", "add", name, "--head", cls.site.address(), "--token-file", "-",
                    stdin=cls.site.token(role))
        return next(path.parent for path in (cls.site.root / "home").rglob("cert.pem")
                    if name in str(path))

    def context(self, credentials: pathlib.Path) -> ssl.SSLContext:
        return tls_context(credentials, self.ca)

    def time_of_new_connection(self, victim: Victim) -> float:
        begun = time.monotonic()
        with victim.client(victim.address, victim.context) as connection:
            self.assertEqual(connection.call(victim.path), victim.status)
        return time.monotonic() - begun

    def survive(self, attack: Attack, victim: Victim, daemon: str = "head") -> None:
        """The bounds that hold for everybody else during `attack`, and for the daemon after it."""
        memory = Memory(self.site.daemons[daemon].pid)
        for _ in range(20):  # What the first calls allocate is no part of the attack.
            self.time_of_new_connection(victim)
        before = memory.now()
        share = Share(self.site.daemons[daemon].pid)
        with attack, memory, victim:
            time.sleep(ATTACK_S)
            turns = attack.turns
        ended = time.monotonic()
        left = share.now()
        told = (f"{self.id()}: answers {victim.usual():.2f} s, the slowest of {victim.count()} "
                f"{victim.slowest():.2f} s, with {left:.0%} of the processors, "
                f"memory {before:.0f} -> {memory.most:.0f} MB")
        self.assertEqual(victim.errors, [], told)
        self.assertLess(victim.usual() * left, ANSWER_S, told)
        self.assertLess(victim.slowest(), SLOWEST_S, told)
        self.assertLess(memory.most, MEMORY_MB, told)
        self.assertGreater(turns, 0)
        wait_until("the memory is given back", lambda: memory.now() <= MEMORY_LEFT * before,
                   deadline_s=20)
        time.sleep(max(0.0, QUIET_S - (time.monotonic() - ended)))
        again = self.time_of_new_connection(victim)
        self.assertLess(again, SLOWEST_S, told)
        print(f"{told} -> {memory.now():.0f} MB, then a new connection in {again:.2f} s",
              flush=True)


__all__ = ["BIN", "ROOT", "STATUS", "AttackTest", "Site", "wait_until"]
