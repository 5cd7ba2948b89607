"""Parties are killed in the middle of resizes of an elastic run, and no bit of it changes."""

import os
import pathlib
import signal
import unittest
from typing import Any

from harness import wait_until
from test_elastic import TRAIN, ElasticRun
from test_train import HAS_TORCH

# A generation in whose beginning somebody is killed makes no step before that.
GATED = """
while (files / f"gate-{attempt}-{generation}").exists():
    time.sleep(0.005)
"""


@unittest.skipUnless(HAS_TORCH, "torch==2.13.0 is not installed in build/venv")
class ElasticKillsTest(ElasticRun):
    """With one batch, whose gradients are added in a fixed order, at each size."""

    train = TRAIN.replace("turn < 2", "turn < 3").replace("held = mode", GATED + "held = mode")

    def begins(self, generation: int, ranks: int) -> list[Any]:
        """The members of a generation whose processes run, and have not made a step."""
        def live() -> Any:
            last = self.trial("killed")["attempts"][-1]
            members = last["members"]
            is_it = (last["generation"], len(members)) == (generation, ranks)
            return members if is_it and all(one["pid"] for one in members) else None

        members: list[Any] = wait_until(f"generation {generation} starts", live, 120)
        return members

    def resize(self, turn: int, ranks: int) -> None:
        """Asked for while the script stands in the middle of an epoch."""
        self.held(turn)
        self.cluster.rt("trial", "resize", self.trial("killed")["id"], "--ranks", str(ranks),
                        timeout=120)

    def gate(self, generation: int) -> pathlib.Path:
        return pathlib.Path(self.files / f"gate-1-{generation}")

    def check_in_the_middle(self, generation: int) -> None:
        self.assertFalse((self.files / f"steps-1-{generation}-0").exists(), "it has begun already")

    def test_kills_in_the_middle_of_resizes_change_no_bit(self) -> None:
        client = self.start("whole", "resize", 1)
        for turn in range(3):
            (self.files / f"go-{turn}").touch()
        expected = self.end(client, "whole")
        client = self.start("killed", "resize", 1)
        for generation in (3, 4):
            self.gate(generation).touch()
        self.resize(0, 2)
        self.cluster.kill("head")  # Rank 0 is asked to save.
        (self.files / "go-0").touch()
        self.resize(1, 1)
        (self.files / "go-1").touch()
        self.begins(3, 1)
        for part in ("worker-1", "worker-2"):
            self.cluster.kill(part)
        self.check_in_the_middle(3)
        self.gate(3).unlink()
        self.resize(2, 2)
        (self.files / "go-2").touch()
        os.kill(self.begins(4, 2)[1]["pid"], signal.SIGKILL)
        self.check_in_the_middle(4)
        self.assertEqual(self.end(client, "killed"), expected)
        shown = self.trial("killed")
        self.assertEqual(shown["failures"], 1)
        self.assertEqual([(one["generation"], len(one["members"]), one["outcome"])
                          for one in shown["attempts"]][:3],
                         [(1, 1, "RESIZED"), (2, 2, "RESIZED"), (3, 1, "RESIZED")])
        self.assertEqual(shown["attempts"][-1]["outcome"], "SUCCEEDED")
        self.assertEqual(len(shown["attempts"][-1]["members"]), 2)


if __name__ == "__main__":
    unittest.main()
