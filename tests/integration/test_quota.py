"""A checkpoint store that is full, by its quota or because its disk is: new checkpoints wait, it is
said where and why, all else goes on, and with room they are committed without anybody's doing."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import unittest
from typing import Any

from checks import HERE, bare_python
from full_disk import FullDiskCase
from harness import Cluster, wait_until

WAITS = "new checkpoints wait"
AGAIN = "has room again"


class Saver:
    """An experiment of quota_program.py: trial 0 saves, the others only report."""

    def __init__(self, cluster: Cluster, checkpoints: int, size: int, trials: int = 1,
                 options: str = "") -> None:
        self.cluster, self.checkpoints, self.size = cluster, checkpoints, size
        self.notes = cluster.home / "notes"
        self.notes.mkdir()
        for program in ("trial_program.py", "quota_program.py"):
            shutil.copy(HERE / program, cluster.work)
        command = [*bare_python(), "quota_program.py", str(self.notes), str(checkpoints), str(size)]
        self.number = cluster.submit("saver", (
            f"experiment: saver\ncommand: {json.dumps(command)}\n"
            f"space: {{k: {{grid: {list(range(trials))}}}}}\n{options}\n"))

    def show(self, trial: int = 0) -> Any:
        return self.cluster.trial(f"{self.number}/{trial}")

    def committed(self) -> int:
        return len(self.show()["checkpoints"])

    def goes_on(self, trial: int) -> None:
        """The trial reports, and the head accepts it."""
        before = self.show(trial)["step"]
        wait_until(f"trial {trial} goes on", lambda: self.show(trial)["step"] > before + 3,
                   lasting=True)

    def end(self) -> None:
        (self.notes / "end").touch()
        self.cluster.wait_experiment(self.number)

    def check_whole(self) -> int:
        """Every checkpoint that is named can be read; their number."""
        kept = self.show()["checkpoints"]
        for one in kept:
            target = self.cluster.home / f"pulled-{one['step']}"
            self.cluster.bridge([{"op": "blob_pull_dir", "manifest": one["manifest"],
                                  "target": str(target)}])
            assert (target / "step").read_text() == str(one["step"])
            assert (target / "weights").stat().st_size == self.size
        return len(kept)


def store_of(cluster: Cluster) -> Any:
    return cluster.ask("cluster_status")["checkpoint_store"]


def wait_refused(cluster: Cluster) -> Any:
    def refused() -> Any:
        store = store_of(cluster)
        return store if store["refused"] else None
    return wait_until("the store refuses", refused, lasting=True)


class QuotaTest(unittest.TestCase):
    def start(self, **store: str) -> Cluster:
        cluster = Cluster(workers=1)
        self.addCleanup(cluster.close)
        self.before = cluster.yaml.read_text()
        self.configure(cluster, **store)
        return cluster

    def configure(self, cluster: Cluster, **store: str) -> None:
        cluster.yaml.write_text(self.before + f"checkpoint_store: {json.dumps(store)}\n")
        cluster.up()

    def head_log(self, cluster: Cluster) -> str:
        return (cluster.home / "home/clusters/it/head/log").read_text()

    def test_the_trial_goes_on_until_the_quota_is_raised(self) -> None:
        cluster = self.start(quota="1MiB")
        saver = Saver(cluster, checkpoints=5, size=300_000)
        store = wait_refused(cluster)
        self.assertEqual(store["quota_bytes"], 1 << 20)
        self.assertTrue(900_000 < store["used_bytes"] <= 1 << 20, store)
        self.assertIn("of its quota of 1.0 MiB are used", store["reason"])
        self.assertEqual(saver.committed(), 3)
        saver.goes_on(0)
        self.assertEqual(saver.committed(), 3)
        self.assertEqual(saver.show()["state"], "RUNNING")
        self.assertIn(WAITS, cluster.rt("status").stdout)
        doctor = cluster.rt("doctor", check=False)
        self.assertIn(WAITS, doctor.stdout)
        self.assertIn("checkpoint_store/quota", doctor.stdout)
        self.assertEqual(self.head_log(cluster).count(WAITS), 1)
        self.assertEqual(saver.check_whole(), 3)

        self.configure(cluster, quota="512MiB")
        wait_until("what waited is committed", lambda: saver.committed() == 5, lasting=True)
        store = store_of(cluster)
        self.assertEqual((store["refused"], store["reason"]), (False, None))
        self.assertNotIn(WAITS, cluster.rt("status").stdout)
        for path in cluster.home.glob("pulled-*"):
            path.rename(path.with_name("before-" + path.name))

        self.configure(cluster, quota="1MiB")  # Below what is in use: nothing is deleted.
        self.assertGreater(store_of(cluster)["used_bytes"], 1 << 20)
        self.assertEqual(saver.check_whole(), 5)
        saver.goes_on(0)
        saver.end()
        self.assertEqual(saver.show()["attempt"], 1)

    def check_retired(self, **store: str) -> None:
        cluster = self.start(quota="1MiB", keep_garbage="2s", **store)
        saver = Saver(cluster, checkpoints=6, size=400_000,
                      options="checkpoints: {num_to_keep: 1}")
        wait_until("the last is committed", lambda: [
            one["step"] for one in saver.show()["checkpoints"]] == [6], lasting=True)
        self.assertEqual(saver.check_whole(), 1)
        log = self.head_log(cluster)
        self.assertIn(WAITS, log)
        wait_until("there is room", lambda: not store_of(cluster)["refused"], lasting=True)
        self.assertIn(AGAIN, self.head_log(cluster))
        saver.end()

    def test_what_is_retired_makes_room_on_the_heads_disk(self) -> None:
        self.check_retired()

    def test_what_is_retired_makes_room_in_a_directory(self) -> None:
        cluster_dir = pathlib.Path("/tmp") / f"rt-it-store-{os.getpid()}"
        self.addCleanup(shutil.rmtree, cluster_dir, ignore_errors=True)
        self.check_retired(url=str(cluster_dir))

    def test_a_wrong_quota_names_its_line(self) -> None:
        cluster = Cluster(workers=1)
        self.addCleanup(cluster.remove_files)
        with open(cluster.yaml, "a") as file:
            file.write("checkpoint_store:\n  quota: lots\n")
        lines = len(cluster.yaml.read_text().splitlines())
        done = cluster.rt("up", str(cluster.yaml), check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn(f":{lines}:10", done.stderr)


class FullDiskTest(FullDiskCase):
    disk_size = "256m"
    workers, cpus = 1, 4

    def test_the_journal_goes_on_when_checkpoints_fill_its_disk(self) -> None:
        saver = Saver(self.cluster, checkpoints=20, size=16_000_000, trials=2)
        store = wait_refused(self.cluster)
        self.assertIn("are kept free", store["reason"])
        self.assertIsNone(store["quota_bytes"])
        pid = self.cluster.pid("head")
        committed = saver.committed()
        self.assertTrue(5 <= committed < 20, committed)
        saver.goes_on(1)
        self.cluster.rt("token", "create", "--role", "viewer")
        self.assertEqual(self.cluster.pid("head"), pid)
        self.assertGreater(self.free(), 32 << 20)
        self.assertIn(WAITS, self.cluster.rt("status").stdout)

        subprocess.run(["mount", "-o", "remount,size=750m", str(self.disk)], check=True)
        wait_until("what waited is committed", lambda: saver.committed() == 20, lasting=True)
        wait_until("it is seen", lambda: not store_of(self.cluster)["refused"], lasting=True)
        self.assertEqual(saver.check_whole(), 20)
        self.assertEqual(self.cluster.pid("head"), pid)
        saver.end()


if __name__ == "__main__":
    unittest.main()
