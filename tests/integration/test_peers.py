"""Workers that fetch the same bytes at the same time from each other, and are killed meanwhile."""

import hashlib
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import unittest
from typing import Any

from harness import Cluster, wait_until

MIB = 1 << 20
WORKERS = 6


def sent_by(port: str) -> int:
    """Bytes that the listener of that port has sent over the connections that are open."""
    text = subprocess.run(["ss", "-tinOH", "state", "established", f"( sport = :{port} )"],
                          capture_output=True, text=True, check=True).stdout
    return sum(int(number) for number in re.findall(r"bytes_sent:(\d+)", text))


class PeersTest(unittest.TestCase):
    def setUp(self) -> None:
        self.cluster = Cluster(workers=WORKERS, cpus=1)
        self.addCleanup(self.cluster.close)
        self.cluster.up()

    def push(self, mib: int) -> tuple[str, str]:
        """The manifest of a tree of one file, and the file's hash."""
        tree = self.cluster.home / "model"
        tree.mkdir()
        source, digest = random.Random(7), hashlib.sha256()
        with open(tree / "weights", "wb") as file:
            for _ in range(mib // 4):
                piece = source.randbytes(4 * MIB)
                digest.update(piece)
                file.write(piece)
        result = self.cluster.bridge([{"op": "blob_push_dir", "path": str(tree)}])[0]
        return result["manifest"], digest.hexdigest()

    def search(self, manifest: str, sha: str) -> int:
        """One trial for each worker, which fails without the right bytes."""
        check = f'test "$(sha256sum < "$MODEL/weights" | cut -d" " -f1)" = {sha} && sleep 1'
        return self.cluster.submit("use", (
            f"experiment: use\ncommand: {json.dumps(['sh', '-c', check])}\n"
            f"inputs: [{{manifest: '{manifest}', env: MODEL}}]\n"
            f"space: {{k: {{grid: {list(range(WORKERS))}}}}}\n"))

    def parts(self) -> dict[pathlib.Path, int]:
        """The trees that are being fetched, by worker, with the bytes that have come."""
        found = {}
        for worker in (self.cluster.home / "home/clusters/it").glob("worker-*"):
            for part in worker.glob("cache/*.part/weights"):
                try:
                    found[worker] = part.stat().st_size
                except FileNotFoundError:
                    continue
        return found

    def check_done(self, number: int) -> list[Any]:
        ended = self.cluster.wait_experiment(number)
        self.assertEqual(ended["trials_by_state"]["COMPLETED"], WORKERS, self.cluster.logs())
        return self.cluster.trials(number)

    def test_many_workers_take_one_copy_from_the_head(self) -> None:
        manifest, sha = self.push(64)
        address = (self.cluster.home / "home/clusters/it/head/address").read_text().strip()
        port = address.rsplit(":", 1)[1]
        before = sent_by(port)
        trials = self.check_done(self.search(manifest, sha))
        self.assertEqual(len({trial["node_ids"][0] for trial in trials}), WORKERS)
        self.assertLess(sent_by(port) - before, 2 * 64 * MIB)

    def test_workers_that_are_killed_while_they_serve(self) -> None:
        manifest, sha = self.push(192)
        number = self.search(manifest, sha)
        killed = 0
        for _ in range(3):
            busy = wait_until("one has a part of it", lambda: [
                worker for worker, size in self.parts().items() if size > 16 * MIB])
            worker = max(busy, key=lambda one: self.parts().get(one, 0))
            before = self.cluster.pid(worker.name)
            try:
                os.kill(before, signal.SIGKILL)
            except ProcessLookupError:
                continue
            killed += 1
            wait_until("it is back", lambda: self.cluster.pid(worker.name) != before)
        self.assertGreater(killed, 0)
        for trial in self.check_done(number):
            self.assertEqual(trial["failures"], 0)


if __name__ == "__main__":
    unittest.main()
