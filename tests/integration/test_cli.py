"""What scripts rely on: fields, forms, selectors and exit codes of every command that reads."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import unittest
from typing import Any

from harness import BIN, Cluster, ClusterTest, is_private, wait_until

TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
EXPERIMENT = ("id name owner job_id state reason metric mode search scheduler trials_total "
              "trials_by_state best created_at started_at ended_at elapsed_s").split()
EXPERIMENT_SHOW = EXPERIMENT + ("spec space resources_per_trial stop max_concurrent seed bundle "
                                "results_dir results_problem lost_gpu_s rungs "
                                "search_choice search_model").split()
TRIAL = ("id experiment_id number name state reason params attempt node_ids step metrics reports "
         "failures preemptions created_at started_at ended_at runtime_s").split()
TRIAL_SHOW = TRIAL + ("resources waiting attempts checkpoints error log_paths lost_gpu_s").split()
ATTEMPT = ("number generation members started_at ended_at outcome exit_code signal "
           "last_seq").split()
NODE = ("id name pool address state reason labels resources_total resources_used gpus attempts "
        "pid version boot_id joined_at last_seen_at").split()
JOB = ("id name owner state reason argv node_id attempt exit_code signal experiment_ids bundle "
       "created_at started_at ended_at runtime_s").split()
VERBS = [["up"], ["down"], ["status"], ["submit"], ["logs"], ["watch"], ["bridge"], ["completion"],
         ["doctor"], ["plan"], ["report"], ["exp", "best"], ["exp", "export"], ["trial", "why"],
         ["node", "why"],
         *[[noun, verb] for noun in ("exp", "trial", "job", "node", "executor")
           for verb in ("list", "show")],
         *[[noun, "stop"] for noun in ("exp", "trial", "job", "executor")], ["actor", "list"],
         *[["token", verb] for verb in ("create", "list", "revoke")],
         *[["context", verb] for verb in ("list", "use", "add")]]
REPORT = r"""
import json, sys, time
print("RT_REPORT " + json.dumps({"loss": float(sys.argv[1])}), flush=True)
print("to stderr", file=sys.stderr, flush=True)
"""


class CliTest(ClusterTest):
    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        (cls.cluster.work / "report.py").write_text(REPORT)
        cls.done = cls.cluster.submit("done", f"""
experiment: done
command: [{sys.executable}, report.py, "${{x}}"]
space: {{x: {{grid: [3, 1, 2]}}, long: "{'v' * 90}"}}
metric: loss
mode: min
scheduler: {{asha: {{max_t: 9}}}}
""")
        cls.cluster.wait_experiment(cls.done)
        cls.waits = cls.cluster.submit("waits", f"""
