"""What is written wrongly in an experiment YAML: said with its place, before anything starts."""

import json
import sys
import unittest
from typing import Any

from harness import ClusterTest

HEAD = f"experiment: {{name}}\ncommand: [{sys.executable}, -c, pass]\n"


class WrittenTest(ClusterTest):
    workers = 1

    def write(self, text: str, name: str = "e.yaml") -> str:
        (self.cluster.work / name).write_text(HEAD.format(name=name) + text)
        return name

    def refused(self, text: str, *verb: str) -> Any:
        done = self.cluster.rt(*(verb or ("plan",)), self.write(text), "-o", "json", check=False)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        return json.loads(done.stderr)["error"]

    def test_slips_are_refused_with_their_place(self) -> None:
        for verb in (("plan",), ("submit", "--detach")):
            for text, hint, line, column in (
                    ("space: {lr: {loguniorm: [1, 2]}}\n", "loguniform", 3, 14),
                    ("space:\n  a:\n    grid_searh: [1, 2]\n", "grid_search", 5, 5),
                    ("resources: {cpus: 1}\n", "cpu", 3, 13)):
                error = self.refused(text, *verb)
                self.assertIn(f"did you mean '{hint}'?", error["hint"])
                self.assertEqual((error["file"], error["line"], error["column"]),
                                 ("e.yaml", line, column))
        self.assertEqual(self.refused("mode: min\n")["line"], 3)
        names = [item["name"] for item in self.cluster.json("exp", "list")["items"]]
        self.assertNotIn("e.yaml", names)

    def test_bytes_that_are_no_text_are_named(self) -> None:
        (self.cluster.work / "latin.yaml").write_bytes(b"experiment: e\n# caf\xe9\n")
        done = self.cluster.rt("plan", "latin.yaml", check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("latin.yaml:2:6: not a text in UTF-8: byte 0xe9", done.stderr)

    def test_a_list_that_is_a_constant_is_said_by_plan_and_submit(self) -> None:
        name = self.write("space: {lr: [1, 2, 3], n: {choice: [4, 5]}}\n", "lists.yaml")
        plan = self.cluster.json("plan", name)
        self.assertEqual([(one["name"], one["kind"], one["values"]) for one in plan["space"]],
                         [("lr", "constant", [[1, 2, 3]]), ("n", "choice", [4, 5])])
        self.assertEqual(len(plan["notes"]), 1)
        note = "lists.yaml:3: lr is the same list in every trial; to draw one of its values"
        self.assertIn(note, plan["notes"][0])
        self.assertIn(note, self.cluster.rt("plan", name).stdout)
        done = self.cluster.rt("submit", name)
        self.assertIn("rt: note: " + note, done.stderr)
        self.assertIn("{choice: [1,2,3]}, to try each {grid: [1,2,3]}", done.stderr)
        params = self.cluster.json("trial", "show", "last")["params"]
        self.assertEqual(params["lr"], [1, 2, 3])


if __name__ == "__main__":
    unittest.main()
