"""A cluster of two nodes, and one rank's script that notes in files what it did."""

from __future__ import annotations

import pathlib
import sys
import unittest
from typing import Any

from harness import Cluster


class RankScriptTest(unittest.TestCase):
    script = ""  # Its text. Its first argument is the directory `files`.
    cpus = 1  # Of each node.
    more_of_cluster = ""  # Further lines of its YAML.

    cluster: Cluster
    files: pathlib.Path

    def setUp(self) -> None:
        self.cluster = Cluster(workers=2, cpus=self.cpus)
        self.addCleanup(self.cluster.close)
        with open(self.cluster.yaml, "a") as file:
            file.write(self.more_of_cluster)
        self.cluster.up()
        (self.cluster.work / "rank.py").write_text(self.script)
        self.files = self.cluster.home / "files"
        self.files.mkdir()

    def submit_ranks(self, name: str, resources: str, more: str = "") -> int:
        return self.cluster.submit(name, f"""
experiment: {name}
command: [{sys.executable}, rank.py, {self.files}]
resources: {resources}
{more}""")

    def show(self, number: int) -> Any:
        return self.cluster.json("trial", "show", f"{number}/0")
