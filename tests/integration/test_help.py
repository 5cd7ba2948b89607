"""The command line itself: what its help shows works, and what it does not know says what does."""

import json
import re
import subprocess
import unittest
from collections.abc import Iterator
from typing import Any

from harness import BIN, Cluster


class HelpTest(unittest.TestCase):
    """No cluster is up: the command line is understood before anybody is asked."""

    def setUp(self) -> None:
        self.cluster = Cluster()
        self.addCleanup(self.cluster.remove_files)

    def refuse(self, *args: str) -> Any:
        done = self.cluster.rt(*args, "-o", "json", check=False)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        return json.loads(done.stderr)["error"]

    def test_a_list_takes_no_selector_and_says_what_does(self) -> None:
        self.assertEqual(self.refuse("exp", "list", "last")["hint"], "rt exp show last")
        self.assertEqual(self.refuse("trial", "list", "3")["hint"], "rt trial list --exp 3")

    def test_what_this_release_lacks_says_what_works_instead(self) -> None:
        for words in (["exec", "ls"], ["exec", "--help"], ["attach"], ["rsync-up", "a", "b"],
                      ["rsync-down"], ["dashboard"], ["-c", "it", "dashboard", "--help"],
                      ["submit", "--nnodes=1:2", "report.py"]):
            with self.subTest(words=words):
                error = self.refuse(*words)
                self.assertIn("is not available in this release yet", error["message"])
                self.assertIn("what works: ", error["hint"])
        done = self.cluster.rt("frobnicate", "--help", check=False)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("unknown command 'frobnicate'", done.stderr)

    def test_a_file_that_is_no_cluster(self) -> None:
        error = self.refuse("up", "nofile.yaml")
        self.assertEqual((error["message"], error["file"]),
                         ("nofile.yaml: no such file", "nofile.yaml"))
        (self.cluster.work / "a.yaml").write_text("experiment: x\ncommand: ['true']\n")
        error = self.refuse("up", "a.yaml")
        self.assertEqual((error["hint"], error["line"]), ("rt submit a.yaml", 1))

    def test_bounds_and_roles_are_named(self) -> None:
        error = self.refuse("exp", "extend", "1", "--samples", "0")
        self.assertIn("--samples must be a whole number from 1", error["message"])
        error = self.refuse("token", "create", "--role", "king")
        self.assertEqual(error["hint"], "one of worker, user, viewer, admin")
        error = self.refuse("exp")
        self.assertEqual((error["message"], error["hint"]),
                         ("missing subcommand", "see rt exp --help"))
        for words, message, verb in (
                (("trial", "resize", "1/1"), "missing --ranks", "trial resize"),
                (("doctor", "x"), "unexpected argument 'x'", "doctor"),
                (("bridge", "--cpus", "x"), "--cpus must be a whole number, not 'x'", "bridge")):
            error = self.refuse(*words)
            self.assertEqual((error["message"], error["hint"]), (message, f"see rt {verb} --help"))

    def test_a_wrong_flag_of_a_daemon_costs_two_lines(self) -> None:
        state = ("--head", "127.0.0.1:1", "--state-dir", str(self.cluster.home / "w"))
        for program, words, message in (
                ("rt-worker", (*state, "--resources", "fpga=x"), "fpga=x: must be a number"),
                ("rt-worker", ("--haed", "x"), "unknown flag '--haed'"),
                ("rt-head", ("--state-dri", "x"), "unknown argument '--state-dri'")):
            done = subprocess.run([str(BIN / program), *words], text=True, capture_output=True)
            self.assertEqual(done.returncode, 2)
            lines = done.stderr.splitlines()
            self.assertIn(message, lines[0])
            self.assertRegex(lines[1], f"see {program} --help$")
            self.assertEqual(len(lines), 2)

    def helps(self, words: list[str]) -> Iterator[str]:
        """The help of a command and of all below it."""
        text = self.cluster.rt(*words, "--help").stdout
        yield text
        below = text.partition("\nSubcommands:\n")[2].partition("\n\n")[0]
        for verb in re.findall(r"(?m)^  ([a-z-]+)(?:, [a-z])? ", below):
            yield from self.helps([*words, verb])

    def test_every_example_in_a_help_is_a_valid_command_line(self) -> None:
        place = self.cluster.home / "examples"
        place.mkdir()
        (place / "cluster.yaml").write_text("cluster_name: none\nprovider: {type: local}\n")
        (place / "search.yaml").write_text("experiment: x\ncommand: ['true']\n")
        for name in ("train.py", "ddp.py", "run.sh"):
            (place / name).write_text("")
            (place / name).chmod(0o755)
        (place / "model").mkdir()
        env = {**self.cluster.env, "RT_HOME": str(place / "home")}
        examples = set()
        for text in self.helps([]):
            self.assertNotRegex(text, r"(?m)^  .*\b(goes on|so many|takes what)\b")
            examples |= set(re.findall(r"\brt ([^\n\"]*?)(?: > .*|\)\" .*)?$",
                                       text.split("Examples:\n")[1], re.MULTILINE))
        self.assertGreater(len(examples), 60)
        for example in sorted(examples - {"up cluster.yaml", "bridge", "bridge --local --cpus 4"}):
            words = example.replace("--start --stop", "").split()
            with self.subTest(example=example):
                done = subprocess.run([str(BIN / "rt"), *words], env=env, cwd=place,
                                      text=True, capture_output=True, stdin=subprocess.DEVNULL)
                if "rt report works only in a trial" not in done.stderr:
                    self.assertNotEqual(done.returncode, 2, done.stderr)


if __name__ == "__main__":
    unittest.main()
