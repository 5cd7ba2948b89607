"""`rt status` on a cluster with a long history."""

import unittest

from harness import ClusterTest, wait_until

OVER_MAX = 100  # limits::kStatusOverMax


class StatusTest(ClusterTest):
    workers = 1

    def test_old_experiments_are_left_out_unless_all_are_asked_for(self) -> None:
        spec = {"experiment": "short", "command": ["true"]}
        count = OVER_MAX + 3
        ids = [made["experiment_id"] for made in self.cluster.bridge(
            [{"op": "experiment_create", "spec": spec, "key": str(i)} for i in range(count)])]
        wait_until("all are over", lambda: all(
            item["state"] == "COMPLETED" for item in self.cluster.json("exp", "list")["items"]))
        status = self.cluster.json("status")
        self.assertEqual([item["id"] for item in status["experiments"]], ids[3:])
        self.assertEqual((status["experiments_left_out"], status["jobs_left_out"]), (3, 0))
        self.assertIn(f"and {count - 5} more: rt status --all", self.cluster.rt("status").stdout)
        whole = self.cluster.json("status", "--all")
        self.assertEqual([item["id"] for item in whole["experiments"]], ids)
        self.assertEqual(whole["experiments_left_out"], 0)
        self.assertNotIn("more:", self.cluster.rt("status", "--all").stdout)
        # A driver finds a search however old it is.
        (seen,) = self.cluster.bridge([{"op": "cluster_status"}])
        self.assertEqual([item["id"] for item in seen["experiments"]], ids)


if __name__ == "__main__":
    unittest.main()
