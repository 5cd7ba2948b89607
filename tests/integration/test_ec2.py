"""A head whose machines come from EC2, from their first call to their end (ec2_cluster.py)."""

from __future__ import annotations

import unittest

from ec2_cluster import Ec2Case
from harness import wait_until

class Ec2Test(Ec2Case):
    def test_machines_come_with_the_work_and_go_after_it(self) -> None:
        # The token is spent before: setup commands may take longer than it lives.
        self.start_head(["echo \"$FROM_PROFILE\" >>set-up", "test -s set-up",
                         "test -s ~/../var/lib/rt-worker/credentials/cert.pem"])
        self.assertEqual(self.instances(), [])
        self.submit()

        def over() -> bool:
            self.follow()
            return bool(self.json("exp", "show", "last")["state"] in ("COMPLETED", "FAILED"))

        try:
            wait_until("the search is over", over, 90, lasting=True)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.logs()}") from None
        self.assertEqual(self.json("exp", "show", "last")["state"], "COMPLETED")
        self.assertLessEqual(len(self.machines), 2)
        names = {one["name"] for one in self.json("node", "list")["items"]}
        self.assertGreaterEqual(len(names), 1)
        wait_until("idle machines are terminated", lambda: not self.follow(), 60,
                   lasting=True)
        # One run for each trial; one more for each attempt that was lost with a machine that stood
        # still for too long.
        seen = (self.root / "seen").read_text().splitlines()
        attempts = [self.json("trial", "show", f"1/{number}")["attempts"] for number in range(3)]
        self.assertEqual(set(seen), {"from the profile"})
        self.assertGreaterEqual(len(seen), 3)
        self.assertLessEqual(len(seen), sum(map(len, attempts)), attempts)
        for machine in self.machines.values():
            self.assertTrue((machine.root / "opt/rt/bin/rt-worker").exists())
            self.assertEqual((machine.home / "set-up").read_text(), "from the profile\n")

    def test_a_machine_whose_setup_fails_is_quarantined_with_its_log(self) -> None:
        self.start_head(["echo no such wheel; exit 4", "touch never"], idle_timeout_s=600)
        self.submit()

        def why() -> str:
            self.follow()
            nodes = self.json("node", "list")["items"]
            return self.rt("node", "why", nodes[0]["name"]).stdout if nodes else ""

        wait_until("the node says why", lambda: "no such wheel" in why(), 60, lasting=True)
        self.assertIn("ended with exit code 4", why())
        for machine in self.machines.values():
            self.assertFalse((machine.home / "never").exists())


if __name__ == "__main__":
    unittest.main()
