"""A head that does not answer: who was asked, why, what to do, and all of it within seconds."""

import datetime
import json
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time
import unittest

from harness import BIN, ROOT, driver_python, wait_until

# Three seconds until the first contact; the rest is what a busy machine may take to start things.
ANSWER_MAX_S = 9
SCRIPT = """
from rt import tune
tune.Tuner(lambda config: {"loss": 1}, param_space={"x": 1}).fit()
"""


class AwayTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.root = pathlib.Path(tempfile.mkdtemp(prefix="rt-away-"))
        cls.addClassCleanup(shutil.rmtree, cls.root, True)
        cls.env = {**os.environ, "RT_HOME": str(cls.root / "home"), "NO_COLOR": "1",
                   "RT_RESULTS": str(cls.root / "results"), "RT_BIN": str(BIN),
                   "PYTHONPATH": str(ROOT / "python")}
        cls.env.pop("RT_CLUSTER", None)
        head = subprocess.Popen([str(BIN / "rt-head"), "--state-dir", str(cls.root / "head"),
                                 "--listen", "127.0.0.1:0"], stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        cls.addClassCleanup(head.wait)
        cls.addClassCleanup(head.kill)
        wait_until("the head serves", (cls.root / "head/address").exists)
        # A port that refuses, and one that takes connections and says nothing. The first stays
        # bound: otherwise another test may get it.
        closed = socket.socket()
        cls.addClassCleanup(closed.close)
        closed.bind(("127.0.0.1", 0))
        cls.refuses = f"127.0.0.1:{closed.getsockname()[1]}"
        cls.listener = socket.create_server(("127.0.0.1", 0))
        cls.addClassCleanup(cls.listener.close)
        cls.silent = f"127.0.0.1:{cls.listener.getsockname()[1]}"
        cls.know("alive", "")
        cls.know("refuses", cls.refuses)
        for number in range(1, 5):
            cls.know(f"silent{number}", cls.silent)

    @classmethod
    def know(cls, name: str, address: str) -> None:
        subprocess.run([str(BIN / "rt"), "context", "add", name, "--from",
                        str(cls.root / "head/admin")], env=cls.env, check=True,
                       capture_output=True)
        path = cls.root / "home/clusters" / name / "context/context.json"
        if address:
            path.write_text(json.dumps({**json.loads(path.read_text()), "address": address}))

    def timed(self, code: int, argv: list[str],
              most: float = ANSWER_MAX_S) -> subprocess.CompletedProcess[str]:
        began = time.monotonic()
        done = subprocess.run(argv, env=self.env, cwd=self.root, text=True, capture_output=True,
                              stdin=subprocess.DEVNULL, timeout=60)
        self.assertLess(time.monotonic() - began, most, done.stderr)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def rt(self, code: int, *words: str) -> subprocess.CompletedProcess[str]:
        return self.timed(code, [str(BIN / "rt"), *words])

    def test_a_command_says_within_seconds_who_was_asked_and_what_to_do(self) -> None:
        (self.root / "run.sh").write_text("#!/bin/sh\n")
        (self.root / "run.sh").chmod(0o755)
        for name, address, why in (("refuses", self.refuses, "the connection was refused"),
                                   ("silent1", self.silent, "it does not answer")):
            for words in (["status"], ["exp", "list"], ["submit", "run.sh"]):
                with self.subTest(name=name, words=words):
                    error = self.rt(4, "-c", name, *words).stderr
                    self.assertIn(f"the head of '{name}' at {address} cannot be reached: {why}",
                                  error)
                    self.assertIn(f"rt doctor -c {name}", error)
                    self.assertNotIn("failed to connect", error)

    def test_python_is_as_quick(self) -> None:
        script = self.root / "search.py"
        script.write_text(SCRIPT)
        self.env["RT_CLUSTER"] = "refuses"
        self.addCleanup(self.env.pop, "RT_CLUSTER")
        done = self.timed(1, [driver_python(), str(script)], ANSWER_MAX_S + 3)
        self.assertIn(f"the head of 'refuses' at {self.refuses} cannot be reached", done.stderr)

    def test_a_head_that_dies_under_a_script_is_named_when_files_are_sent(self) -> None:
        state = self.root / "mortal"
        head = subprocess.Popen([str(BIN / "rt-head"), "--state-dir", str(state), "--listen",
                                 "127.0.0.1:0"], stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(head.wait)
        self.addCleanup(head.kill)
        wait_until("the head serves", (state / "address").exists)
        address = (state / "address").read_text().strip()
        subprocess.run([str(BIN / "rt"), "context", "add", "mortal", "--from",
                        str(state / "admin")], env=self.env, check=True, capture_output=True)
        bridge = subprocess.Popen([str(BIN / "rt"), "-c", "mortal", "bridge"], env=self.env,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(bridge.wait)
        self.addCleanup(bridge.stdout.close)
        self.addCleanup(bridge.stdin.close)

        def ask(**request: object) -> dict:
            bridge.stdin.write(json.dumps(request) + "\n")
            bridge.stdin.flush()
            return json.loads(bridge.stdout.readline())

        self.assertTrue(ask(id=1, op="cluster_status")["ok"])
        head.kill()
        head.wait()
        # As long as any call to a head that answered before: it may be on its way back.
        began = time.monotonic()
        answer = ask(id=2, op="blob_push_dir", path=str(state / "admin"))
        self.assertLess(time.monotonic() - began, 22)
        self.assertIn(f"the head of 'mortal' at {address} cannot be reached: the connection was "
                      "refused", answer["error"]["message"])
        self.assertIn("rt doctor -c mortal", answer["error"]["hint"])

    def test_the_bridge_answers_what_is_asked_first_with_the_reason(self) -> None:
        done = self.rt(4, "-c", "refuses", "bridge")
        answer = json.loads(done.stdout)
        self.assertEqual((answer["ok"], answer["error"]["code"]), (False, "UNAVAILABLE"))
        self.assertIn(self.refuses, answer["error"]["message"])

    def test_context_list_asks_all_heads_at_once(self) -> None:
        began = time.monotonic()
        done = self.rt(0, "context", "list", "-o", "json")
        # One after the other, the four silent ones alone would take 6 s.
        self.assertLess(time.monotonic() - began, 6)
        listed = {item["name"]: item for item in json.loads(done.stdout)["items"]}
        self.assertEqual({name for name, item in listed.items() if item["up"]}, {"alive"})
        self.assertIsNone(listed["alive"]["reason"])
        self.assertEqual(listed["refuses"]["reason"], "the connection was refused")
        self.assertEqual(listed["silent3"]["reason"], "it does not answer")
        self.assertRegex(self.rt(0, "context", "list").stdout,
                         r"(?m)^ *refuses +remote +no +\S+ +the connection was refused$")

    def test_a_token_for_a_head_that_is_away_can_still_be_used(self) -> None:
        token = self.root / "token"
        token.write_text(self.rt(0, "-c", "alive", "token", "create", "--role", "viewer").stdout)
        error = self.rt(4, "context", "add", "new", "--head", self.refuses, "--token-file",
                        str(token)).stderr
        self.assertIn(f"the head at {self.refuses} cannot be reached: the connection was refused",
                      error)
        error = self.rt(4, "context", "add", "new", "--head", self.silent, "--token-file",
                        str(token)).stderr
        self.assertIn(f"the head at {self.silent} cannot be reached: it does not answer", error)
        self.rt(0, "context", "add", "new", "--head",
                (self.root / "head/address").read_text().strip(), "--token-file", str(token))
        self.addCleanup(shutil.rmtree, self.root / "home/clusters/new")
        error = self.rt(5, "-c", "new", "token", "create").stderr
        self.assertIn("the role 'viewer' may not create tokens; that needs the role admin", error)
        error = self.rt(5, "-c", "new", "submit", "/bin/true").stderr
        self.assertIn("the role 'viewer' may not submit code or store files; that needs the role "
                      "admin, user or worker", error)

    def test_a_token_that_has_expired_says_so_and_what_to_do(self) -> None:
        made = json.loads(self.rt(0, "-c", "alive", "token", "create", "--role", "user", "--ttl",
                                  "1s", "-o", "json").stdout)
        token = self.root / "late"
        token.write_text(made["text"])
        end = datetime.datetime.fromisoformat(made["expires_at"].replace("Z", "+00:00"))
        wait_until("it has expired", lambda: time.time() > end.timestamp() + 1)
        error = self.rt(5, "context", "add", "late", "--head",
                        (self.root / "head/address").read_text().strip(), "--token-file",
                        str(token)).stderr
        self.assertIn("expired", error)
        self.assertIn("rt token create --role user", error)
        self.assertNotIn("Socket closed", error)

    def test_a_misspelt_flag_of_a_daemon(self) -> None:
        error = self.timed(2, [str(BIN / "rt-worker"), "--hed", "x"]).stderr
        self.assertIn("unknown flag '--hed'; did you mean '--head'?", error)


if __name__ == "__main__":
    unittest.main()
