"""A head whose journal is shipped: its machine burns, and another one goes on from the store."""

import json
import os
import shutil
import signal
import subprocess
import unittest

from checks import Search
from harness import BIN, ClusterTest, processes_of, wait_until


class ShipTest(ClusterTest):
    mode = "sync"

    @classmethod
    def prepare(cls) -> None:
        cls.store = cls.cluster.home / "store"
        cls.key = cls.cluster.home / "elsewhere.key"
        journal = {"ship": {"to": str(cls.store), "mode": cls.mode}, "key_file": str(cls.key)}
        with cls.cluster.yaml.open("a") as yaml:
            yaml.write(f"journal: {json.dumps(journal)}\n")

    @property
    def head_dir(self):
        return self.cluster.home / "home/clusters/it/head"

    def search(self, **options) -> Search:
        search = Search(self.cluster, self.id().rsplit(".test_", 1)[1], verdict_every=3, **options)
        search.submit()
        search.wait_done(3)
        return search

    def restore(self, target, key=None) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [str(BIN / "rt-head"), "--restore-from", str(self.store), "--key-file",
             str(key or self.key), "--state-dir", str(target)],
            text=True, capture_output=True, timeout=60, stdin=subprocess.DEVNULL, check=False)

    def slots(self) -> list[str]:
        return sorted(path.name for path in (self.store / "objects/log+").iterdir())

    def journal_caught_up(self) -> bool:
        journal = self.cluster.json("status")["journal"]
        return journal["shipped_seq"] == journal["durable_seq"]

    def test_status_says_how_far_it_is_shipped(self) -> None:
        wait_until("everything is shipped", self.journal_caught_up)
        self.assertEqual(self.slots()[0], "0" * 19 + "1")

    def test_kill_head(self) -> None:
        search = self.search()
        self.cluster.kill("head")
        search.check()

    def test_the_heads_machine_burns(self) -> None:
        search = self.search(checkpoint_every=3)
        pid = self.cluster.kill("head")
        wait_until("the head's end", lambda: pid not in processes_of(self.cluster.home))
        burnt = self.cluster.home / "burnt"
        self.head_dir.rename(burnt)
        done = self.restore(self.head_dir)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("holds the journal up to record", done.stdout)
        # Checkpoints have a store of their own, and the new machine has the old one's address.
        shutil.copytree(burnt / "blobs", self.head_dir / "blobs", dirs_exist_ok=True)
        shutil.copy(burnt / "listen", self.head_dir / "listen")
        before = json.loads((burnt / "admin/context.json").read_text())["cluster_id"]
        self.assertEqual(self.cluster.json("status")["cluster"]["id"], before)
        search.check(restarted=() if self.mode == "sync" else None)

    def test_a_restore_into_a_directory_in_use_is_refused(self) -> None:
        done = self.restore(self.cluster.home / "home/clusters/it/worker-1")
        self.assertEqual(done.returncode, 1)
        made = self.cluster.home / "used"
        made.mkdir()
        (made / "ca").mkdir()
        done = self.restore(made)
        self.assertEqual(done.returncode, 1)
        self.assertIn("restore into a new directory", done.stderr)

    def test_another_key_opens_nothing(self) -> None:
        wrong = self.cluster.home / "wrong.key"
        wrong.write_text("0" * 64)
        done = self.restore(self.cluster.home / "not-restored", wrong)
        self.assertEqual(done.returncode, 1)
        self.assertIn("the key does not fit", done.stderr)

    def test_a_restore_that_was_cut_off_is_done_once_more(self) -> None:
        target = self.cluster.home / "cut-off"
        command = [str(BIN / "rt-head"), "--state-dir", str(target)]
        cut = subprocess.run(
            [*command, "--restore-from", str(self.store), "--key-file", str(self.key)],
            env={**os.environ, "RT_FAILPOINTS": "head.journal.before_write=kill"}, text=True,
            capture_output=True, timeout=60, stdin=subprocess.DEVNULL, check=False)
        self.assertEqual(cut.returncode, -signal.SIGKILL, cut.stderr)
        self.assertFalse((target / "journal.db").exists())
        config = self.cluster.home / "home/clusters/it/config.json"
        early = subprocess.run(
            [*command, "--config", str(config)], text=True, capture_output=True, timeout=60,
            stdin=subprocess.DEVNULL, check=False)
        self.assertEqual(early.returncode, 1, early.stderr)
        self.assertIn("did not come to its end", early.stderr)
        done = self.restore(target)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue((target / "journal.db").exists())
        self.assertFalse((target / "journal.db.draft").exists())

    def test_a_second_head_is_refused_while_the_first_one_leads(self) -> None:
        config = self.cluster.home / "home/clusters/it/config.json"
        done = subprocess.run(
            [str(BIN / "rt-head"), "--state-dir", str(self.cluster.home / "second"), "--config",
             str(config)], text=True, capture_output=True, timeout=60, check=False,
            stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("another head leads", done.stderr)


class AsyncShipTest(ShipTest):
    mode = "async"

    def test_the_heads_machine_burns(self) -> None:
        # What was acknowledged and not shipped may be lost: first let it be shipped.
        search = self.search(checkpoint_every=3)
        self.cluster.rt("exp", "pause", str(search.number))
        wait_until("the trials have ended", lambda: not search.running())
        wait_until("everything is shipped", self.journal_caught_up)
        self.cluster.kill("head")
        burnt = self.cluster.home / "burnt"
        self.head_dir.rename(burnt)
        done = self.restore(self.head_dir)
        self.assertEqual(done.returncode, 0, done.stderr)
        shutil.copytree(burnt / "blobs", self.head_dir / "blobs", dirs_exist_ok=True)
        shutil.copy(burnt / "listen", self.head_dir / "listen")
        self.cluster.rt("exp", "resume", str(search.number))
        search.check(restarted=None)


if __name__ == "__main__":
    unittest.main()
