"""A head whose journal lies in PostgreSQL: kill -9 of either, and two heads at once."""

import json
import subprocess
import unittest

from checks import Search
from harness import BIN, ClusterTest, processes_of, wait_until
from postgres import Postgres


class PostgresTest(ClusterTest):
    database: Postgres

    @classmethod
    def prepare(cls) -> None:
        cls.database = Postgres()
        cls.addClassCleanup(cls.database.close)
        with cls.cluster.yaml.open("a") as yaml:
            yaml.write(f"journal: {json.dumps(cls.database.url)}\n")

    def search(self, **options) -> Search:
        search = Search(self.cluster, self.id().rsplit(".test_", 1)[1], verdict_every=3, **options)
        search.submit()
        search.wait_done(3)
        return search

    def head(self, state_dir: str, *more: str) -> "subprocess.Popen[str]":
        config = self.cluster.home / "home/clusters/it/config.json"
        return subprocess.Popen([str(BIN / "rt-head"), "--state-dir", state_dir, "--config",
                                 str(config), *more], text=True, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def test_the_journal_is_there_and_nowhere_else(self) -> None:
        self.assertFalse((self.cluster.home / "home/clusters/it/head/journal.db").exists())
        seq = self.cluster.json("status")["journal"]["durable_seq"]
        self.assertGreater(seq, 0)
        self.assertGreaterEqual(int(self.database.ask("SELECT max(seq) FROM rt_events")), seq)

    def test_kill_head(self) -> None:
        search = self.search()
        self.cluster.kill("head")
        search.check()

    def test_kill_database(self) -> None:
        search = self.search(checkpoint_every=4)
        pid = self.cluster.pid("head")
        self.database.kill()
        self.database.start()
        search.check()
        self.assertEqual(self.cluster.pid("head"), pid, self.cluster.logs())

    def test_another_head_is_refused_while_this_one_leads(self) -> None:
        other = self.head(str(self.cluster.home / "other"))
        said = other.communicate(timeout=60)[0]
        self.assertEqual(other.returncode, 1, said)
        self.assertIn("holds the lead", said)

    def test_a_head_that_was_superseded_ends(self) -> None:
        pid = self.cluster.pid("head")
        self.database.ask("UPDATE rt_lead SET epoch = epoch + 1, holder = 'x'")
        wait_until("the head's end", lambda: pid not in processes_of(self.cluster.home))
        log = (self.cluster.home / "home/clusters/it/head/log").read_text()
        self.assertIn("this head leads no more", log)
        self.database.ask("UPDATE rt_lead SET renewed_at = '-infinity'")
        self.search().check()

    def test_another_clusters_database_is_refused(self) -> None:
        # The lead is free, but the certificates of this state directory are not the cluster's.
        self.cluster.kill("head")
        self.database.ask("UPDATE rt_lead SET renewed_at = '-infinity'")
        other = self.head(str(self.cluster.home / "other"))
        said = other.communicate(timeout=60)[0]
        self.assertEqual(other.returncode, 1, said)
        self.assertIn("copy the directory ca", said)
        self.database.ask("UPDATE rt_lead SET renewed_at = '-infinity'")
        self.search().check()


if __name__ == "__main__":
    unittest.main()
