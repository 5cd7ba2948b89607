"""kill -9 of each party while a search runs: nothing is lost, nobody else is restarted."""

import os
import signal
import subprocess
import unittest

from checks import Search
from harness import BIN, ClusterTest, wait_until


class KillTest(ClusterTest):
    def search(self, suffix: str = "", **options) -> Search:
        name = self.id().rsplit(".test_", 1)[1] + suffix
        search = Search(self.cluster, name, verdict_every=3, **options)
        search.submit()
        search.wait_done(3)
        return search

    def test_head(self) -> None:
        search = self.search()
        self.cluster.kill("head")
        search.check()

    def test_head_ten_times(self) -> None:
        search = self.search(checkpoint_every=2, trials=32)
        for i in range(10):
            pid = self.cluster.kill("head")
            self.cluster.json("status")  # Any client brings a local head back.
            wait_until("another head", lambda: self.cluster.pid("head") != pid)
            search.wait_done(3 + 2 * i)
        search.check()

    def test_worker_daemon(self) -> None:
        # A node is LOST a second after its connection closed. On a busy machine a daemon may take
        # longer to start again: then its trials restart, as they should, and it is killed again.
        for turn in range(3):
            search = self.search(str(turn), checkpoint_every=4)
            self.cluster.kill("worker-1")
            self.cluster.wait_experiment(search.number)
            was_lost = any("did not come back" in (attempt["reason"] or "")
                           for attempt in search.attempts())
            search.check(restarted=None if was_lost else ())
            if not was_lost:
                return
        self.fail("killed three times, the daemon was never back within a second")

    def test_trial(self) -> None:
        search = self.search()
        trial = search.catch()
        os.kill(trial["pid"], signal.SIGKILL)
        search.check(failed=[trial["id"]])
        hit = self.cluster.trial(trial["id"])
        self.assertEqual(hit["attempts"][0]["signal"], 9)
        self.assertEqual(hit["failures"], 1)

    def test_trial_that_may_fail_goes_on_from_its_checkpoint(self) -> None:
        search = self.search(checkpoint_every=2, options="max_failures: 1")
        trial = search.catch(committed=1)
        os.kill(trial["pid"], signal.SIGKILL)
        search.check(restarted=[trial["id"]])
        hit = self.cluster.trial(trial["id"])
        self.assertEqual([a["outcome"] for a in hit["attempts"]], ["FAILED", "SUCCEEDED"])
        self.assertGreaterEqual(search.stories(hit)[1].start, 2)

    def test_worker_with_all_its_trials(self) -> None:
        search = self.search(checkpoint_every=2)
        trials = search.running(self.cluster.node("worker-1")["id"])
        root = str(self.cluster.home / "home/clusters/it/worker-1")
        pids = [self.cluster.pid("worker-1")]
        pids += [pid for pid, text in self.cluster.leftovers().items()
                 if "rt-shim" in text and root in text]
        for pid in pids + [trial["pid"] for trial in trials]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        # Also trials that started while this test was looking may have been hit.
        search.check(restarted=None)

    def test_client(self) -> None:
        search = Search(self.cluster, "client", verdict_every=3)
        search.prepare()
        path = self.cluster.work / "client.yaml"
        path.write_text(search.yaml())
        client = subprocess.Popen([str(BIN / "rt"), "submit", str(path)], env=self.cluster.env,
                                  cwd=self.cluster.work, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        search.find()
        search.wait_done(3)
        client.kill()
        client.wait()
        search.check()


if __name__ == "__main__":
    unittest.main()
