"""A head whose state directory is an older copy: the workers do not believe it, and it says so;
once it is told what it is, it leads again, and says what it lacks."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import unittest
from typing import Any, Optional

from harness import BIN, ClusterTest, processes_of, wait_until

COUNT = r"""
import os, sys, time
i = 0
with open(sys.argv[1], "ab", buffering=0) as said:
    while not os.path.exists(sys.argv[2]):
        i += 1
        print(f'RT_REPORT {{"i": {i}}}', flush=True)
        said.write(b".")
        time.sleep(0.02)
"""


class RestoredTest(ClusterTest):
    workers = 1

    @property
    def head_dir(self) -> pathlib.Path:
        return self.cluster.home / "home/clusters/it/head"

    def head_ends(self) -> None:
        pid = self.cluster.kill("head")
        wait_until("the head's end", lambda: pid not in processes_of(self.cluster.home))

    def head(self) -> Any:
        """The cluster as `rt status` has it; any client brings a local head back."""
        return self.cluster.json("status")["cluster"]

    def said(self) -> Optional[str]:
        """What `rt doctor` has to say of the history, unless it is well."""
        done = self.cluster.rt("doctor", "-o", "json", check=False)
        for finding in json.loads(done.stdout)["items"]:
            if finding["check"] == "history" and finding["hint"] is not None:
                return str(finding["message"])
        return None

    def note_restored(self) -> subprocess.CompletedProcess[str]:
        return subprocess.run([str(BIN / "rt-head"), "--state-dir", str(self.head_dir),
                               "--restored"], text=True, capture_output=True, timeout=30)

    def test_a_copy_is_not_believed_until_it_says_what_it_is(self) -> None:
        first = self.cluster.submit("first", "experiment: first\ncommand: ['true']\n")
        self.cluster.wait_experiment(first)
        self.head_ends()
        copy = self.cluster.home / "copy"
        shutil.copytree(self.head_dir, copy)

        self.assertEqual(self.head()["epoch"], 2)
        lost = self.cluster.submit("lost", "experiment: lost\ncommand: [sleep, '600']\n")
        wait_until("it runs", lambda: self.cluster.trials(lost)[0]["state"] == "RUNNING")
        trial = self.cluster.trial(f"{lost}/0")
        pid = trial["attempts"][0]["members"][0]["pid"]
        self.head_ends()
        shutil.rmtree(self.head_dir)
        copy.rename(self.head_dir)

        wait_until("it says so", lambda: self.head()["other_head"] is not None)
        self.assertEqual(self.head()["epoch"], 2)  # As the one that is lost.
        self.assertIn("does not believe this head", self.said() or "")
        self.assertIn("does not believe this head", self.cluster.rt("status").stdout)
        os.kill(pid, 0)  # It judges nobody.

        self.head_ends()
        self.assertEqual(self.note_restored().returncode, 0)
        wait_until("it leads", lambda: self.head()["rolled_back"] is not None)
        head = self.head()
        self.assertIsNone(head["other_head"])
        self.assertGreater(head["epoch"], 1_000)
        self.assertGreater(head["rolled_back"]["records_lost"], 2)
        self.assertIn("lacks its last", self.said() or "")
        self.cluster.wait_no_trials()  # Nobody knows of the lost experiment any more.
        after = self.cluster.submit("after", "experiment: after\ncommand: ['true']\n")
        self.assertGreater(after, 1_000)  # No number of the lost part is given out again.
        self.assertEqual(self.cluster.wait_experiment(after)["state"], "COMPLETED")

        self.head_ends()
        wait_until("the next start is like any other", lambda: self.said() is None)
        self.assertEqual(self.head()["epoch"], head["epoch"] + 1)

    def test_a_copy_that_is_started_by_mistake_judges_nobody(self) -> None:
        self.head_ends()
        copy, real = self.cluster.home / "mistake", self.cluster.home / "real"
        shutil.copytree(self.head_dir, copy)
        (self.cluster.work / "count.py").write_text(COUNT)
        said, end = self.cluster.home / "said", self.cluster.home / "end"
        epoch = self.head()["epoch"]
        number = self.cluster.submit(
            "counts", f"experiment: counts\ncommand: [python3, count.py, {said}, {end}]\n")
        wait_until("it reports", lambda: self.cluster.trials(number)[0]["reports"] > 3)
        self.head_ends()
        self.head_dir.rename(real)
        copy.rename(self.head_dir)
        wait_until("it says so", lambda: self.head()["other_head"] is not None)
        self.assertEqual(self.head()["epoch"], epoch)
        so_far = said.stat().st_size
        wait_until("more is said meanwhile", lambda: said.stat().st_size > so_far + 50)
        self.head_ends()
        shutil.rmtree(self.head_dir)
        real.rename(self.head_dir)

        end.touch()
        experiment = self.cluster.wait_experiment(number)
        trial = self.cluster.trials(number)[0]
        self.assertEqual(len(self.cluster.trial(trial["id"])["attempts"]), 1)
        rows = [row["i"] for row in self.cluster.rows(experiment, trial)]
        self.assertEqual(rows, list(range(1, said.stat().st_size + 1)))

    def test_who_has_heard_a_later_head_does_not_ask_an_older_one(self) -> None:
        before = self.head()["epoch"]
        self.head_ends()
        copy = self.cluster.home / "another-copy"
        shutil.copytree(self.head_dir, copy)
        for start in (1, 2):
            self.assertEqual(self.head()["epoch"], before + start)
            self.head_ends()
        shutil.rmtree(self.head_dir)
        copy.rename(self.head_dir)

        done = self.cluster.rt("status", check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(f"epoch {before + 2}; this one's is {before + 1}", done.stderr)
        self.assertIn("--restored", done.stderr)
        self.head_ends()
        self.assertEqual(self.note_restored().returncode, 0)
        self.assertEqual(self.head()["epoch"], before + 1_001)

    def test_what_is_no_copy_is_refused(self) -> None:
        done = subprocess.run([str(BIN / "rt-head"), "--state-dir", str(self.cluster.home / "no"),
                               "--restored"], text=True, capture_output=True, timeout=30)
        self.assertEqual(done.returncode, 1, done)
        self.assertIn("holds no head's state", done.stderr)
        done = self.note_restored()  # The head runs.
        self.assertEqual(done.returncode, 1, done)
        self.assertIn("another head runs here", done.stderr)


if __name__ == "__main__":
    unittest.main()
