"""`rt node forget`: a LOST node leaves the cluster, and its worker can only join again."""

import json
import shutil
import signal
import unittest

from harness import wait_until
from own_worker import OwnWorkerCase


class ForgetTest(OwnWorkerCase):
    def doctor(self) -> list[str]:
        """The checks of `rt doctor` that fail."""
        done = json.loads(self.cluster.rt("doctor", "-o", "json", check=False).stdout)
        return [one["check"] for one in done["items"] if one["status"] == "fail"]

    def test_only_a_lost_node_is_forgotten(self) -> None:
        self.start_worker()
        number = self.sleepers(2)
        old = self.processes(number)
        refused = self.cluster.rt("node", "forget", "far", check=False)
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("node far is READY: only a LOST node can be forgotten", refused.stderr)
        self.assertIn("stop its worker first", refused.stderr)
        self.stop_worker(signal.SIGKILL)
        lost = self.wait_state("LOST")
        self.assertIsNotNone(lost["last_seen_at"])
        self.assertIn("node far", self.doctor())
        said = self.cluster.json("node", "forget", "far")
        self.assertEqual(said, {"schema": 1, "action": "forget", "items": [
            {"id": lost["id"], "kind": "node", "state": "GONE"}]})
        self.assertNotIn("node far", self.doctor())
        self.assertNotIn("far", self.cluster.rt("node", "list").stdout)
        again = self.cluster.rt("node", "forget", str(lost["id"]), check=False)
        self.assertNotEqual(again.returncode, 0)
        # It comes back after all, with what it ran: that is ended, and nothing of it counts.
        self.assertTrue(all(self.lives(pid) for _, pid in old.values()))
        self.start_worker()
        wait_until("it hears that it is not part of the cluster",
                   lambda: "this node is not part of the cluster" in self.log())
        self.assertIn("To join again, stop this worker", self.log())
        wait_until("what it ran is ended",
                   lambda: not any(self.lives(pid) for _, pid in old.values()))
        self.assertEqual(self.cluster.json("node", "show", str(lost["id"]))["state"], "GONE")
        self.stop_worker()
        # It joins again as another node, and the trials run there.
        shutil.rmtree(self.folder / "credentials")
        self.token.write_text(self.cluster.rt("token", "create", "--role", "worker").stdout)
        self.start_worker()
        self.assertGreater(self.wait_state("READY")["id"], lost["id"])
        wait_until("they run again", lambda: len(self.processes(number)) == 2)
        self.assertEqual([attempt for attempt, _ in self.processes(number).values()], [2, 2])
        self.cluster.rt("exp", "stop", str(number))
        self.cluster.wait_experiment(number)
        self.cluster.wait_no_trials()


if __name__ == "__main__":
    unittest.main()
