"""Who may do what, on real daemons started by hand, and what strangers get: nothing."""

import base64
import json
import os
import pathlib
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import unittest

from harness import BIN, is_private, processes_of, wait_until


class Site:
    """A head by hand, its workers, and a person's RT_HOME."""

    def __init__(self) -> None:
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="rt-sec-"))
        self.env = {**os.environ, "RT_HOME": str(self.root / "home"), "NO_COLOR": "1",
                    "RT_RESULTS": str(self.root / "results")}
        self.env.pop("RT_CLUSTER", None)
        self.daemons: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, *args: str) -> subprocess.Popen[bytes]:
        log = open(self.root / f"{name}.log", "ab")
        with log:
            self.daemons[name] = subprocess.Popen(args, env=self.env, stdout=log, stderr=log,
                                                  stdin=subprocess.DEVNULL)
        return self.daemons[name]

    def head(self, name: str = "head", extra: list[str] | None = None) -> pathlib.Path:
        state = self.root / name
        self.start(name, str(BIN / "rt-head"), "--state-dir", str(state), "--listen",
                   "127.0.0.1:0", *(extra or []))
        wait_until("the head serves", (state / "address").exists)
        return state

    def worker(self, name: str, token: str = "", *more: str) -> subprocess.Popen[bytes]:
        words = [str(BIN / "rt-worker"), "--head", self.address(), "--state-dir",
                 str(self.root / name), "--name", name, *more]
        if token:
            path = self.root / f"{name}.token"
            path.touch(0o600)
            path.write_text(token)
            words += ["--token-file", str(path)]
        return self.start(name, *words)

    def address(self, name: str = "head") -> str:
        return (self.root / name / "address").read_text().strip()

    def rt(self, *args: str, code: int = 0, stdin: str = "") -> subprocess.CompletedProcess[str]:
        done = subprocess.run([str(BIN / "rt"), *args], env=self.env, cwd=self.root, text=True,
                              capture_output=True, timeout=60, input=stdin)
        if done.returncode != code:
            raise AssertionError(f"rt {args} -> {done.returncode}\n{done.stdout}\n{done.stderr}\n"
                                 + self.log("head"))
        return done

    def token(self, role: str, *more: str) -> str:
        return self.rt("token", "create", "--role", role, *more).stdout.strip()

    def log(self, name: str) -> str:
        return (self.root / f"{name}.log").read_text(errors="replace")

    def nodes(self) -> dict[str, str]:
        reply = json.loads(self.rt("node", "list", "-o", "json").stdout)
        return {node["name"]: node["state"] for node in reply["items"]}

    def end(self, name: str) -> int:
        daemon = self.daemons.pop(name)
        daemon.send_signal(signal.SIGTERM)
        return daemon.wait(10)

    def close(self) -> None:
        for daemon in self.daemons.values():
            daemon.kill()
            daemon.wait()
        for pid in processes_of(self.root):  # Trials that a failed test left.
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        shutil.rmtree(self.root, ignore_errors=True)


def decode(token: str) -> dict[str, str]:
    """The JSON inside a join token."""
    return json.loads(base64.b64decode(token.split(".", 1)[1] + "=="))


