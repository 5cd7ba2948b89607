"""Mistakes of every kind: the exit code, the place, and a hint that helps."""

import json
import os
import sys
import textwrap
import unittest
from typing import Any

from harness import Cluster

HEAD = "cluster_name: it\nprovider: {type: local}\n"
OLD_FORM = HEAD + """
min_workers: 1
max_workers: 1
initial_workers: 1
autoscaling_mode: default
target_utilization_fraction: 0.8
idle_timeout_minutes: 5
auth: {ssh_user: ubuntu}
docker: {image: "", container_name: ""}
head_node: {InstanceType: m5.large}
worker_nodes: {InstanceType: m5.large}
file_mounts: {}
setup_commands: []
head_setup_commands: []
worker_setup_commands: []
head_start_ray_commands: [ray stop, ray start --head]
worker_start_ray_commands: [ray stop]
"""
NEW_FORM = HEAD + """
max_workers: 1
upscaling_speed: 1.0
head_node_type: head
available_node_types:
  head: {resources: {CPU: 0}, node_config: {}}
  worker: {min_workers: 1, max_workers: 1, resources: {CPU: 3, GPU: 2, blue: 1}, node_config: {}}
rsync_exclude: ["**/.git"]
"""


class FilesTest(unittest.TestCase):
    """Nothing is started: every mistake is found on the client."""

    cluster: Cluster

    @classmethod
    def setUpClass(cls) -> None:
        cls.cluster = Cluster()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.cluster.close()

    def refuse(self, text: str | bytes, *parts: str, verb: str = "submit", code: int = 2) -> str:
        path = self.cluster.work / "bad.yaml"
        path.write_bytes(text if isinstance(text, bytes) else textwrap.dedent(text).encode())
        done = self.cluster.rt(verb, "bad.yaml", check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        for part in parts:
            self.assertIn(part, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertFalse((self.cluster.home / "home/clusters").exists())
        return done.stderr

    def test_an_unknown_key_is_shown_with_a_caret_and_a_suggestion(self) -> None:
        text = self.refuse("experiment: e\ncommand: [x]\nnum_sampels: 3\n", "bad.yaml:3:1: ")
        self.assertEqual(text.splitlines()[1:], ["  num_sampels: 3", "  ^",
                                                 "hint: did you mean 'num_samples'?"])
        text = self.refuse("experiment: e\ncommand: [x]\nscheduler: {asha: {max_y: 3}}\n",
                           "bad.yaml:3:20: ", "did you mean 'max_t'?")
        self.assertEqual(text.splitlines()[2].index("^"), 2 + 19)
        self.refuse(HEAD + "max_worker: 2\n", "bad.yaml:3:1", "did you mean 'max_workers'?",
                    verb="up")
        self.refuse(HEAD + "available_node_types:\n  a: {resorces: {CPU: 1}}\n", "bad.yaml:4:7",
                    "did you mean 'resources'?", verb="up")

    def test_the_same_as_json(self) -> None:
        (self.cluster.work / "bad.yaml").write_text("experiment: e\ncommand: [x]\nmode: mx\n")
        done = self.cluster.rt("submit", "bad.yaml", "-o", "json", check=False)
        error = json.loads(done.stderr)["error"]
        self.assertEqual((done.returncode, error["code"]), (2, "INVALID_ARGUMENT"))
        self.assertEqual((error["file"], error["line"], error["column"]), ("bad.yaml", 3, 7))

    def test_wrong_types(self) -> None:
        for line, column in (("num_samples: many", 14), ("num_samples: 1.5", 14), ("stop: 3", 7),
                             ("max_concurrent: -1", 17), ("resources: {cpu: lots}", 18),
                             ("space: [1, 2]", 8), ("space: {lr: {uniform: [1]}}", 13),
                             ("mode: best", 7), ("metric: {a: 1}", 9), ("seed: -4", 7),
                             ("time_budget: soon", 14), ("env: {A: [1]}", 10),
                             ("scheduler: {asha: {max_t: no}}", 27), ("search: magic", 9)):
            self.refuse(f"experiment: e\ncommand: [x]\nmetric: m\n{line}\n"
                        if not line.startswith("metric") else
                        f"experiment: e\ncommand: [x]\nfail_fast: true\n{line}\n",
                        f"bad.yaml:4:{column}: ")
        self.refuse(HEAD + "max_workers: two\n", "bad.yaml:3:14: ", verb="up")
        self.refuse("cluster_name: [a]\nprovider: {type: local}\n", "bad.yaml:1:15: ", verb="up")

    def test_duplicate_keys_and_broken_yaml(self) -> None:
        self.refuse("experiment: e\ncommand: [x]\nmode: max\nmode: min\n", "bad.yaml:4:1: ",
                    "mode")
        self.refuse(HEAD + "cluster_name: two\n", "bad.yaml:3:1: ", "cluster_name", verb="up")
        self.refuse("experiment: e\n  command: [x\n", "bad.yaml:2:")
        self.refuse("experiment: e\ncommand: [x]\nspace: {a: 1\n", "bad.yaml:")

    def test_files_that_are_no_yaml_at_all(self) -> None:
        for verb in ("submit", "up"):
            self.refuse("", "bad.yaml", "empty", verb=verb)
            self.refuse("# only a comment\n", "bad.yaml", "empty", verb=verb)
            self.refuse(b"\x7fELF\x02\x01\x00\x00\xff\xfe", "bad.yaml", "text", verb=verb)
            self.refuse("a: 1\n" * 300_000, "bad.yaml", "1 MiB", verb=verb)
            self.refuse("just a sentence\n", "bad.yaml:1:1", verb=verb)
            self.refuse("[" * 5000, "bad.yaml", verb=verb)
        self.refuse("neither: 1\n", "experiment", "cluster_name")

    def test_files_that_are_not_there(self) -> None:
        for words in (["up", "none.yaml"], ["submit", "none.yaml"], ["down", "none.yaml"],
                      ["submit", "none.py"], ["submit", "./none"], ["submit", "no-such-program"]):
            done = self.cluster.rt(*words, check=False)
            self.assertEqual(done.returncode, 2, (words, done.stderr))
            self.assertIn("no such file", done.stderr)
        os.mkdir(self.cluster.work / "folder.yaml")
        for verb in ("up", "submit"):
            done = self.cluster.rt(verb, "folder.yaml", check=False)
            self.assertEqual(done.returncode, 2, done.stderr)
        (self.cluster.work / "plain.txt").write_text("x")
        done = self.cluster.rt("submit", "plain.txt", check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("chmod +x", done.stderr)
        (self.cluster.work / "search.py").write_text("from rt import tune\n")
        done = self.cluster.rt("plan", "search.py", check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("'search.py' is a script; a plan is made of a YAML file", done.stderr)

    def test_what_a_cluster_needs(self) -> None:
        self.refuse("provider: {type: local}\n", "cluster_name is required", verb="up")
        self.refuse("cluster_name: it\n", "provider is required", verb="up")
        self.refuse("cluster_name: it\nprovider: {}\n", "bad.yaml:2:", verb="up")
        self.refuse("cluster_name: it\nprovider: {type: locl}\n", "did you mean 'local'?",
                    verb="up")
        self.refuse("cluster_name: ../up\nprovider: {type: local}\n", "bad.yaml:1:15", verb="up")
        self.refuse(HEAD + "head_node_type: hed\navailable_node_types: {head: {}}\n",
                    "did you mean 'head'?", verb="up")

    def test_usage(self) -> None:
        for words in ([], ["up"], ["submit"], ["exp"], ["exp", "stop"], ["logs"],
                      ["completion", "tcsh"], ["up", "a.yaml", "b.yaml"], ["status", "more"],
                      ["token", "create", "--ttl", "soon"], ["context", "add", "x"],
                      ["exp", "list", "--limit", "0"], ["down", ".."]):
            done = self.cluster.rt(*words, check=False)
            self.assertEqual(done.returncode, 2, (words, done.stderr))
            self.assertTrue(done.stderr.startswith("rt: "), done.stderr)

    def test_an_unknown_cluster_is_unreachable(self) -> None:
        (self.cluster.work / "s.py").write_text("")
        for words in (["status"], ["exp", "list"], ["submit", "s.py"], ["logs", "1/0"]):
            done = self.cluster.rt(*words, check=False)
            self.assertEqual(done.returncode, 4, done.stderr)


class ClusterTest(unittest.TestCase):
    def setUp(self) -> None:
        self.cluster = Cluster()

    def tearDown(self) -> None:
        self.cluster.close()

    def submit(self, text: str) -> Any:
        (self.cluster.work / "e.yaml").write_text(text)
        return self.cluster.rt("submit", "e.yaml", check=False)

    def test_the_old_form_of_a_cluster(self) -> None:
        self.cluster.yaml.write_text(OLD_FORM)
        done = self.cluster.rt("up", "cluster.yaml")
        self.assertIn("warning: head_start_ray_commands", done.stderr)
        self.assertIn("warning: worker_start_ray_commands", done.stderr)
        node, = self.cluster.json("node", "list")["items"]
        self.assertEqual(node["resources_total"]["cpu"], len(os.sched_getaffinity(0)))

    def test_the_new_form_and_what_is_impossible_on_it(self) -> None:
        self.cluster.yaml.write_text(NEW_FORM)
        self.cluster.rt("up", "cluster.yaml")
        node, = self.cluster.json("node", "list")["items"]
        self.assertEqual((node["resources_total"]["cpu"], node["resources_total"]["gpu"],
                          node["resources_total"]["custom"]), (3, 2, {"blue": 1}))
        for resources, words in (("gpu: 4", "asks for 4 gpus; the largest node has 2"),
                                 ("cpu: 9", "asks for 9 cpus; the largest node has 3"),
                                 ("red: 1", "red"), ("memory: 900TiB", "memory")):
            done = self.submit(f"experiment: e\ncommand: [x]\nresources: {{{resources}}}\n")
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(words, done.stderr)
        self.assertEqual(self.cluster.json("exp", "list")["items"], [])

    def test_what_fails_in_the_trial_or_the_script(self) -> None:
        self.cluster.up()
        (self.cluster.work / "broken.py").write_text("import not_there\n")
        done = self.cluster.rt("submit", "broken.py", check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("ModuleNotFoundError: No module named 'not_there'", done.stderr)
        done = self.submit(f"experiment: e\ncommand: [{sys.executable}, broken.py]\n")
        self.assertEqual(done.returncode, 1)
        self.assertIn("failed", done.stderr)
        error = self.cluster.json("trial", "show", "1/0")["error"]
        self.assertIn("not_there", error["message"] + str(error["traceback"]))
        done = self.submit("experiment: e\ncommand: [/no/such/program]\n")
        self.assertEqual(done.returncode, 1)
        trial = self.cluster.json("trial", "show", "2/0")
        self.assertIn("/no/such/program", trial["reason"] + str(trial["error"]))

    def test_a_metric_that_nobody_reports(self) -> None:
        self.cluster.up()
        done = self.submit("experiment: e\nmetric: accuracy\n"
                           "command: [echo, 'RT_REPORT {\"loss\": 1}']\n")
        self.assertEqual(done.returncode, 1)
        self.assertIn("warning: metric: no row has a number for 'accuracy'; reported: loss\n",
                      done.stderr)
        trial = self.cluster.json("trial", "show", "1/0")
        self.assertEqual((trial["state"], trial["reason"]),
                         ("FAILED", "a report does not have the metric 'accuracy'; reported: loss"))
        # Each trial would go on for long: the first ones end the search.
        done = self.submit("experiment: e\nmetric: loss\nmode: min\nnum_samples: 40\n"
                           "max_failures: 5\nbreaker: {trials: 2}\n"
                           "command: [sh, -c, 'echo \"RT_REPORT {\\\"lss\\\": 1}\"; sleep 600']\n")
        self.assertEqual(done.returncode, 1)
        self.assertIn("breaker: its first 2 trials all failed with the same error in what they "
                      "report: a report does not have the metric 'loss'; reported: lss; did you "
                      "mean 'lss'?",
                      done.stderr)
        ran = [trial for trial in self.cluster.trials(2) if trial["attempt"]]
        self.assertLess(len(ran), 10)

    def test_names_that_no_row_has(self) -> None:
        self.cluster.up()
        done = self.submit("experiment: e\nstop: {acc: 1}\n"
                           "command: [echo, 'RT_REPORT {\"accuracy\": 1}']\n")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("warning: stop: no row has 'acc', so that this rule never applies; "
                      "reported: accuracy; did you mean 'accuracy'?\n", done.stderr)
        done = self.submit("experiment: e\nmetric: loss\ncommand: [/bin/true]\n")
        self.assertIn("warning: no trial has reported anything", done.stderr)
        warnings = self.cluster.json("exp", "show", "2")["warnings"]
        self.assertEqual(len(warnings), 1)
        done = self.submit("experiment: e\nmetric: loss\nstrict_metric: false\n"
                           "command: [echo, 'RT_REPORT {\"lss\": 1}']\n")
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
