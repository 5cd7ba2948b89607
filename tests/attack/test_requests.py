"""Requests that would write elsewhere, grow without end, or come by the thousand."""

from __future__ import annotations

import json
import os
import subprocess
import time
import unittest

from attackers import Victim, call_flood, endless_message
from http2 import Connection, bytes_field
from site_under_attack import BIN, AttackTest

OK, INVALID_ARGUMENT = 0, 3
PUT_MANIFEST = "/rt.v1.BlobService/PutManifest"
CREATE = "/rt.v1.ExperimentService/Create"


def manifest(*entries: dict[str, object]) -> bytes:
    return json.dumps({"format": "rt-manifest-1", "chunk_bytes": 4 << 20, "entries": entries},
                      separators=(",", ":")).encode()


class RequestTest(AttackTest):
    def status(self, method: str, field: bytes) -> int:
        with Connection(self.site.address(), self.context(self.user)) as connection:
            return connection.call(method, bytes_field(1, field))

    def setUp(self) -> None:  # One for each test: that of a flood is blocked for a while.
        self.user = self.credentials("user")

    def test_manifests_that_lead_outside_are_refused(self) -> None:
        self.assertEqual(self.status(PUT_MANIFEST, manifest({"path": "a", "dir": True})), OK)
        for path in ("../a", "/etc/a", "a/../../b", "a//b", "./a", "a/", "", "a\0b"):
            self.assertEqual(self.status(PUT_MANIFEST, manifest({"path": path, "dir": True})),
                             INVALID_ARGUMENT, path)
        for target in ("../a", "/etc/passwd", "b/../../c", ""):
            self.assertEqual(self.status(PUT_MANIFEST, manifest({"path": "l", "link": target})),
                             INVALID_ARGUMENT, target)
        below = manifest({"path": "l", "link": "."}, {"path": "l/a", "dir": True})
        self.assertEqual(self.status(PUT_MANIFEST, below), INVALID_ARGUMENT)
        digest = {"path": "a", "mode": 420, "size": 1, "chunks": ["../../admin/key.pem"]}
        self.assertEqual(self.status(PUT_MANIFEST, manifest(digest)), INVALID_ARGUMENT)

    def test_specs_that_grow_or_nest_without_end_are_refused(self) -> None:
        good = {"experiment": "e", "command": ["/bin/true"], "num_samples": 1}
        nested = json.dumps(good)[:-1] + ', "labels": ' + "[" * 100_000 + "]" * 100_000 + "}"
        large = json.dumps(good | {"command": ["/bin/echo", "x" * (2 << 20)]})
        many = json.dumps(good | {"num_samples": 10**18})
        for name, text in (("nested", nested), ("large", large), ("many", many),
                           ("cut off", nested[:50_000]), ("no text", "\udcff" * 10)):
            begun = time.monotonic()
            status = self.status(CREATE, text.encode(errors="surrogateescape"))
            self.assertEqual(status, INVALID_ARGUMENT, name)
            self.assertLess(time.monotonic() - begun, 4, name)

    def test_yaml_bombs_are_refused_quickly_and_in_little_memory(self) -> None:
        doubling = ["a0: &a0 [x,x,x,x,x,x,x,x,x,x]"]
        doubling += [f"a{i}: &a{i} [" + ",".join([f"*a{i - 1}"] * 10) + "]" for i in range(1, 12)]
        bombs = {"aliases": "\n".join(doubling), "nested": "a: " + "[" * 100_000,
                 "maps": "a: " + "{b: " * 50_000, "long": "a: " + "x" * (8 << 20)}
        for name, text in bombs.items():
            path = self.site.root / f"{name}.yaml"
            path.write_text(text)
            begun = time.monotonic()
            rt = subprocess.Popen([str(BIN / "rt"), "submit", "--detach", str(path)],
                                  env=self.site.env, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
            _, status, usage = os.wait4(rt.pid, 0)
            rt.returncode = os.waitstatus_to_exitcode(status)  # Reaped here, for its usage.
            self.assertEqual(rt.returncode, 2, name)
            self.assertLess(time.monotonic() - begun, 15, name)
            self.assertLess(usage.ru_maxrss / 1024, 256, name)

    def test_a_flood_of_calls(self) -> None:
        self.survive(call_flood(self.site.address(), self.context(self.user), threads=4),
                     Victim(self.site.address(), self.admin))

    def test_a_large_first_request_is_taken_at_once(self) -> None:
        with Connection(self.site.address(), self.context(self.user)) as connection:
            begun = time.monotonic()
            self.assertEqual(connection.call(CREATE, b"x" * (3 << 20)), INVALID_ARGUMENT)
            self.assertLess(time.monotonic() - begun, 4)

    def test_messages_without_an_end(self) -> None:
        self.survive(endless_message(self.site.address(), self.context(self.user), threads=2),
                     Victim(self.site.address(), self.admin))


if __name__ == "__main__":
    unittest.main()
