"""kill -9 of drivers, and of what drivers lean on: their searches go on and are theirs again."""

import os
import pathlib
import signal
import subprocess
import unittest

from checks import Search
from harness import ROOT, ClusterTest, driver_python, wait_until


class KillDriverTest(ClusterTest):
    @classmethod
    def prepare(cls) -> None:
        cls.python = driver_python()
        cls.cluster.env["PATH"] = (str(pathlib.Path(cls.python).parent) + ":"
                                   + cls.cluster.env["PATH"])
        cls.cluster.env["PYTHONPATH"] = str(ROOT / "python")

    def search(self, **options) -> Search:
        name = self.id().rsplit(".test_", 1)[1]
        search = Search(self.cluster, name, checkpoint_every=3, **options)
        search.prepare()
        return search

    def arguments(self, search: Search) -> list[str]:
        return [search.name, str(search.notes), str(search.trials), str(search.steps),
                str(search.pause_s), str(search.checkpoint_every)]

    def submit(self, search: Search) -> int:
        done = self.cluster.rt("submit", "--detach", "-o", "quiet", "driver_program.py", "--",
                               *self.arguments(search))
        job = int(done.stdout)
        search.find()
        search.wait_done(3)
        return job

    def job(self, number: int) -> dict:
        return self.cluster.json("job", "show", str(number))

    def member(self, job: int) -> tuple[int, str]:
        """The pid of the job's driver, and the name of its worker."""
        member = self.job(job)["attempts"][-1]["members"][0]
        names = {node["id"]: node["name"] for node in self.cluster.node_items()}
        return member["pid"], names[member["node_id"]]

    def await_job(self, number: int) -> dict:
        return wait_until("the job has ended", lambda: (
            lambda job: job["state"] in ("SUCCEEDED", "FAILED", "STOPPED") and job)(
                self.job(number)), lasting=True)

    def plain(self, search: Search) -> subprocess.Popen:
        """`python driver_program.py`, attached through RT_CLUSTER."""
        return subprocess.Popen(
            [self.python, "driver_program.py", *self.arguments(search)], cwd=self.cluster.work,
            env={**self.cluster.env, "RT_CLUSTER": "it"}, stdin=subprocess.DEVNULL, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def test_driver_of_a_job(self) -> None:
        search = self.search()
        job = self.submit(search)
        os.kill(self.member(job)[0], signal.SIGKILL)
        ended = self.await_job(job)
        self.assertEqual((ended["state"], ended["signal"], ended["attempt"]), ("FAILED", 9, 1))
        self.assertEqual(ended["experiment_ids"], [search.number])
        search.check()

    def test_worker_and_shim_under_a_driver(self) -> None:
        search = self.search()
        job = self.submit(search)
        pid, worker = self.member(job)
        root = str(self.cluster.home / "home/clusters/it" / worker)
        shims = [one for one, text in self.cluster.leftovers().items()
                 if "rt-shim" in text and root in text]
        for one in [self.cluster.pid(worker), *shims, pid]:
            try:
                os.kill(one, signal.SIGKILL)
            except ProcessLookupError:
                pass
        search.check(restarted=None)
        ended = self.await_job(job)
        self.assertEqual((ended["state"], ended["attempt"]), ("SUCCEEDED", 2), ended)
        self.assertEqual(ended["experiment_ids"], [search.number])  # It went back to it.
        log = self.cluster.rt("job", "logs", str(job)).stdout
        self.assertIn(f"driver: {search.trials} trials of {search.name}", log)

    def test_daemons_under_a_driver(self) -> None:
        search = self.search()
        job = self.submit(search)
        self.cluster.kill(self.member(job)[1])
        search.wait_done(10)
        self.cluster.kill("head")
        search.check()
        ended = self.await_job(job)
        self.assertEqual((ended["state"], ended["attempt"]), ("SUCCEEDED", 1), ended)

    def test_plain_driver(self) -> None:
        search = self.search()
        driver = self.plain(search)
        search.find()
        search.wait_done(3)
        driver.kill()
        driver.communicate()
        search.check()

    def test_head_under_a_plain_driver(self) -> None:
        search = self.search()
        driver = self.plain(search)
        search.find()
        search.wait_done(3)
        self.cluster.kill("head")
        out, err = driver.communicate(timeout=120)
        self.assertEqual(driver.returncode, 0, err)
        self.assertIn(f"driver: {search.trials} trials of {search.name}", out)
        search.check()


if __name__ == "__main__":
    unittest.main()