experiment: waits
command: [{sys.executable}, -c, "import time; time.sleep(600)"]
num_samples: 4
resources: {{cpu: 2}}
""")
        cls.cluster.rt("submit", "/bin/sh", "--", "-c", "echo one; echo two >&2")
        wait_until("two trials run", lambda: cls.cluster.experiment(cls.waits)
                   ["trials_by_state"]["RUNNING"] == 2)

    def fail_json(self, code: int, *args: str) -> Any:
        done = self.cluster.rt(*args, "-o", "json", check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(done.stdout, "")
        error = json.loads(done.stderr)
        self.assertEqual(set(error), {"error"})
        self.assertEqual(set(error["error"]), {"code", "message", "hint", "file", "line", "column"})
        return error["error"]

    def check_item(self, item: Any, fields: list[str]) -> None:
        self.assertLessEqual(set(fields), set(item), set(fields) - set(item))
        for key, value in item.items():
            if key.endswith("_at") and value is not None:
                self.assertRegex(value, TIME, key)
            if key.endswith("_s") and value is not None:
                self.assertIsInstance(value, (int, float), key)

    def test_lists_and_shows_have_every_field(self) -> None:
        for noun, fields, more in (("exp", EXPERIMENT, EXPERIMENT_SHOW),
                                   ("job", JOB, [*JOB, "attempts"]),
                                   ("trial", TRIAL, TRIAL_SHOW), ("node", NODE, NODE)):
            reply = self.cluster.json(noun, "list")
            self.assertEqual((reply["schema"], reply["next"]), (1, None))
            self.assertEqual(set(reply), {"schema", "items", "next"})
            self.assertTrue(reply["items"])
            for item in reply["items"]:
                self.check_item(item, fields)
                self.check_item(self.cluster.json(noun, "show", str(item["id"])), more)
            ids = [item["id"] for item in reply["items"]]
            if noun == "trial":
                ids = [tuple(map(int, text.split("/"))) for text in ids]
            self.assertEqual(ids, sorted(ids))

    def test_status(self) -> None:
        status = self.cluster.json("status")
        self.check_item(status["cluster"], "name id head_address version epoch started_at "
                        "uptime_s".split())
        self.assertEqual(status["nodes"], {"total": 2, "by_state": {"READY": 2}})
        self.assertEqual(set(status["resources"]), {"cpu", "gpu", "memory_bytes", "custom"})
        self.assertEqual(status["resources"]["cpu"], {"total": 4, "used": 4})
        self.check_item(status["journal"], ["seq", "durable_seq", "shipped_seq"])
        self.check_item(status["experiments"][0], EXPERIMENT)
        self.check_item(status["jobs"][0], JOB)
        self.assertEqual([item["id"] for item in status["pending"]],
                         [f"{self.waits}/2", f"{self.waits}/3"])
        for item in status["pending"]:
            self.assertEqual(set(item), {"id", "reason", "needs", "since"})

    def test_a_finished_trial(self) -> None:
        trial = self.cluster.json("trial", "show", f"{self.done}/1")
        self.assertEqual(trial["state"], "COMPLETED")
        self.assertEqual(trial["metrics"]["loss"], 1)
        self.assertEqual(trial["step"], 1)
        self.assertIsNone(trial["waiting"])
        attempt = trial["attempts"][0]
        self.assertLessEqual(set(ATTEMPT), set(attempt))
        self.assertEqual((attempt["exit_code"], attempt["signal"]), (0, None))
        self.assertLessEqual({"rank", "node_id", "pid"}, set(attempt["members"][0]))
        paths = [pathlib.Path(path) for path in trial["log_paths"]]
        wait_until("the logs were put away", lambda: all(path.exists() for path in paths))
        texts = [path.read_text() for path in paths]
        self.assertIn("to stderr\n", texts)
        node = self.cluster.json("node", "show", str(trial["node_ids"][0]))
        self.assertEqual(node["address"], "127.0.0.1")
        self.assertEqual(trial["metrics"]["node_ip"], "127.0.0.1")

    def test_a_pending_trial_says_what_is_missing_and_what_frees_it(self) -> None:
        trial = self.cluster.json("trial", "show", f"{self.waits}/3")
        self.assertEqual(trial["state"], "PENDING")
        self.assertEqual(set(trial["waiting"]), {"reason", "needs", "frees"})
        self.assertIn("2 cpus", trial["waiting"]["reason"])
        self.assertIn("running trial", trial["waiting"]["frees"])
        self.assertEqual(trial["waiting"]["needs"]["cpu"], 2)
        self.assertIn("2 cpus", self.cluster.rt("status").stdout)

    def test_selectors_names_and_aliases(self) -> None:
        def ids(*args: str) -> list[str]:
            return self.cluster.rt(*args, "-o", "quiet").stdout.split()

        self.assertEqual(ids("exp", "show", "1-2"), ["1", "2"])
        self.assertEqual(ids("e", "show", "2,1"), ["1", "2"])
        self.assertEqual(ids("exp", "show", "all"), ["1", "2"])
        self.assertEqual(ids("exp", "show", "last"), ["2"])
        self.assertEqual(ids("exp", "show", "done"), ["1"])
        self.assertEqual(ids("t", "show", "3"), ["2/3"])
        self.assertEqual(ids("t", "show", "1/0,2"), ["1/0", "1/2"])
        self.assertEqual(ids("t", "show", "1/last"), ["1/2"])
        self.assertEqual(ids("trial", "show", "1/all"), ["1/0", "1/1", "1/2"])
        self.assertEqual(ids("trial", "list", "--exp", "1"), ["1/0", "1/1", "1/2"])
        self.assertEqual(ids("j", "list"), ["1"])
        self.assertEqual(ids("n", "show", "worker-1"), ids("node", "show", "worker-1"))
        self.assertEqual(ids("job", "show", "j1"), ["1"])
        self.assertEqual(ids("trial", "show", "t3"), ["2/3"])
        self.assertEqual(ids("node", "show", "n1"), ["1"])
        self.assertEqual(ids("exp", "show", "waits", "done"), ["1", "2"])
        self.assertEqual(ids("exp", "show", "1", "waits"), ["1", "2"])
        (worker,) = ids("node", "show", "worker-1")
        self.assertEqual(ids("node", "show", worker, "worker-1"), [worker])
        name = self.cluster.trials(self.done)[1]["name"]
        self.assertEqual(ids("trial", "show", name, "2/3"), ["1/1", "2/3"])
        self.assertEqual(ids("trial", "list", "--exp", "done"), ["1/0", "1/1", "1/2"])
        self.assertIn("RT_REPORT", self.cluster.rt("logs", name).stdout)
        for words, noun in ((["exp", "show", "done", "wiats"], "experiment"),
                            (["job", "show", "nosuch"], "job"),
                            (["trial", "show", "nosuch"], "trial"),
                            (["node", "drain", "worker-1", "worker_2"], "node")):
            error = self.fail_json(3, *words)
            self.assertEqual(error["message"], f"no {noun} matches '{words[-1]}'")
        self.assertEqual(self.fail_json(3, "exp", "show", "wiats")["hint"],
                         "did you mean 'waits'?")
        self.assertEqual(self.cluster.node("worker-1")["state"], "READY")
        self.assertEqual(self.fail_json(3, "logs", "nosuch")["message"],
                         "no job, trial or node matches 'nosuch'")

    def test_lists_come_in_pages_in_an_order_and_by_state(self) -> None:
        def page(*args: str) -> tuple[list[object], object]:
            reply = self.cluster.json(*args)
            return [item["id"] for item in reply["items"]], reply["next"]

        # Of the last experiment, unless said otherwise; `next` is a text, and --after takes it.
        self.assertEqual(page("trial", "list"), ([f"2/{number}" for number in range(4)], None))
        self.assertEqual(page("trial", "list", "--exp", "1", "--limit", "2"),
                         (["1/0", "1/1"], "1/1"))
        self.assertEqual(page("trial", "list", "--exp", "1", "--limit", "2", "--after", "1/1"),
                         (["1/2"], None))
        self.assertEqual(page("trial", "list", "--exp", "all", "--after", "1/1", "--limit", "2"),
                         (["1/2", "2/0"], "2/0"))
        self.assertEqual(page("trial", "list", "--exp", "1", "--limit", "3")[1], None)
        self.assertEqual(page("exp", "list", "--limit", "1"), ([1], "1"))
        self.assertEqual(page("exp", "list", "--after", "1"), ([2], None))
        self.assertEqual(page("job", "list", "--after", "1"), ([], None))
        self.assertEqual(page("exp", "list", "--state", "completed"), ([1], None))
        self.assertEqual(page("trial", "list", "--state", "RUNNING", "--limit", "1"),
                         (["2/0"], "2/0"))
        self.assertEqual(page("trial", "list", "--exp", "1", "--sort", "loss")[0],
                         ["1/1", "1/2", "1/0"])
        self.assertEqual(page("trial", "list", "--exp", "1", "--sort", "-x", "--limit", "1"),
                         (["1/0"], None))
        self.assertEqual(self.fail_json(2, "trial", "list", "--exp", "1", "--sort", "los")["hint"],
                         "did you mean 'loss'?")
        self.assertEqual(self.fail_json(2, "exp", "list", "--state", "RUNING")["hint"],
                         "did you mean 'RUNNING'?")
        self.assertIn("--after", self.fail_json(2, "exp", "list", "--after", "x")["message"])

    def test_a_list_of_trials_has_a_column_per_parameter_and_one_for_the_metric(self) -> None:
        listed = self.cluster.rt("trial", "list", "--exp", "1", "--sort", "loss")
        lines = listed.stdout.splitlines()
        self.assertEqual(lines[0].split(), "ID STATE STEP x loss RUNTIME REASON".split())
        self.assertEqual(lines[1].split()[:5], ["1/1", "COMPLETED", "1", "1", "1"])
        self.assertEqual(lines[4], "without a column: long (rt trial show has them)")
        more = self.cluster.rt("trial", "list", "--exp", "1", "--limit", "1")
        self.assertIn("--after 1/0", more.stderr)
        self.cluster.env.pop("NO_COLOR")
        self.addCleanup(self.cluster.env.update, NO_COLOR="1")
        self.assertNotIn("\x1b", self.cluster.rt("trial", "list", "--exp", "1").stdout)
        for words in (["trial", "list", "--exp", "1"], ["exp", "list"], ["status"]):
            self.assertIn("\x1b[32mCOMPLETED\x1b[0m",
                          self.cluster.rt(*words, "--color", "always").stdout)

    def test_equal_waits_are_one_line(self) -> None:
        waiting = [item for item in self.cluster.json("status")["waiting"]]
        self.assertEqual([(item["id"], item["count"]) for item in waiting],
                         [(f"{self.waits}/2", 2)])
        self.assertRegex(self.cluster.rt("status").stdout,
                         rf"(?m)^{self.waits}/2 and 1 more +needs 2 cpus")

    def test_global_flags_stand_before_and_after_the_verb(self) -> None:
        for words in (["-c", "it", "-o", "json", "exp", "list"], ["exp", "list", "--output=json"],
                      ["exp", "-c", "it", "list", "-o", "json"], ["exp", "list", "-ojson"]):
            items = json.loads(self.cluster.rt(*words).stdout)["items"]
            self.assertEqual([item["id"] for item in items], [1, 2])

    def test_exit_codes(self) -> None:
        self.assertEqual(self.fail_json(3, "exp", "show", "99")["code"], "NOT_FOUND")
        self.fail_json(3, "trial", "show", f"{self.done}/99")
        self.fail_json(3, "trial", "show", "99/0")
        self.fail_json(3, "job", "show", "99")
        self.fail_json(3, "node", "show", "99")
        self.fail_json(3, "trial", "stop", "1/99")
        self.fail_json(3, "logs", "99/0")
        self.fail_json(3, "context", "use", "nowhere")
        self.fail_json(3, "token", "revoke", "nothing")
        self.fail_json(3, "exp", "show", "1-x")
        self.fail_json(2, "exp", "show", "1-")
        self.fail_json(2, "exp", "stop")
        self.assertEqual(self.fail_json(4, "status", "-c", "nowhere")["code"], "UNAVAILABLE")

    def test_an_empty_word_selects_nothing(self) -> None:
        for words in (["exp", "stop", ""], ["exp", "pause", ""], ["job", "stop", ""],
                      ["trial", "retry", ""], ["node", "drain", ""], ["trial", "stop", "done/"],
                      ["down", ""], ["exp", "stop", "1", ""]):
            with self.subTest(words=words):
                self.fail_json(2, *words)
        self.assertEqual(self.cluster.json("exp", "show", "waits")["state"], "RUNNING")

    def test_output_that_cannot_be_written_is_a_failure(self) -> None:
        for words in (["exp", "list", "-o", "json"], ["exp", "export", "done"], ["--help"],
                      ["completion", "bash"], ["status"]):
            with self.subTest(words=words), open("/dev/full", "w") as full:
                done = subprocess.run([str(BIN / "rt"), "-c", "it", *words], env=self.cluster.env,
                                      stdout=full, stderr=subprocess.PIPE, text=True)
                self.assertEqual(done.returncode, 1)
                self.assertIn("standard output could not be written", done.stderr)
        closed = subprocess.run(["/bin/sh", "-c", '"$0" -c it exp list >&-', str(BIN / "rt")],
                                env=self.cluster.env, stderr=subprocess.PIPE, text=True)
        self.assertEqual(closed.returncode, 1)
        self.assertIn("standard output could not be written", closed.stderr)

    def test_what_selects_several_gives_a_list_also_of_one(self) -> None:
        one = self.cluster.json("exp", "show", "done")
        for selector in ("1-1", f"{one['id']},{one['id']}"):
            items = self.cluster.json("exp", "show", selector)["items"]
            self.assertEqual([each["id"] for each in items], [one["id"]])
        trials = self.cluster.json("trial", "show", f"{one['id']}/2-2")["items"]
        self.assertEqual([each["number"] for each in trials], [2])

    def test_flags_that_contradict_or_mean_nothing(self) -> None:
        other = self.cluster.work / "other.yaml"
        other.write_text("cluster_name: other\nprovider: {type: local}\n")
        self.fail_json(2, "submit", str(other), "-c", "it", "--start", "report.py")
        self.fail_json(2, "logs", "last", "--tail", "0")
        few = self.cluster.work / "few.yaml"
        few.write_text("cluster_name: few\nmin_workers: 4\nmax_workers: 2\n"
                       "provider: {type: local}\n")
        self.assertIn("above max_workers 2", self.fail_json(2, "up", str(few))["message"])
        self.assertEqual(self.cluster.json("exp", "show", "waits")["mode"], None)

    def test_slips_of_the_pen_get_a_suggestion(self) -> None:
        for words, hint in ((["statsu"], "status"), (["exp", "shwo"], "show"),
                            (["experiment", "list"], "exp"), (["trials", "list"], "trial"),
                            (["exp", "list", "--limmit", "3"], "--limit"),
                            (["submit", "--detatch", "x.py"], "--detach"),
                            (["status", "-o", "jsn"], "json"),
                            (["token", "create", "--role", "wroker"], "worker"),
                            (["-c", "itt", "status"], "it")):
            done = self.cluster.rt(*words, check=False)
            self.assertEqual(done.returncode, 4 if "itt" in words else 2, (words, done.stderr))
            self.assertIn(f"did you mean '{hint}'?", done.stderr, words)

    def test_every_help_has_examples(self) -> None:
        for words in [[], *VERBS, ["exp"], ["trial"], ["job"], ["node"], ["token"], ["context"]]:
            text = self.cluster.rt(*words, "--help").stdout
            self.assertIn("Examples:\n  rt ", text, words)
        self.assertRegex(self.cluster.rt("--version").stdout, r"^rt \d+\.\d+\.\d+\n$")

    def test_tables_fit_and_color_is_only_for_terminals(self) -> None:
        for words in (["status"], ["exp", "list"], ["trial", "list"], ["job", "list"],
                      ["node", "list"], ["trial", "show", "1/0"], ["exp", "show", "1"],
                      ["context", "list"], ["token", "list"]):
            text = self.cluster.rt(*words).stdout
            self.assertTrue(text)
            self.assertLessEqual(max(map(len, text.splitlines())), 100, text)
            self.assertNotIn("\x1b", text)
        text = self.cluster.rt("exp", "show", "99", "--color", "always", check=False).stderr
        self.assertIn("\x1b[", text)
        self.assertNotIn("\x1b", self.cluster.rt("exp", "show", "99", check=False).stderr)
        self.assertIn(" ago", self.cluster.rt("job", "list").stdout)

    def test_logs(self) -> None:
        done = self.cluster.rt("logs", f"{self.done}/0")
        self.assertEqual(done.stderr, "to stderr\n")
        self.assertIn("RT_REPORT", done.stdout)
        done = self.cluster.rt("job", "logs", "1")
        self.assertEqual((done.stdout, done.stderr), ("one\n", "two\n"))
        self.assertEqual(self.cluster.rt("logs", "j1", "--stream", "stderr").stdout, "two\n")
        node = self.cluster.rt("logs", "worker-1")
        self.assertIn("serves 127.0.0.1:", node.stdout)

    def test_completion_scripts_are_valid(self) -> None:
        script = self.cluster.rt("completion", "bash").stdout
        check = (f"source /dev/stdin; COMP_WORDS=({BIN}/rt sta); COMP_CWORD=1; _rt; "
                 "echo ${COMPREPLY[@]}")
        done = subprocess.run(["bash", "-c", check], input=script, text=True, capture_output=True)
        self.assertEqual((done.stdout, done.stderr), ("status\n", ""))
        env = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}
        script = self.cluster.rt("completion", "zsh").stdout
        # Outside its line editor compadd has nowhere to put them.
        check = (script + "\ncompadd() { print -l -- ${(P)@[-1]}; }\n"
                 "words=(rt exp sh); CURRENT=3; _rt\n")
        start = "autoload -Uz compinit; compinit -u -D\n"
        done = subprocess.run(["zsh", "-f", "-c", start + check], env=env, text=True,
                              capture_output=True)
        self.assertEqual((done.stdout, done.stderr), ("show\n", ""))
        script = self.cluster.rt("completion", "fish").stdout
        done = subprocess.run(["fish", "--no-config", "-c", script + "\ncomplete -C 'rt exp sh'"],
                              env=env, text=True, capture_output=True)
        self.assertEqual((done.stdout, done.stderr), ("show\n", ""))


class RunningTest(ClusterTest):
    def test_logs_of_an_attempt_before_the_newest(self) -> None:
        (self.cluster.work / "twice.sh").write_text(
            "echo attempt $RT_ATTEMPT; [ $RT_ATTEMPT = 2 ]\n")
        number = self.cluster.submit("twice", """
