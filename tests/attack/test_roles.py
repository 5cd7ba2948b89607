"""Every RPC with every role, over the wire: only what docs/security.md allows is answered."""

from __future__ import annotations

import pathlib
import re
import threading
import unittest

import listening
from http2 import Connection, bytes_field, number_field
from site_under_attack import ROOT, STATUS, AttackTest, wait_until

INVALID_ARGUMENT, NOT_FOUND, PERMISSION_DENIED, UNIMPLEMENTED, UNAUTHENTICATED = 3, 5, 7, 12, 16
SYNC = "/rt.v1.WorkerService/Sync"
JOIN = "/rt.v1.ClusterService/Join"
ROLES = ["admin", "user", "viewer", "worker", "join"]
# Their answer is long in coming, or it ends what the others need.
LAST = ["/rt.v1.ClusterService/Shutdown"]
AT_PEERS = ("PeerService", "TaskService")  # Workers serve them.


def methods() -> list[str]:
    """"/rt.v1.Service/Method" of every RPC that a .proto file declares."""
    found = []
    for path in sorted((ROOT / "proto/rt/v1").glob("*.proto")):
        service = ""
        for line in path.read_text().splitlines():
            if named := re.match(r"service (\w+)", line):
                service = named.group(1)
            elif named := re.match(r"\s+rpc (\w+)\(", line):
                found.append(f"/rt.v1.{service}/{named.group(1)}")
    return found


def documented() -> dict[str, set[str]]:
    """Method -> roles that may call it, from the table of docs/security.md."""
    allowed: dict[str, set[str]] = {}
    for line in (ROOT / "docs/security.md").read_text().splitlines():
        row = re.match(r"\| (\w+): ([^|]+)\|((?: ?x? ?\|){5})", line)
        if row is None:
            continue
        roles = {role for role, mark in zip(ROLES, row.group(3).split("|")) if mark.strip() == "x"}
        names = re.sub(r"\(.*\)", "", row.group(2)).strip()
        for name in names.split(","):
            allowed[f"/rt.v1.{row.group(1)}Service/{name.strip()}"] = roles
    return allowed


class RolesTest(AttackTest):
    def worker(self, name: str) -> tuple[int, pathlib.Path]:
        """Starts a worker; its peer port, and its credentials."""
        token = self.site.root / f"{name}.token"
        token.touch(0o600)
        token.write_text(self.site.token("worker"))
        pid = self.limited(name, "rt-worker", "--head", self.site.address(), "--state-dir",
                           str(self.site.root / name), "--name", name, "--token-file", str(token))
        wait_until("the worker is ready", lambda: self.site.nodes().get(name) == "READY")
        [port] = listening.ports(pid)
        return port, next(path.parent for path in (self.site.root / name).rglob("cert.pem"))

    def test_a_node_that_left_the_cluster_may_call_nothing(self) -> None:
        port, _ = self.worker("stays")
        _, credentials = self.worker("leaves")
        context = self.context(credentials)
        self.site.daemons["leaves"].kill()
        self.site.daemons["leaves"].wait()
        wait_until("it is lost", lambda: self.site.nodes()["leaves"] == "LOST")
        calls = [method for method in methods()
                 if "worker" in documented().get(method, documented().get(
                     method.rsplit("/", 1)[0] + "/all", set()))]
        self.assertGreater(len(calls), 15)

        def statuses() -> dict[str, int]:
            found = {}
            for method in calls:
                address = (f"127.0.0.1:{port}" if any(one in method for one in AT_PEERS)
                           else self.site.address())
                first_call = number_field(1, 1) + number_field(2, 1)  # Of an earlier daemon.
                with Connection(address, context) as connection:
                    found[method] = connection.call(method, first_call if method == SYNC else b"")
            return found

        refusals = {PERMISSION_DENIED, UNAUTHENTICATED}
        lost = statuses()  # It may come back: nothing is refused yet.
        self.assertFalse(refusals & set(lost.values()), lost)
        self.site.rt("node", "forget", "leaves")
        gone = statuses()
        self.assertEqual(gone.pop(SYNC), NOT_FOUND)
        peers = {method: gone.pop(method) for method in calls
                 if any(one in method for one in AT_PEERS)}
        self.assertEqual(set(gone.values()), {PERMISSION_DENIED}, gone)
        self.assertEqual(len(peers), 5)
        # A worker believes what the head said of a peer for a few seconds.
        wait_until("the other worker has heard of it",
                   lambda: {statuses()[method] for method in peers} == {PERMISSION_DENIED})
        self.site.end("stays")

    def test_every_rpc_with_every_role(self) -> None:
        every, allowed = methods(), documented()
        self.assertGreater(len(every), 40)
        port, worker = self.worker("w1")
        credentials = {"admin": self.state / "admin", "user": self.credentials("user"),
                       "viewer": self.credentials("viewer"), "worker": worker,
                       "join": self.token_credentials()}
        wrong, calls = [], 0
        for role in ROLES:
            context = self.context(credentials[role])
            for method in sorted(every, key=lambda name: name in LAST):
                service = method.split("/")[1].removeprefix("rt.v1.")
                may = role in allowed.get(method, allowed.get(f"/rt.v1.{service}/all", set()))
                if may and method in LAST:
                    continue
                address = f"127.0.0.1:{port}" if service in AT_PEERS else self.site.address()
                with Connection(address, context) as connection:
                    status = connection.call(method)
                calls += 1
                refused = status in (PERMISSION_DENIED, UNAUTHENTICATED)
                if refused == may or status == UNIMPLEMENTED:
                    wrong.append(f"{role} {method}: status {status}, allowed: {may}")
        self.assertEqual(wrong, [])
        self.assertEqual(calls, len(ROLES) * len(every) - len(LAST))
        with Connection(self.site.address(), self.admin) as connection:
            self.assertEqual(connection.call("/rt.v1.ClusterService/NoSuchCall"), UNIMPLEMENTED)
            self.assertEqual(connection.call(STATUS), 0)


class TokenTest(AttackTest):
    def test_a_token_gives_no_other_name_than_its_own(self) -> None:
        for more, own in ((["--name", "alice"], b"alice"), ([], b"")):
            token = self.site.token("user", *more)
            with Connection(self.site.address(),
                            self.context(self.token_credentials(token))) as connection:
                for name in (b"admin", b"head", b"alicia"):
                    self.assertEqual(connection.call(JOIN, bytes_field(2, name)),
                                     PERMISSION_DENIED, name)
                # Its own name is taken; what is refused now is the empty request to sign.
                self.assertEqual(connection.call(JOIN, bytes_field(2, own)), INVALID_ARGUMENT)
            self.site.rt("context", "add", f"own-{len(more)}", "--head", self.site.address(),
                         "--token-file", "-", stdin=token)

    def test_a_token_that_is_used_16_times_at_once_works_once(self) -> None:
        for role in ("viewer", "user"):
            token = self.site.token(role)
            succeeded: list[str] = []
            refused: list[str] = []

            def use(number: int, text: str = token, who: str = role,
                    ok: list[str] = succeeded, no: list[str] = refused) -> None:
                name = f"{who}-{number}"
                try:
                    self.site.rt("context", "add", name, "--head", self.site.address(),
                                 "--token-file", "-", stdin=text)
                    ok.append(name)
                except AssertionError as error:
                    no.append(str(error))

            threads = [threading.Thread(target=use, args=(number,)) for number in range(16)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual((len(succeeded), len(refused)), (1, 15), refused)
            for reason in refused:
                self.assertRegex(reason, "used(, revoked,)? or (has )?expired")


if __name__ == "__main__":
    unittest.main()