class SecurityTest(unittest.TestCase):
    site: Site

    @classmethod
    def setUpClass(cls) -> None:
        cls.site = Site()
        state = cls.site.head()
        cls.site.rt("context", "add", "lab", "--from", str(state / "admin"))
        cls.site.worker("w1", cls.site.token("worker"), "--resources", "cpu=2")
        wait_until("the worker is ready", lambda: cls.site.nodes() == {"w1": "READY"})

    @classmethod
    def tearDownClass(cls) -> None:
        cls.site.close()

    def submit(self, seconds: int = 600) -> str:
        (self.site.root / "e.yaml").write_text(
            f"experiment: e\ncommand: [sleep, '{seconds}']\nresources: {{cpu: 0}}\n")
        done = self.site.rt("submit", "--detach", "e.yaml", "-o", "quiet", "-c", "lab")
        return done.stdout.strip()

    def person(self, name: str, role: str) -> None:
        self.site.rt("context", "add", name, "--head", self.site.address(), "--token-file", "-",
                     stdin=self.site.token(role))

    def test_a_name_that_cannot_be_does_not_use_up_the_token(self) -> None:
        token = self.site.token("user")
        self.site.rt("context", "add", "a/b", "--head", self.site.address(), "--token-file", "-",
                     stdin=token, code=2)
        self.site.rt("context", "add", "bob", "--head", self.site.address(), "--token-file", "-",
                     stdin=token)
        self.site.rt("-c", "bob", "status")

    def test_roles(self) -> None:
        number = self.submit()
        self.person("eve", "viewer")
        self.person("ann", "user")
        self.site.rt("-c", "eve", "status")
        for words in (["exp", "stop", number], ["trial", "stop", f"{number}/0"],
                      ["submit", "e.yaml"], ["token", "create"], ["token", "list"]):
            done = self.site.rt("-c", "eve", *words, "-o", "json", code=5)
            self.assertEqual(json.loads(done.stderr)["error"]["code"], "PERMISSION_DENIED")
        self.site.rt("-c", "ann", "token", "create", "--role", "admin", code=5)
        self.site.rt("-c", "ann", "exp", "stop", number)
        wait_until("it is stopped", lambda: json.loads(self.site.rt(
            "exp", "show", number, "-o", "json").stdout)["state"] == "STOPPED")

    def test_a_token_works_once_and_not_after_its_revocation(self) -> None:
        token = self.site.token("viewer")
        add = ["context", "add", "--head", self.site.address(), "--token-file", "-"]
        self.site.rt(*add, "once", stdin=token)
        self.site.rt(*add, "twice", stdin=token, code=5)
        reply = json.loads(self.site.rt("token", "create", "--role", "worker", "-o", "json").stdout)
        listed = json.loads(self.site.rt("token", "list", "-o", "json").stdout)["items"]
        self.assertIn(reply["id"], [item["id"] for item in listed])
        self.assertNotIn(reply["text"], json.dumps(listed))
        self.site.rt("token", "revoke", reply["id"])
        late = self.site.worker("revoked", reply["text"])
        self.assertEqual(late.wait(30), 1)
        self.assertIn("used, revoked, or has expired", self.site.log("revoked"))
        self.assertNotIn("revoked", self.site.nodes())

    def test_a_token_binds_the_name_of_a_person(self) -> None:
        made = json.loads(self.site.rt("token", "create", "--role", "user", "--name", "alice",
                                       "-o", "json").stdout)
        self.assertEqual((made["role"], made["name"]), ("user", "alice"))
        listed = json.loads(self.site.rt("token", "list", "-o", "json").stdout)["items"]
        self.assertIn(("user", "alice"), [(item["role"], item["name"]) for item in listed])
        self.assertRegex(self.site.rt("token", "list").stdout, rf"{made['id']} +user +alice ")
        self.site.rt("context", "add", "laptop", "--head", self.site.address(), "--token-file",
                     "-", stdin=made["text"])
        [certificate] = (self.site.root / "home/clusters/laptop").rglob("cert.pem")
        der = ssl.PEM_cert_to_DER_cert(certificate.read_text())
        self.assertRegex(der, rb"spiffe://[^/]+/user/alice\b")
        number = json.loads(self.site.rt("-c", "laptop", "submit", "--detach", "-o", "json",
                                         "/bin/true").stdout)["id"]
        job = json.loads(self.site.rt("job", "show", str(number), "-o", "json").stdout)
        self.assertEqual(job["owner"], "alice")
        self.site.rt("token", "create", "--role", "user", "--name", "a/b", code=2)
        unnamed = json.loads(self.site.rt("token", "create", "--role", "viewer", "-o",
                                          "json").stdout)
        self.assertEqual(unnamed["name"], f"user-{unnamed['id']}")

    def test_a_token_binds_the_name_of_a_node(self) -> None:
        token = self.site.token("worker", "--name", "bound")
        stranger = self.site.worker("stranger", token)  # It is started with --name stranger.
        self.assertEqual(stranger.wait(30), 1)
        self.assertIn("for the node 'bound': nobody joins as 'stranger'", self.site.log("stranger"))
        self.site.rt("context", "add", "nobody", "--head", self.site.address(), "--token-file",
                     "-", stdin=token, code=5)  # It is no person's.
        self.site.worker("bound", token)
        wait_until("it is ready", lambda: self.site.nodes().get("bound") == "READY")
        self.assertNotIn("stranger", self.site.nodes())
        second = self.site.worker("bound-2", self.site.token("worker", "--name", "bound"),
                                  "--name", "bound")
        self.assertEqual(second.wait(30), 1)
        self.assertIn("rt node forget bound", self.site.log("bound-2"))
        self.site.end("bound")

    def test_an_expired_token(self) -> None:
        token = self.site.token("worker", "--ttl", "1s")
        certificate = self.credentials("expired", decode(token))
        context = ssl.create_default_context(cafile=str(certificate / "ca.pem"))
        context.check_hostname = False

        def refused() -> bool:  # The head's own clock decides.
            context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
            return self.answer(context, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") == b""

        wait_until("the certificate has expired", refused, 30)
        late = self.site.worker("late", token)
        self.assertEqual(late.wait(30), 1)
        self.assertIn("expired", self.site.log("late"))
        self.assertNotIn("late", self.site.nodes())
        admin = json.loads((self.site.root / "head/admin/context.json").read_text())
        (certificate / "context.json").write_text(json.dumps(admin))
        self.site.rt("context", "add", "stale", "--from", str(certificate))
        self.assertIn("expired", self.site.rt("-c", "stale", "status", code=5).stderr)

    def credentials(self, name: str, token: dict[str, str]) -> pathlib.Path:
        """The token's certificate as a directory of credentials."""
        folder = self.site.root / f"{name}.credentials"
        folder.mkdir()
        for part in ("ca", "cert", "key"):
            (folder / f"{part}.pem").write_text(token[part])
        return folder

    def answer(self, context: "ssl.SSLContext | None", request: bytes) -> bytes:
        """What the head answers to `request`; empty when it refuses."""
        host, port = self.site.address().rsplit(":", 1)
        try:
            with socket.create_connection((host, int(port)), timeout=10) as plain:
                if context is None:
                    plain.sendall(request)
                    return plain.recv(65536)
                context.set_alpn_protocols(["h2"])
                with context.wrap_socket(plain, server_hostname=host) as secure:
                    secure.sendall(request)
                    return secure.recv(65536)
        except (ssl.SSLError, ConnectionError):
            return b""

    def test_strangers_get_nothing(self) -> None:
        hello = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
        admin = self.site.root / "head/admin"
        context = ssl.create_default_context(cafile=str(admin / "ca.pem"))
        context.check_hostname = False
        self.assertEqual(self.answer(context, hello), b"")  # No certificate.
        other = self.site.head("other") / "admin"
        context.load_cert_chain(other / "cert.pem", other / "key.pem")
        self.assertEqual(self.answer(context, hello), b"")  # Of another CA.
        context.load_cert_chain(admin / "cert.pem", admin / "key.pem")
        self.assertNotEqual(self.answer(context, hello), b"")  # The right one, to compare.
        for request in (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", hello):
            self.assertNotIn(b"HTTP", self.answer(None, request))
        self.site.end("other")

    def test_contexts_of_another_cluster(self) -> None:
        state = self.site.head("elsewhere")
        mixed = self.site.root / "mixed"
        shutil.copytree(state / "admin", mixed)
        ours = json.loads((self.site.root / "head/admin/context.json").read_text())
        (mixed / "context.json").write_text(json.dumps(ours))
        self.site.rt("context", "add", "their-ca", "--from", str(mixed))
        self.assertIn("is not the head of", self.site.rt("-c", "their-ca", "status", code=5).stderr)
        shutil.copy(self.site.root / "head/admin/ca.pem", mixed / "ca.pem")
        self.site.rt("context", "add", "their-key", "--from", str(mixed))
        self.assertIn("CA of another cluster",
                      self.site.rt("-c", "their-key", "status", code=5).stderr)
        self.site.end("elsewhere")

    def test_secrets_are_in_no_argument_log_or_output_and_files_are_private(self) -> None:
        number = self.submit()
        wait_until("it runs", lambda: json.loads(self.site.rt(
            "trial", "show", f"{number}/0", "-o", "json").stdout)["state"] == "RUNNING")
        secrets = [path.read_text() for path in self.site.root.rglob("key.pem")]
        self.assertGreaterEqual(len(secrets), 2)
        lines = [line for text in secrets for line in text.splitlines() if len(line) > 40]
        secrets = [line for line in lines if "-----" not in line]
        seen = self.site.log("head") + self.site.log("w1")
        for words in (["status"], ["node", "list"], ["trial", "show", f"{number}/0"]):
            seen += self.site.rt(*words, "-o", "json", "-v").stdout
        for entry in pathlib.Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    seen += (entry / "cmdline").read_bytes().decode(errors="replace")
                except OSError:
                    continue
        for secret in secrets:
            self.assertNotIn(secret, seen)
        self.assertNotIn("rtj1.", seen)
        for top in ("head", "w1", "home"):
            for folder, _, files in os.walk(self.site.root / top):
                if "/results" in folder:  # For the eyes of others.
                    continue
                self.assertTrue(is_private(folder), folder)
                for name in files:
                    path = os.path.join(folder, name)
                    if "/attempts/" not in path and "/cache/" not in path:  # The user's own.
                        self.assertTrue(is_private(path), path)
        self.site.rt("exp", "stop", number)


class DaemonTest(unittest.TestCase):
    def setUp(self) -> None:
        self.site = Site()

    def tearDown(self) -> None:
        self.site.close()

    def test_both_end_at_sigterm_and_leave_trials_alone(self) -> None:
        state = self.site.head()
        self.assertEqual(int((state / "pid").read_text().split()[0]), self.site.daemons["head"].pid)
        self.site.rt("context", "add", "lab", "--from", str(state / "admin"))
        self.site.worker("w1", self.site.token("worker"), "--resources",
                         "cpu=2,gpu=1,memory=8GiB,blue=3", "--labels", "zone=a,tier=b")
        wait_until("the worker is ready", lambda: self.site.nodes() == {"w1": "READY"})
        node = json.loads(self.site.rt("node", "show", "w1", "-o", "json").stdout)
        self.assertEqual(node["labels"], {"zone": "a", "tier": "b"})
        self.assertEqual(node["resources_total"], {"cpu": 2, "gpu": 1, "custom": {"blue": 3},
                                                   "memory_bytes": 8 << 30})
        go = self.site.root / "go"
        code = f"import os, time\nwhile not os.path.exists({str(go)!r}): time.sleep(0.02)\n"
        (self.site.root / "e.yaml").write_text(
            f"experiment: e\ncommand: [{sys.executable}, -c, {json.dumps(code)}]\n")
        self.site.rt("submit", "--detach", "e.yaml")

        def trial() -> dict[str, object]:
            return json.loads(self.site.rt("trial", "show", "1/0", "-o", "json").stdout)

        wait_until("it runs", lambda: trial()["state"] == "RUNNING")
        pid = trial()["attempts"][0]["members"][0]["pid"]  # type: ignore[index]
        self.assertEqual(self.site.end("w1"), 0)
        self.assertEqual(self.site.end("head"), 0)
        os.kill(pid, 0)
        self.assertFalse((state / "pid").exists())
        address = self.site.address()
        self.site.start("head", str(BIN / "rt-head"), "--state-dir", str(state), "--listen",
                        "127.0.0.1:0")
        wait_until("it is back", lambda: (state / "pid").exists())
        self.assertEqual(self.site.address(), address)
        self.site.worker("w1")  # No token the next time.
        wait_until("the worker is back", lambda: self.site.nodes() == {"w1": "READY"})
        self.assertEqual((trial()["state"], trial()["attempt"]), ("RUNNING", 1))
        go.touch()
        wait_until("it completes", lambda: trial()["state"] == "COMPLETED")

    def test_a_second_head_on_the_same_directory_is_refused(self) -> None:
        state = self.site.head()
        second = self.site.start("second", str(BIN / "rt-head"), "--state-dir", str(state))
        self.assertEqual(second.wait(20), 1)
        self.assertIn("another head", self.site.log("second"))
        self.site.rt("context", "add", "lab", "--from", str(state / "admin"))
        self.site.rt("status")

    def test_flags_of_the_daemons(self) -> None:
        for program in ("rt-head", "rt-worker"):
            for words, code in ((["--help"], 0), ([], 2), (["--stat-dir", "x"], 2),
                                (["--state-dir"], 2)):
                done = subprocess.run([str(BIN / program), *words], capture_output=True, text=True,
                                      timeout=20)
                self.assertEqual(done.returncode, code, (program, words, done.stderr))
        done = subprocess.run([str(BIN / "rt-worker"), "--head", "127.0.0.1:9", "--state-dir",
                               str(self.site.root / "w")], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("--token-file", done.stderr)


if __name__ == "__main__":
    unittest.main()