experiment: twice
command: [sh, twice.sh]
max_failures: 1
resources: {cpu: 0}
""")
        self.cluster.wait_experiment(number)
        trial = f"{number}/0"
        self.assertEqual(self.cluster.rt("logs", trial).stdout, "attempt 2\n")
        for flags in (["--previous"], ["--attempt", "1"], ["-f", "--previous"]):
            self.assertEqual(self.cluster.rt("trial", "logs", trial, *flags).stdout, "attempt 1\n")
        for code, *flags in ((3, "--attempt", "3"), (2, "--attempt", "1", "--previous")):
            done = self.cluster.rt("logs", trial, *flags, check=False)
            self.assertEqual(done.returncode, code, done.stderr)
        self.cluster.rt("submit", "true")
        done = self.cluster.rt("job", "logs", "last", "--previous", check=False)
        self.assertEqual(done.returncode, 3)
        self.assertRegex(done.stderr, r"job \d+ has no attempt before the newest one")

    def test_followed_logs_go_on_over_a_restart_of_the_head(self) -> None:
        go = self.cluster.work / "go"
        script = ("import os, time\nprint('before', flush=True)\n"
                  f"while not os.path.exists({str(go)!r}): time.sleep(0.02)\n"
                  "print('after', flush=True)\n")
        (self.cluster.work / "talk.py").write_text(script)
        number = self.cluster.submit("talks", f"experiment: talks\n"
                                     f"command: [{sys.executable}, talk.py]\n")
        reader = subprocess.Popen([str(BIN / "rt"), "logs", "-f", f"{number}/0"], text=True,
                                  env=self.cluster.env, stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL)
        assert reader.stdout is not None
        self.assertEqual(reader.stdout.readline(), "before\n")
        self.cluster.kill("head")
        go.touch()
        self.assertEqual(reader.communicate(timeout=60), ("after\n", None))
        self.assertEqual(reader.returncode, 0)

    def test_stop_of_a_trial_and_of_a_job(self) -> None:
        number = self.cluster.submit("sleeps", f"""
