"""kill -9 of the head at every step of a scale-up and of a scale-down on EC2: no machine is left,
none is missing, and none is made twice. The steps are the failpoints head.provider.*"""

from __future__ import annotations

import signal
import unittest
from typing import Any

from ec2_cluster import Ec2Case
from harness import wait_until

POINT = "head.provider."
# "K": the K-th batch of records about machines after the head's start.
UP = ["before_append=kill",     # Decided; the journal has no request.
      "before_create=kill",     # The request is in the journal; EC2 was not asked.
      "after_create=kill",      # The instance is there; the head has not heard.
      "before_append=kill@2",   # The head has heard; the journal has not.
      "after_created=kill"]     # The journal knows the instance.
DOWN = ["before_append=kill",   # Decided; the journal has no release.
        "before_terminate=kill",
        "after_terminate=kill",
        "before_append=kill@2",  # The head has heard that it is gone; the journal has not.
        "after_terminated=kill"]


class KillTest(Ec2Case):
    workers_max = 1
    programs_in_image = True

    def wait_killed(self, point: str) -> None:
        wait_until(f"the head dies at {point}", lambda: self.follow() is not None
                   and self.head.poll() == -signal.SIGKILL, 30)

    def restart(self, point: str = "") -> None:
        self.kill_head()
        self.env.pop("RT_FAILPOINTS", None)
        if point:
            self.env["RT_FAILPOINTS"] = POINT + point
        self.run_head()
        wait_until("the head answers",
                   lambda: self.head.poll() is not None or self.rt("status").returncode == 0,
                   lasting=True)

    def pool(self) -> Any:
        return self.json("status")["pools"][0]

    def submit_waiting(self, number: int) -> None:
        """A trial that runs until the file of its round is there. The head may die meanwhile."""
        (self.root / "search.yaml").write_text(
            f"experiment: round{number}\nresources: {{cpu: 1}}\n"
            f"command: [sh, -c, 'while [ ! -e {self.root}/go{number} ]; do sleep 0.05; done']\n")
        self.rt("submit", "--detach", str(self.root / "search.yaml"))

    def is_known(self, number: int) -> bool:
        names = [one["name"] for one in self.json("exp", "list")["items"]]
        return f"round{number}" in names

    def running(self) -> bool:
        there = self.follow()
        self.assertLessEqual(len(there), 1)
        return bool(self.json("exp", "show", "last")["trials_by_state"]["RUNNING"] == 1)

    def is_empty(self) -> bool:
        there, pool = self.follow(), self.pool()
        return not there and pool["nodes"] == pool["requested"] == pool["releasing"] == 0

    def test_a_head_that_is_killed_loses_no_machine_and_makes_none_twice(self) -> None:
        self.start_head([])
        for number, (up, down) in enumerate(zip(UP, DOWN)):
            with self.subTest(up=up, down=down):
                self.restart(up)
                self.submit_waiting(number)
                self.wait_killed(up)
                self.restart()
                if not self.is_known(number):  # The same batch of the journal had it.
                    self.submit_waiting(number)
                wait_until(f"the trial runs after {up}", self.running, 30, lasting=True)
                self.restart(down)
                (self.root / f"go{number}").touch()
                self.wait_killed(down)
                self.restart()
                wait_until(f"nothing is left after {down}", self.is_empty, 30, lasting=True)
                self.assertEqual(self.json("exp", "show", "last")["state"], "COMPLETED")
                self.assertEqual(len(self.instances()), number + 1)  # One for each round.


if __name__ == "__main__":
    unittest.main()
