"""Machines fetch the programs from the head's port before they join (docs/adr/0029). The machine is
theirs alone: the head cuts off whoever does not answer its pings in time."""

from __future__ import annotations

import base64
import json
import pathlib
import re
import subprocess
import unittest
from typing import Optional

from ec2_cluster import Ec2Case
from harness import wait_until

PIECE = 11 + (1 << 20)  # Of the answer with the programs: docs/adr/0029.


class BootTest(Ec2Case):
    def token(self, *flags: str) -> dict[str, str]:
        made = self.rt("token", "create", *flags)
        self.assertEqual(made.returncode, 0, made.stderr)
        return dict(json.loads(base64.b64decode(made.stdout.strip().removeprefix("rtj1."))))

    def fetch(self, token: Optional[dict[str, str]], out: str, *more: str) -> subprocess.Popen[str]:
        """As the user data does; without a token without a certificate."""
        address = (self.root / "head/address").read_text().strip()
        empty = self.root / "empty"
        if not empty.exists():
            empty.write_bytes(bytes(5))
        (self.root / out).unlink(missing_ok=True)
        argv = ["curl", "-q", "-sS", "--http2", "--noproxy", "*", "--connect-to", f"::{address}",
                "-H", "content-type: application/grpc", "-H", "te: trailers", "--data-binary",
                f"@{empty}", "-D", str(self.root / f"{out}.headers"), "-o",
                str(self.root / out), "--max-time", "120", *more]
        cluster = "x" if token is None else token["cluster"]
        if token is None:
            argv.append("--insecure")
        for name in ("ca", "cert", "key") if token else ():
            file = self.root / f"{out}.{name}"
            file.write_text(token[name] if token else "")
            argv += [f"--{name}" if name != "ca" else "--cacert", str(file)]
        argv.append(f"https://head.{cluster}.rt/rt.v1.BootService/Programs")
        return subprocess.Popen(argv, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def outcome(self, fetched: subprocess.Popen[str], out: str) -> str:
        """The gRPC status, or the error of curl."""
        with fetched:
            _, error = fetched.communicate(timeout=120)
        if fetched.returncode != 0:
            return error
        headers = (self.root / f"{out}.headers").read_text()
        found = re.search(r"^grpc-status: *(\d+)", headers, re.M)
        return found[1] if found else "0"  # curl loses the trailers of an answer that it slows.

    def wait_refused(self, token: Optional[dict[str, str]], what: str) -> None:
        wait_until(f"the token is refused: {what}",
                   lambda: self.outcome(self.fetch(token, what), what) != "0", 20)
        file = self.root / what
        self.assertLess(file.stat().st_size if file.exists() else 0, 100, what)

    def test_programs_are_served_to_whoever_may_join_as_a_worker(self) -> None:
        self.start_head([])
        worker = self.token("--role", "worker")
        for out in ("one", "two"):  # A token is not used up by it.
            self.assertEqual(self.outcome(self.fetch(worker, out), out), "0")
            answer = (self.root / out).read_bytes()
            pieces = [answer[at + 11:at + PIECE] for at in range(0, len(answer), PIECE)]
            (self.root / f"{out}.tar.gz").write_bytes(b"".join(pieces))
            names = subprocess.run(["tar", "-tzf", str(self.root / f"{out}.tar.gz")], check=True,
                                   capture_output=True, text=True).stdout.split()
            self.assertLessEqual({"bin/rt", "bin/rt-worker", "bin/rt-cli"}, set(names))
        expired = self.token("--role", "worker", "--ttl", "1s")
        self.assertEqual(self.rt("token", "revoke", worker["id"]).returncode, 0)
        for what, token in {"person": self.token("--role", "user"), "revoked": worker,
                            "expired": expired, "none": None}.items():
            self.wait_refused(token, what)

    def test_many_who_fetch_at_once_cost_no_memory(self) -> None:
        self.start_head([])
        tokens = [self.token("--role", "worker") for _ in range(25)]
        self.assertEqual(self.outcome(self.fetch(tokens[0], "first"), "first"), "0")
        size = (self.root / "first").stat().st_size
        proc = pathlib.Path(f"/proc/{self.head.pid}")
        (proc / "clear_refs").write_text("5")  # The peak is that from now on.

        def peak() -> int:
            line = re.search(r"VmHWM:\s+(\d+)", (proc / "status").read_text())
            return int(line[1]) * 1024 if line else 0

        before = peak()
        # Slow enough that they meet, and fast enough for the pings of the head.
        fetches = {f"f{i}": self.fetch(tokens[i // 2], f"f{i}", "--limit-rate", "20M")
                   for i in range(50)}
        outcomes = [self.outcome(fetched, out) for out, fetched in fetches.items()]
        self.assertEqual(set(outcomes), {"0", "8"}, outcomes)  # Served, or told to ask again.
        self.assertGreaterEqual(outcomes.count("0"), 16)
        for out, outcome in zip(fetches, outcomes):
            if outcome == "0":
                self.assertEqual((self.root / out).read_bytes(),
                                 (self.root / "first").read_bytes())
        self.assertLess(peak() - before, size + (96 << 20))  # 16 copies: 16 * size.


if __name__ == "__main__":
    unittest.main()