experiment: sleeps
command: [{sys.executable}, -c, "import time; time.sleep(600)"]
resources: {{cpu: 2}}
""")
        wait_until("it runs", lambda: self.cluster.trials(number)[0]["state"] == "RUNNING")
        self.cluster.rt("trial", "stop", f"{number}/0", "--reason", "enough")
        self.cluster.wait_experiment(number)
        trial = self.cluster.trials(number)[0]
        self.assertEqual((trial["state"], trial["reason"]), ("STOPPED", "enough"))
        self.cluster.rt("submit", "--detach", "sleep", "--", "600")
        job = self.cluster.json("job", "show")
        self.cluster.rt("job", "stop", str(job["id"]))
        wait_until("it stops", lambda: self.cluster.json("job", "show", str(job["id"]))["state"]
                   == "STOPPED")


class UpDownTest(unittest.TestCase):
    def setUp(self) -> None:
        self.cluster = Cluster(workers=1)
        self.cluster.up()

    def tearDown(self) -> None:
        self.cluster.close()

    def nodes(self) -> dict[str, Any]:
        items = self.cluster.json("node", "list")["items"]
        return {node["name"]: node for node in items if node["state"] == "READY"}

    def test_up_again_changes_nothing_and_applies_what_changed(self) -> None:
        number = self.cluster.submit("runs", f"""
