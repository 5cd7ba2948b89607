"""Everyday care: doctor, plan, completion as a real bash does it, manual pages, an installation."""

import json
import os
import pathlib
import shutil
import subprocess
import unittest

from harness import BIN, ClusterTest
from pseudo_terminal import Terminal

SEARCH = """
experiment: sweep
command: [./train, "${x}"]
space: {x: {grid: [1, 2, 3]}}
num_samples: 9
metric: loss
scheduler: {asha: {max_t: 27, reduction_factor: 3}}
"""


class CareTest(ClusterTest):
    workers = 1

    def findings(self, *args: str, code: int = 0) -> dict[str, dict]:
        done = self.cluster.rt("doctor", "-o", "json", *args, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        reply = json.loads(done.stdout)
        self.assertEqual((reply["schema"], reply["next"]), (1, None))
        for item in reply["items"]:
            self.assertEqual(set(item), {"check", "status", "message", "hint"})
            self.assertIn(item["status"], ("ok", "warn", "fail"))
            self.assertEqual(item["status"] == "ok", item["hint"] is None, item)
        return {item["check"]: item for item in reply["items"]}

    def test_doctor_of_a_cluster_that_is_well(self) -> None:
        found = self.findings()
        self.assertLessEqual({"programs", "python", "disk", "cgroup", "gpu", "limits", "ports",
                              "certificates", "port", "versions", "clocks", "journal", "nodes"},
                             set(found))
        for check in ("programs", "certificates", "port", "versions", "clocks", "nodes"):
            self.assertEqual(found[check]["status"], "ok", found[check])
        text = self.cluster.rt("doctor").stdout
        self.assertRegex(text, r"(?m)^ok    nodes +1 of 1 nodes are READY, with healthy gpus$")

    def test_doctor_says_what_fails_and_what_to_do(self) -> None:
        context = self.cluster.home / "home/clusters/gone/context"
        shutil.copytree(self.cluster.home / "home/clusters/it/head/admin", context)
        self.addCleanup(shutil.rmtree, context.parent)
        path = context / "context.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "address": "127.0.0.1:1"}))
        found = self.findings("-c", "gone", code=1)
        self.assertEqual(found["port"]["status"], "fail")
        self.assertIn("cannot be reached", found["port"]["message"])
        found = self.findings("-c", "nobody", code=1)
        self.assertEqual(found["cluster"]["status"], "fail")
        done = self.cluster.rt("doctor", "-c", "nobody", check=False)
        self.assertRegex(done.stdout, r"(?m)^fail  cluster +there is no cluster 'nobody'; known: ")

    def test_plan(self) -> None:
        path = self.cluster.work / "sweep.yaml"
        path.write_text(SEARCH)
        plan = self.cluster.json("plan", str(path))
        self.assertEqual((plan["trials"], plan["side_by_side"]), (27, 2))
        self.assertEqual([(rung["milestone"], rung["trials"])
                          for rung in plan["brackets"][0]["rungs"]],
                         [(1, 27), (3, 9), (9, 3), (27, 1)])
        self.assertIn("nothing was started", self.cluster.rt("plan", str(path)).stdout)
        plan = self.cluster.json("plan", str(self.cluster.yaml))
        self.assertEqual((plan["kind"], plan["cost_per_hour"]), ("cluster", 0))
        self.assertEqual([node["resources"] for node in plan["nodes"]], ["cpu=2"])
        self.assertEqual(self.cluster.experiments(), [])
        path.write_text(SEARCH.replace("num_samples", "num_sampels"))
        done = self.cluster.rt("plan", str(path), check=False)
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, r"sweep\.yaml:5:1: .*num_sampels")

    def test_completion_in_a_real_bash(self) -> None:
        env = {**self.cluster.env, "PATH": f"{BIN}:{os.environ['PATH']}", "INPUTRC": "/dev/null"}
        (self.cluster.work / "rc").write_text("PS1='> '\nsource <(rt completion bash)\n")
        for typed, wanted in (("rt exp expo", "rt exp export"),
                              ("rt exp export --form", "rt exp export --format"),
                              ("rt exp export --format c", "rt exp export --format csv"),
                              ("rt -o qui", "rt -o quiet"), ("rt -c i", "rt -c it"),
                              ("rt context use i", "rt context use it"),
                              ("rt token create --role vie", "rt token create --role viewer"),
                              ("rt t wh", "rt t why"), ("rt plan clus", "rt plan cluster.yaml")):
            terminal = Terminal(["bash", "--rcfile", "rc", "-i"], env, self.cluster.work)
            self.addCleanup(terminal.close)
            # What is typed before the prompt is echoed by others than readline.
            terminal.wait_for("a prompt", lambda lines: lines[0] == ">")
            terminal.type(typed + "\t")
            terminal.wait_for(f"{typed!r} becomes {wanted!r}",
                              lambda lines, wanted=wanted: lines[0] == "> " + wanted)

    def test_what_an_installation_has(self) -> None:
        target = self.cluster.home / "installed"
        done = subprocess.run(["cmake", "--install", str(BIN.parent), "--prefix", str(target)],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        files = {str(path.relative_to(target)) for path in target.rglob("*") if path.is_file()}
        self.assertLessEqual({"bin/rt", "bin/rt-cli", "bin/rt-head", "bin/rt-worker", "bin/rt-shim",
                              "include/rt/trial_client.h", "share/man/man1/rt.1",
                              "share/man/man1/rt-exp-export.1",
                              "share/bash-completion/completions/rt"}, files)
        page = pathlib.Path(target / "share/man/man1/rt-exp-export.1").read_text()
        self.assertIn("Usage: rt exp export [OPTIONS]", page)
        said = subprocess.run([str(target / "bin/rt"), "--version"], capture_output=True, text=True)
        self.assertRegex(said.stdout, r"^rt \d")


if __name__ == "__main__":
    unittest.main()
