"""Checkpoints in a bucket (moto, signatures checked) and in a directory of their own: through the
loss of the head and of a node, and with what was retired swept away."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import unittest
import urllib.parse
from typing import Any

from checks import Search
from harness import ROOT, Cluster, wait_until

VENV = ROOT / "build/venv/bin/python"
LIST = """
import boto3, json, sys
client = boto3.client("s3", endpoint_url=sys.argv[1])
pages = client.get_paginator("list_objects_v2").paginate(Bucket="rt-test", Prefix=sys.argv[2])
print(json.dumps([one["Key"] for page in pages for one in page.get("Contents", [])]))
"""


class Bucket:
    """A service of its own for one test."""

    def __init__(self) -> None:
        self.server = subprocess.Popen([VENV, ROOT / "tests/contract/bucket.py"], text=True,
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.server.stdout is not None
        told = json.loads(self.server.stdout.readline())
        self.endpoint: str = told["endpoint"]
        self.environment: dict[str, str] = told["environment"]

    def keys(self, prefix: str) -> list[str]:
        done = subprocess.run([VENV, "-c", LIST, self.endpoint, prefix], text=True, check=True,
                              capture_output=True, env={**os.environ, **self.environment})
        return list(json.loads(done.stdout))

    def close(self) -> None:
        assert self.server.stdin is not None and self.server.stdout is not None
        self.server.stdin.close()
        self.server.wait(timeout=30)
        self.server.stdout.close()


class StoreTest(unittest.TestCase):
    def start(self, store: dict[str, Any], environment: dict[str, str]) -> Cluster:
        cluster = Cluster(workers=2)
        self.addCleanup(cluster.close)
        cluster.env.update(environment)
        with open(cluster.yaml, "a") as file:
            file.write(f"checkpoint_store: {json.dumps(store)}\n")
        return cluster

    def check_kept(self, cluster: Cluster, search: Search) -> set[str]:
        """Every checkpoint that the state names comes back whole; their manifests."""
        manifests = set()
        for number in range(search.trials):
            for one in cluster.trial(f"{search.number}/{number}")["checkpoints"]:
                target = cluster.home / f"pulled-{number}-{one['step']}"
                cluster.bridge([{"op": "blob_pull_dir", "manifest": one["manifest"],
                                 "target": str(target)}])
                self.assertEqual((target / "step").read_text(), str(one["step"]))
                self.assertEqual((target / "weights").stat().st_size, 10_000)
                manifests.add(one["manifest"])
        return manifests

    def outputs(self, cluster: Cluster, search: Search) -> set[str]:
        """The manifests of what the trials wrote in their working directories."""
        found = set()
        for number in range(search.trials):
            outputs = cluster.trial(f"{search.number}/{number}")["outputs"]
            found |= {outputs["manifest"], *outputs["parts"]} if outputs else set()
        return found

    def test_a_search_in_a_bucket_outlives_head_and_node(self) -> None:
        bucket = Bucket()
        self.addCleanup(bucket.close)
        cluster = self.start({"url": "s3://rt-test/lab/one", "endpoint": bucket.endpoint,
                              "keep_garbage": "2s"}, bucket.environment)
        cluster.up()
        search = Search(cluster, "bucket", trials=8, steps=16, checkpoint_every=2,
                        options="checkpoints: {num_to_keep: 2}")
        search.submit()
        search.wait_done(1)
        cluster.kill("head")
        wait_until("the search goes on", lambda: cluster.rt(
            "exp", "show", str(search.number), check=False).returncode == 0)
        # With its daemon gone nobody saw the program's end: it is the machine's loss.
        caught = search.catch(committed=1, node=cluster.node("worker-1")["id"])
        cluster.kill("worker-1")
        os.kill(caught["pid"], 9)
        search.check(restarted=None)
        kept = self.check_kept(cluster, search)
        self.assertEqual(len(kept), 16)
        blobs = cluster.home / "home/clusters/it/head/blobs"
        self.assertFalse(blobs.exists(), "the head stored something beside the bucket")

        def swept() -> bool:
            keys = bucket.keys("lab/one/manifests/")
            names = {urllib.parse.unquote(key).rsplit("/", 1)[1].replace("-", ":") for key in keys}
            self.assertLessEqual(kept, names)
            return len(names - self.outputs(cluster, search)) <= len(kept) + 1  # And the bundle.
        wait_until("what was retired is swept", swept)
        for path in cluster.home.glob("pulled-*"):
            path.rename(path.with_name("before-" + path.name))
        self.check_kept(cluster, search)

        other = self.start({"url": "s3://rt-test/lab/one", "endpoint": bucket.endpoint},
                           bucket.environment)
        refused = other.rt("up", str(other.yaml), check=False)
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("belongs to the cluster", refused.stderr + other.logs())

    def test_a_directory_of_its_own(self) -> None:
        cluster = Cluster(workers=1)
        self.addCleanup(cluster.close)
        place = cluster.home / "mounted/checkpoints"
        with open(cluster.yaml, "a") as file:
            file.write(f"checkpoint_store: {place}\n")
        cluster.up()
        search = Search(cluster, "directory", trials=3, steps=6, pause_s=0.0, checkpoint_every=2,
                        options="checkpoints: {num_to_keep: 1}")
        search.submit()
        search.check()
        self.assertEqual(len(self.check_kept(cluster, search)), 3)
        found = {path.name for path in pathlib.Path(place, "objects").iterdir()}
        self.assertLessEqual({"manifests+", "packs+", "cluster"}, found)

    def test_a_wrong_key_is_said_at_the_start(self) -> None:
        bucket = Bucket()
        self.addCleanup(bucket.close)
        cluster = self.start({"url": "s3://rt-test/lab", "endpoint": bucket.endpoint},
                             {**bucket.environment, "AWS_SECRET_ACCESS_KEY": "not-it"})
        refused = cluster.rt("up", str(cluster.yaml), check=False)
        self.assertNotEqual(refused.returncode, 0)
        said = refused.stderr + cluster.logs()
        self.assertIn("the access key or its secret is wrong", said)
        self.assertNotIn("not-it", said)


if __name__ == "__main__":
    unittest.main()