experiment: runs
command: [{sys.executable}, -c, "import time; time.sleep(600)"]
""")
        wait_until("it runs", lambda: self.cluster.trials(number)[0]["state"] == "RUNNING")
        pids = [self.cluster.pid("head"), self.cluster.pid("worker-1")]
        self.cluster.up()
        self.assertEqual(pids, [self.cluster.pid("head"), self.cluster.pid("worker-1")])
        text = self.cluster.yaml.read_text()
        more = re.sub(r"(max_workers|min_workers): 1", r"\1: 3", text)
        self.cluster.yaml.write_text(more)
        self.cluster.up()
        self.assertEqual(set(self.nodes()), {"worker-1", "worker-2", "worker-3"})
        self.cluster.yaml.write_text(text)
        self.cluster.up()
        self.assertEqual(set(self.nodes()), {"worker-1"})
        self.cluster.yaml.write_text(text.replace("CPU: 2", "CPU: 5"))
        self.cluster.up()
        self.assertEqual(self.nodes()["worker-1"]["resources_total"]["cpu"], 5)
        trial = self.cluster.trials(number)[0]
        self.assertEqual((trial["state"], trial["attempt"]), ("RUNNING", 1))

    def test_a_dead_head_is_restarted_by_up_and_by_any_client(self) -> None:
        worker = self.cluster.pid("worker-1")
        first = self.cluster.kill("head")
        self.cluster.up()
        second = self.cluster.pid("head")
        self.assertNotEqual(first, second)
        self.cluster.kill("head")
        self.assertEqual(self.cluster.json("status")["cluster"]["name"], "it")
        self.assertNotEqual(second, self.cluster.pid("head"))
        self.assertEqual(worker, self.cluster.pid("worker-1"))

    def test_down_leaves_nothing_and_is_no_error_twice(self) -> None:
        self.cluster.submit("runs", f"""
