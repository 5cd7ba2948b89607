"""Lists with more items than a message holds: each command gets them in pages."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import unittest
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "attack"))

from harness import BIN  # noqa: E402
from http2 import Connection, bytes_field, tls_context  # noqa: E402
from test_security import Site  # noqa: E402

# Each of both lists is more than 4 MiB. Experiments that are open cost the head more than jobs.
JOBS, EXPERIMENTS = 10_200, 4_600
AT_ONCE = 200  # Calls: the head makes their records durable together.
JOB = json.dumps({"name": "one of very many jobs", "argv": ["true", "x" * 160]}).encode()
EXPERIMENT = json.dumps({"experiment": "e" * 190, "command": ["true"], "metric": "m" * 250,
                         "mode": "min", "space": {"x": {"uniform": [0, 1]}}}).encode()


class LongListsTest(unittest.TestCase):
    """A head without nodes: what is submitted waits, and stays in the lists."""

    site: Site

    @classmethod
    def setUpClass(cls) -> None:
        cls.site = Site()
        cls.addClassCleanup(cls.site.close)
        state = cls.site.head()
        cls.site.rt("context", "add", "lab", "--from", str(state / "admin"))
        context = tls_context(state / "admin", state / "admin/ca.pem")

        with Connection(cls.site.address(), context, timeout=120) as connection:
            for path, spec, count in (("JobService/Submit", JOB, JOBS),
                                      ("ExperimentService/Create", EXPERIMENT, EXPERIMENTS)):
                for _ in range(count // AT_ONCE):
                    before = len(connection.statuses)
                    connection.begin_many(f"/rt.v1.{path}", bytes_field(1, spec), AT_ONCE)
                    while len(connection.statuses) < before + AT_ONCE:
                        connection.take(*connection.next_frame())
            assert set(connection.statuses.values()) == {0}, connection.statuses

    def json(self, *words: str) -> Any:
        return json.loads(self.site.rt(*words, "-o", "json").stdout)

    def test_a_list_is_whole_and_ascends(self) -> None:
        for noun, count in (("job", JOBS), ("exp", EXPERIMENTS)):
            items = self.json(noun, "list")
            self.assertEqual([item["id"] for item in items["items"]], list(range(1, count + 1)))
            self.assertIsNone(items["next"])

    def test_pages_of_a_list_follow_each_other(self) -> None:
        for noun, count in (("job", JOBS), ("exp", EXPERIMENTS)):
            start = count - 1_200
            page = self.json(noun, "list", "--limit", "700", "--after", str(start))
            ids = [item["id"] for item in page["items"]]
            self.assertEqual(ids, list(range(start + 1, start + 701)))
            self.assertEqual(page["next"], str(start + 700))
            page = self.json(noun, "list", "--limit", "700", "--after", page["next"])
            ids = [item["id"] for item in page["items"]]
            self.assertEqual((ids, page["next"]), (list(range(start + 701, count + 1)), None))
            none = self.json(noun, "list", "--state", "running")
            self.assertEqual((none["items"], none["next"]), ([], None))

    def test_status_and_selectors_know_all_of_them(self) -> None:
        status = self.json("status")
        self.assertEqual(status["jobs_left_out"], JOBS - len(status["jobs"]))
        waiting = sum(item["count"] for item in status["waiting"])
        self.assertEqual(waiting + status["waiting_left_out"], JOBS + EXPERIMENTS)
        self.assertIn("more that wait", self.site.rt("status").stdout)
        status = self.json("status", "--all")
        self.assertEqual((len(status["experiments"]), len(status["jobs"])), (EXPERIMENTS, JOBS))
        self.assertEqual(self.json("job", "show", "last")["id"], JOBS)
        self.assertEqual(self.json("exp", "show", "3199")["id"], 3199)

    def test_a_driver_turns_the_pages(self) -> None:
        lines = [{"id": 1, "op": "experiment_list", "from": EXPERIMENTS - 100},
                 {"id": 2, "op": "job_list", "from": 10_100, "limit": 7},
                 {"id": 3, "op": "cluster_status"}]
        answers = {}
        with subprocess.Popen([str(BIN / "rt"), "-c", "lab", "bridge"], env=self.site.env,
                              text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as bridge:
            assert bridge.stdin is not None and bridge.stdout is not None
            for line in lines:  # The end of its input would end what is under way.
                bridge.stdin.write(json.dumps(line) + "\n")
                bridge.stdin.flush()
                answer = json.loads(bridge.stdout.readline())
                self.assertTrue(answer["ok"], answer)
                answers[answer["id"]] = answer["result"]
            bridge.stdin.close()
        ids = [item["id"] for item in answers[1]["items"]]
        self.assertEqual(ids, list(range(EXPERIMENTS - 100, EXPERIMENTS + 1)))
        self.assertIsNone(answers[1]["next"])
        ids = [item["id"] for item in answers[2]["items"]]
        self.assertEqual((ids, answers[2]["next"]), (list(range(10_100, 10_107)), 10_107))
        # What drivers of 0.1 ask for stays below the bound of a message.
        self.assertEqual(answers[3]["jobs_left_out"], JOBS - len(answers[3]["jobs"]))
        self.assertGreater(len(answers[3]["jobs"]), 500)


if __name__ == "__main__":
    unittest.main()
