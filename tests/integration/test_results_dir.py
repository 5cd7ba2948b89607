"""Where a head may be made to write: not where rt keeps its own files, not through links, and on a
shared head only below the directories that an administrator named."""

import json
import pathlib
import sys
import tempfile
import unittest

from harness import BIN, ClusterTest, wait_until
from test_security import Site

ROWS = """
import json, pathlib, time
row = 0
while not pathlib.Path(CAN_END).exists():
    row += 1
    print("RT_REPORT " + json.dumps({"row": row}), flush=True)
    time.sleep(0.02)
"""


def experiment(name: str, results_dir: object) -> str:
    return (f"experiment: {name}\ncommand: [echo, 'RT_REPORT {{\"loss\": 1}}']\n"
            f"results_dir: {results_dir}\n")


class ResultsDirTest(ClusterTest):
    """A local cluster: its head has the account of whoever submits."""

    workers = 1

    def test_every_directory_of_the_account_is_allowed(self) -> None:
        (self.cluster.home / "link").symlink_to(self.cluster.work)
        for where in (self.cluster.work / "out", self.cluster.home / "link/linked", "relative"):
            number = self.cluster.submit("anywhere", experiment("anywhere", where))
            done = self.cluster.wait_experiment(number)
            wanted = (self.cluster.work / where).resolve() / "anywhere"
            self.assertEqual((done["results_dir"], done["results_problem"]), (str(wanted), None))
            self.assertEqual(len(list(wanted.glob("*/result.json"))), 1)

    def test_nothing_is_written_where_rt_keeps_its_own_files(self) -> None:
        home = self.cluster.home / "home"
        ca = home / "clusters/it/head/ca"
        (self.cluster.work / "to_ca").symlink_to(ca)
        before = sorted(ca.iterdir())
        for where in (ca, home, home / "new", self.cluster.work / "to_ca",
                      self.cluster.work / "to_ca/deeper"):
            path = self.cluster.work / "ca.yaml"
            path.write_text(experiment("ca", where))
            done = self.cluster.rt("submit", "--detach", str(path), check=False)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("which rt keeps for itself", done.stderr)
            self.assertIn("ca.yaml:3:", done.stderr)
        self.assertEqual(sorted(ca.iterdir()), before)
        self.assertFalse((home / "new").exists())

    def test_the_head_refuses_what_only_a_client_can_complete(self) -> None:
        for where in ("relative", f"{self.cluster.work}/../work", f"{self.cluster.work}/./out"):
            with self.assertRaisesRegex(AssertionError, "must be an absolute path without"):
                self.cluster.bridge([{"op": "experiment_create", "key": where, "spec": {
                    "experiment": "raw", "command": ["true"], "results_dir": where}}])

    def test_a_directory_that_becomes_a_link_is_not_written_through(self) -> None:
        work = self.cluster.work
        can_end, parent, outside = work / "can_end", work / "swapped", work / "outside"
        outside.mkdir()
        (outside / "rows").mkdir()
        (work / "rows.py").write_text(ROWS.replace("CAN_END", repr(str(can_end))))
        number = self.cluster.submit("rows", f"experiment: rows\nresults_dir: {parent}\n"
                                             f"command: [{sys.executable}, rows.py]\n")
        wait_until("rows are written", lambda: list(parent.glob("rows/*/result.json")))
        parent.rename(work / "aside")
        parent.symlink_to(outside)

        def problem() -> str:
            return self.cluster.experiment(number)["results_problem"] or ""

        wait_until("the head refuses", lambda: "symbolic link" in problem(), lasting=True)
        self.assertEqual(list((outside / "rows").iterdir()), [])
        done = self.cluster.rt("exp", "download", str(number), str(work / "fetched"), check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("symbolic link", done.stderr)
        parent.unlink()
        (work / "aside").rename(parent)
        wait_until("it writes again", lambda: problem() == "")
        can_end.touch()
        done = self.cluster.wait_experiment(number)
        (trial,) = self.cluster.trials(number)
        rows = [row["row"] for row in self.cluster.rows(done, trial)]
        self.assertEqual(rows, list(range(1, trial["reports"] + 1)))


class SharedHeadTest(unittest.TestCase):
    def setUp(self) -> None:
        self.site = Site()
        self.addCleanup(self.site.close)
        folder = tempfile.TemporaryDirectory(prefix="rt-shared-")
        self.addCleanup(folder.cleanup)
        self.shared = pathlib.Path(folder.name)

    def submit(self, where: object, role: str, code: int) -> str:
        (self.site.root / "e.yaml").write_text(experiment("e", where))
        return self.site.rt("-c", role, "submit", "--detach", "e.yaml", code=code).stderr

    def person(self, role: str) -> None:
        self.site.rt("context", "add", role, "--head", self.site.address(), "--token-file", "-",
                     stdin=self.site.rt("-c", "lab", "token", "create", "--role", role).stdout)

    def test_roots_bind_users_and_admins(self) -> None:
        allowed, other = self.shared / "allowed", self.shared / "other"
        other.mkdir()
        state = self.site.head(extra=["--results-roots", str(allowed)])
        self.site.rt("context", "add", "lab", "--from", str(state / "admin"))
        for role in ("user", "admin"):
            self.person(role)
            text = self.submit(other, role, 2)
            self.assertIn(f"writes results only below {state}/results, {allowed}", text)
            self.assertIn("rt exp download", text)
            self.assertIn("results_roots", text)
            for inside in (state / "ca", state, state / "resultsx"):
                self.assertIn("rt keeps for itself", self.submit(inside, role, 2))
        self.assertEqual(list(other.iterdir()), [])
        self.submit(allowed / "alice", "user", 0)
        self.assertTrue((allowed / "alice/e").is_dir())
        (allowed / "out").symlink_to(other)
        self.assertIn("writes results only below", self.submit(allowed / "out", "user", 2))
        self.submit(state / "results" / "mine", "user", 0)
        shown = json.loads(self.site.rt("-c", "user", "exp", "show", "last", "-o", "json").stdout)
        self.assertEqual(shown["results_dir"], f"{state}/results/mine/e")

    def test_a_root_where_rt_keeps_its_own_files_is_refused(self) -> None:
        state = self.site.root / "head"
        for root in (state, state / "ca"):
            daemon = self.site.start("head", str(BIN / "rt-head"), "--state-dir",
                                     str(state), "--results-roots", str(root))
            self.assertEqual(daemon.wait(20), 1)
            self.assertIn("which rt keeps for itself", self.site.log("head"))


if __name__ == "__main__":
    unittest.main()