experiment: runs
command: [{sys.executable}, -c, "import time; time.sleep(600)"]
""")
        wait_until("it runs", lambda: self.cluster.trials(1)[0]["state"] == "RUNNING")
        sockets = self.cluster.runtime_dirs()
        self.assertTrue(sockets)
        self.cluster.rt("down", str(self.cluster.yaml))
        self.assertEqual(self.cluster.leftovers(), {})
        self.assertEqual(self.cluster.json("context", "list")["items"], [])
        self.assertFalse((self.cluster.home / "home/clusters/it").exists())
        self.assertFalse([path for path in sockets if path.exists()])
        self.cluster.rt("down", str(self.cluster.yaml))
        self.cluster.rt("down", "it")  # Of a cluster that is archived.
        self.cluster.rt("down")
        self.assertEqual(self.cluster.rt("status", check=False).returncode, 4)

    def test_down_of_a_cluster_whose_daemons_were_killed(self) -> None:
        self.cluster.kill("head")
        os.kill(self.cluster.pid("worker-1"), signal.SIGKILL)
        self.cluster.rt("down", str(self.cluster.yaml))
        self.assertEqual(self.cluster.leftovers(), {})

    def test_files_are_private(self) -> None:
        for folder, _, files in os.walk(self.cluster.home / "home"):
            self.assertTrue(is_private(folder), folder)
            for name in files:
                path = os.path.join(folder, name)
                self.assertTrue(is_private(path), path)


if __name__ == "__main__":
    unittest.main()
