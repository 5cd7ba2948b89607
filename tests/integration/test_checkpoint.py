"""Checkpoints with real processes: bytes first, the newest N kept, and trials that go on from them
after the loss of a process, and of a whole node with its disk."""

import os
import pathlib
import shutil
import signal
import subprocess
import unittest

from checks import HERE, Search
from harness import BIN, ROOT, ClusterTest, driver_python, wait_until


class CheckpointTest(ClusterTest):
    workers = 1

    @classmethod
    def prepare(cls) -> None:
        cls.python = driver_python()
        cls.cluster.env["PYTHONPATH"] = str(ROOT / "python")

    def show(self, trial: str) -> dict:
        return self.cluster.trial(trial)

    def test_the_newest_are_kept_and_whole(self) -> None:
        search = Search(self.cluster, "keeps", trials=4, steps=9, pause_s=0.0, checkpoint_every=2,
                        options="checkpoints: {num_to_keep: 2}")
        search.submit()
        search.check()
        for number in range(4):
            kept = self.show(f"{search.number}/{number}")["checkpoints"]
            self.assertEqual([one["step"] for one in kept], [6, 8])
            self.assertEqual([one["state"] for one in kept], ["COMMITTED"] * 2)
            self.assertEqual([one["bytes"] for one in kept], [10_001] * 2)
            self.assertEqual([one["id"] for one in kept], [3, 4])
            for one in kept:
                target = self.cluster.home / f"pulled-{number}-{one['step']}"
                self.cluster.bridge([{"op": "blob_pull_dir", "manifest": one["manifest"],
                                      "target": str(target)}])
                self.assertEqual((target / "step").read_text(), str(one["step"]))
                self.assertEqual((target / "weights").stat().st_size, 10_000)

    def test_a_class_that_saves_a_path(self) -> None:
        self.run_class("path")

    def test_a_class_that_saves_a_dict(self) -> None:
        self.run_class("dict")

    def run_class(self, what: str) -> None:
        shutil.copy(HERE / "class_program.py", self.cluster.work)
        done = subprocess.run([self.python, "class_program.py", what], cwd=self.cluster.work,
                              env={**self.cluster.env, "RT_CLUSTER": "it"}, text=True, timeout=120,
                              capture_output=True, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 0, done.stderr + self.cluster.logs())
        results = [line for line in done.stdout.splitlines() if line.startswith("result")]
        self.assertEqual(results, ["result 1 7 7", "result 10 70 7"], done.stdout)
        items = self.cluster.experiments()
        number = next(item["id"] for item in items if item["name"] == f"class-{what}")
        experiment = self.cluster.experiment(number)
        for trial in self.cluster.trials(number):
            shown = self.show(trial["id"])
            self.assertEqual((shown["state"], shown["failures"]), ("COMPLETED", 1))
            self.assertEqual([a["signal"] for a in shown["attempts"]], [9, None])
            self.assertEqual([one["step"] for one in shown["checkpoints"]], [6, 7])
            rows = self.cluster.rows(experiment, trial)
            self.assertEqual([(r["training_iteration"], r["attempt"]) for r in rows],
                             [(1, 1), (2, 1), (3, 2), (4, 2), (5, 2), (6, 2), (7, 2)])

    def test_a_node_that_burns_down(self) -> None:
        """Daemon, shims, programs and disk of a node vanish; its trials go on elsewhere."""
        folder = self.cluster.home / "burning"
        worker = self.join(folder, cpus=4)
        search = Search(self.cluster, "burns", trials=40, steps=8, checkpoint_every=2)
        search.submit()
        search.wait_done(3)
        node = self.cluster.node("burning")["id"]
        caught = search.catch(committed=1, node=node)
        mark = str(folder) + "/"
        worker.kill()
        worker.wait()
        while burning := [pid for pid, text in self.cluster.leftovers().items() if mark in text]:
            for pid in burning:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        shutil.rmtree(folder)
        search.check(restarted=None)
        self.assertEqual(self.cluster.node("burning")["state"], "LOST")
        lost = [self.show(trial["id"]) for trial in self.cluster.trials(search.number)
                if trial["attempt"] != 1]
        self.assertIn(caught["id"], [trial["id"] for trial in lost])
        for trial in lost:
            self.assertEqual(trial["failures"], 0)
            self.assertEqual(trial["attempts"][0]["members"][0]["node_id"], node)
            self.assertEqual([a["outcome"] for a in trial["attempts"]], ["LOST", "SUCCEEDED"])
        self.assertGreater(search.stories(caught)[-1].start, 0)

    def join(self, folder: pathlib.Path, cpus: int) -> subprocess.Popen:
        """A worker started by hand: nobody starts it again."""
        folder.mkdir()
        token = folder.with_suffix(".token")
        token.write_text(self.cluster.rt("token", "create", "--role", "worker").stdout)
        address = (self.cluster.home / "home/clusters/it/head/address").read_text().strip()
        with open(folder.with_suffix(".log"), "w") as log:
            worker = subprocess.Popen(
                [str(BIN / "rt-worker"), "--head", address, "--token-file", str(token),
                 "--state-dir", str(folder), "--name", folder.name, "--resources", f"cpu={cpus}"],
                env=self.cluster.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True)
        wait_until("it is ready", lambda: any(
            one["name"] == folder.name and one["state"] == "READY"
            for one in self.cluster.node_items()))
        return worker


if __name__ == "__main__":
    unittest.main()
