"""Metrics from programs in any language: rt report, RT_REPORT lines, a regular expression, C++."""

import json
import re
import shutil
import subprocess
import sys
import time
import unittest

from harness import BIN, ROOT, Cluster, ClusterTest, wait_until

EXAMPLES = ROOT / "examples"


class AgainTest(unittest.TestCase):
    def test_a_report_whose_daemon_dies_before_it_answers_is_one_row(self) -> None:
        cluster = Cluster(workers=1, cpus=1)
        self.addCleanup(cluster.close)
        # Each daemon dies at its sixth row, once that is on the disk and before it is answered.
        cluster.env["RT_FAILPOINTS"] = "worker.spool.after_append=kill@6"
        cluster.up()
        (cluster.work / "script.sh").write_text("""set -eu
mkdir model
for step in 1 2 3 4 5 6 7; do
  echo $step > model/step
  rt report loss=$step --checkpoint model
  rt report loss=$step.5
done
""")
        number = cluster.submit("again", "experiment: again\ncommand: [sh, script.sh]\n")
        experiment = cluster.wait_experiment(number)
        self.assertEqual(experiment["state"], "COMPLETED")
        rows = cluster.rows(experiment, cluster.trials(number)[0])
        self.assertEqual([row["loss"] for row in rows], [n / 2 for n in range(2, 16)])
        self.assertEqual([row["training_iteration"] for row in rows], list(range(1, 15)))
        trial = cluster.json("trial", "show", f"{number}/0")
        self.assertEqual([one["number"] for one in trial["attempts"]], [1])
        self.assertEqual([one["step"] for one in trial["checkpoints"]], [1, 3, 5, 7, 9, 11, 13])
        log = (cluster.home / "home/clusters/it/head/log").read_text()
        self.assertGreater(log.count("worker-1 started as process"), 2)


class ReportTest(ClusterTest):
    workers = 1

    def run_script(self, script: str, more: str = "", state: str = "COMPLETED",
                   trials: int = 1) -> tuple[int, list[dict]]:
        """Runs sh trials to the experiment's end; its number and the first trial's rows."""
        path = self.cluster.work / "script.sh"
        path.write_text("set -eu\n" + script)
        name = self.id().rsplit(".", 1)[1]
        number = self.cluster.submit(name, f"""
experiment: {name}
command: [sh, script.sh, "${{number}}"]
space: {{number: {{grid: {list(range(trials))}}}}}
metric: loss
mode: min
{more}
""")
        experiment = self.cluster.wait_experiment(number)
        logs = self.cluster.rt("logs", f"{number}/0", check=False)
        self.assertEqual(experiment["state"], state, logs.stdout + logs.stderr)
        return number, self.cluster.rows(experiment, self.cluster.trials(number)[0])

    def test_lines_that_are_no_reports_are_told_of(self) -> None:
        number, rows = self.run_script("""
echo "RT_REPORT {'loss': 1}"
echo 'RT_REPORT {"loss": 2}'
echo 'RT_REPORT [3]'
""")
        self.assertEqual([row["loss"] for row in rows], [2])
        (attempt,) = self.cluster.json("trial", "show", f"{number}/0")["attempts"]
        self.assertEqual(attempt["outcome"], "SUCCEEDED")
        self.assertIn("2 report lines were rejected: ", attempt["reason"])
        self.assertIn(attempt["reason"], self.cluster.rt("trial", "why", f"{number}/0").stdout)

    def test_a_script_can_count_to_max_t(self) -> None:
        _, rows = self.run_script("""
test "$RT_MAX_T" -eq 3
i=0
while [ $i -lt "$RT_MAX_T" ]; do i=$((i + 1)); rt report loss=$i; done
""", "scheduler: {asha: {max_t: 3}}")
        self.assertEqual([row["loss"] for row in rows], [1, 2, 3])

    def test_values_steps_and_kinds(self) -> None:
        _, rows = self.run_script("""
rt report loss=0.5 whole=3 flag=true 'text=say "hi"' big=1e308 none=nan
rt report loss=.25 --step 7
rt report loss=0.125
""")
        first = rows[0]
        self.assertEqual([row["loss"] for row in rows], [0.5, 0.25, 0.125])
        self.assertEqual([row["training_iteration"] for row in rows], [1, 7, 8])
        self.assertEqual((first["whole"], first["flag"], first["text"], first["big"]),
                         (3, True, 'say "hi"', 1e308))
        self.assertIn(first["none"], ("NaN",))

    def test_texts_that_are_not_utf8_lose_nothing(self) -> None:
        number, rows = self.run_script(r"""
echo 'RT_REPORT {"loss": 1, "file": "caf\udce9.png"}'
if [ "$1" = 1 ]; then printf 'no such file: caf\351.png\n' >&2; exit 1; fi
""", trials=2)
        self.assertEqual((rows[0]["loss"], rows[0]["file"]), (1, "caf\ufffd\ufffd\ufffd.png"))
        failed = self.cluster.json("trial", "show", f"{number}/1")
        self.assertEqual(failed["state"], "FAILED")
        self.assertIn("no such file: caf\ufffd.png", json.dumps(failed, ensure_ascii=False))

    def test_a_checkpoint_is_committed_and_restored(self) -> None:
        number, rows = self.run_script("""
if [ -n "${RT_CHECKPOINT_DIR:-}" ]; then
  rt report loss="$(cat "$RT_CHECKPOINT_DIR/loss")"
  exit 0
fi
mkdir model
echo 0.75 > model/loss
rt report loss=1 --checkpoint model
exit 3
""", "max_failures: 1")
        self.assertEqual([row["loss"] for row in rows], [1, 0.75])
        trial = self.cluster.json("trial", "show", f"{number}/0")
        self.assertEqual([one["step"] for one in trial["checkpoints"]], [1])

    def test_the_head_decides(self) -> None:
        number, _ = self.run_script("""
for step in 1 2 3 4 5 6 7 8 9; do
  verdict=$(rt report loss="$1" --wait)
  [ "$verdict" = stop ] && exit 0
done
echo not stopped
""", "scheduler: {asha: {max_t: 9, reduction_factor: 3}}\nmax_concurrent: 1", trials=4)
        trials = self.cluster.trials(number)
        self.assertEqual([trial["step"] for trial in trials], [9, 1, 1, 1])
        for trial in trials:
            self.assertNotIn("not stopped", self.cluster.rt("logs", trial["id"]).stdout)

    def test_mistakes(self) -> None:
        outside = {key: value for key, value in self.cluster.env.items()
                   if key not in ("RT_SOCKET", "RT_TOKEN")}

        def fails(*args: str, **env: str) -> subprocess.CompletedProcess:
            return subprocess.run([str(BIN / "rt"), "report", *args], env={**outside, **env},
                                  capture_output=True, text=True, timeout=60)

        socket = {"RT_SOCKET": "/nowhere", "RT_TOKEN": "t"}
        for args, env, wanted in (((), {}, "nothing to report"),
                                  (("loss",), {}, "'loss' is not NAME=VALUE"),
                                  (("=3",), {}, "'=3' is not NAME=VALUE"),
                                  (("a=1", "--step", "x"), {}, "'x' is not a number from 0"),
                                  (("a=1", "--stepp", "3"), {}, "did you mean '--step'?"),
                                  (("a=1", "--checkpoint", "gone"), socket,
                                   "--checkpoint: gone: No such file or directory"),
                                  (("a=1",), {}, "rt report works only in a trial")):
            done = fails(*args, **env)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(wanted, done.stderr)
        error = json.loads(fails("a=1", "-o", "json").stderr)["error"]
        self.assertEqual(set(error), {"code", "message", "hint", "file", "line", "column"})
        self.assertIn("rt report loss=", fails("--help").stdout)

    def test_it_starts_without_the_libraries_that_rt_needs(self) -> None:
        def seconds(*args: str) -> float:
            start = time.monotonic()
            subprocess.run([str(BIN / "rt"), *args], capture_output=True)
            return time.monotonic() - start

        report = min(seconds("report") for _ in range(20))
        whole = min(seconds("--version") for _ in range(20))
        self.assertLess(report, whole / 2)

    def test_lines_on_standard_output(self) -> None:
        _, rows = self.run_script("""
echo 'RT_REPORT {"loss": 0.5, "deep": {"a": 1}}'
echo 'RT_REPORT {"loss": broken'
echo '  RT_REPORT {"loss": 9}'
printf 'RT_REPORT {"loss": 0.25}'
""")
        self.assertEqual([row["loss"] for row in rows], [0.5, 0.25])

    def test_the_step_of_a_message_on_the_socket(self) -> None:
        (self.cluster.work / "raw.py").write_text("""
import json, os, socket
wire = socket.socket(socket.AF_UNIX)
wire.connect(os.environ["RT_SOCKET"])
lines = wire.makefile("rw")
for message in ({"op": "hello", "token": os.environ["RT_TOKEN"]},
                {"op": "report", "metrics": {"loss": 1}, "step": 5},
                {"op": "report", "metrics": {"loss": 2, "training_iteration": 7}, "step": 6},
                {"op": "report", "metrics": {"loss": 3}, "step": "x"},
                {"op": "report", "metrics": {"loss": 4}}):
    lines.write(json.dumps(message) + "\\n")
    lines.flush()
    answer = json.loads(lines.readline())
    refused = answer.get("message")
    assert refused == ("step is not a number" if message.get("step") == "x" else None), answer
""")
        _, rows = self.run_script(f"{sys.executable} raw.py")
        self.assertEqual([(row["loss"], row["training_iteration"]) for row in rows],
                         [(1, 5), (2, 7), (4, 8)])

    def test_a_regular_expression_for_names_and_values(self) -> None:
        _, rows = self.run_script("""
echo 'epoch 1: loss=0.5 accuracy=0.75'
echo 'nothing here'
echo 'epoch 2: loss=2.5e-1 accuracy=0.875'
""", r"report_regex: '(\w+)=([-+.\deE]+)'")
        self.assertEqual([(row["loss"], row["accuracy"]) for row in rows],
                         [(0.5, 0.75), (0.25, 0.875)])

    def test_a_regular_expression_for_the_metric_alone(self) -> None:
        _, rows = self.run_script("echo 'val loss: 0.5'\necho 'val loss: 0.25 (better)'",
                                  r"report_regex: 'val loss: ([-+.\deE]+)'")
        self.assertEqual([row["loss"] for row in rows], [0.5, 0.25])

    def test_nested_repetitions_do_not_stop_the_node(self) -> None:
        # With a matcher that backtracks the first line takes longer than anybody waits.
        _, rows = self.run_script(
            "printf 'a%.0s' $(seq 4000)\necho\necho 'loss=0.5'",
            r"report_regex: '(?:(?:a+)+)+b|loss=([-+.\deE]+)'")
        self.assertEqual([row["loss"] for row in rows], [0.5])
        number = self.cluster.submit("fails", """
experiment: fails
command: [sh, -c, "printf 'a%.0s' $(seq 4000) >&2; exit 1"]
retry:
  - {log: '(?:(?:a+)+)+b', then: retry}
  - {log: '^(?:a?){900}$', then: retry}
  - {exit_code: 1, then: fail}
""")
        experiment = self.cluster.wait_experiment(number)
        trial = self.cluster.json("trial", "show", f"{number}/0")
        self.assertEqual((experiment["state"], trial["state"]), ("FAILED", "FAILED"))
        self.assertEqual([one["retry_rule"] for one in trial["attempts"]], [3])

    def test_what_cannot_be_searched_for_is_refused_with_its_place(self) -> None:
        path = self.cluster.work / "wrong.yaml"
        for line, why in (("report_regex: 'loss=(?=x)(.*)'", r"\(\?=, at character 6"),
                          ("retry: [{log: '(?:a?){9000}b', then: fail}]",
                           r"invalid repetition size: \{9000\}, at character 7")):
            path.write_text(f"experiment: e\nmetric: m\ncommand: [x]\n{line}\n")
            done = self.cluster.rt("submit", str(path), check=False)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertRegex(done.stderr, r"wrong\.yaml:4:\d+: .*" + why)

    def test_a_wrong_regular_expression_has_a_place(self) -> None:
        path = self.cluster.work / "wrong.yaml"
        path.write_text("experiment: e\ncommand: [x]\nreport_regex: 'loss=(.*'\n")
        done = self.cluster.rt("submit", str(path), check=False)
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, r"wrong\.yaml:3:\d+: report_regex: not a regular expression")
        self.assertIn("report_regex: 'loss=(.*'\n", done.stderr)

    def example(self, name: str) -> dict:
        """Runs examples/NAME/search.yaml as its README says; the experiment at its end."""
        folder = self.cluster.work / name
        shutil.copytree(EXAMPLES / name, folder)
        if (folder / "descend.cc").exists():
            subprocess.run(["c++", "-std=c++17", "-O2", "-Wall", "-Wextra", "-Werror", "-I",
                            str(ROOT), "-o", "descend", "descend.cc"], cwd=folder, check=True)
        done = subprocess.run([str(BIN / "rt"), "submit", "search.yaml"], cwd=folder, text=True,
                              env=self.cluster.env, capture_output=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        number = int(re.search(r"experiment (\d+) COMPLETED", done.stderr)[1])
        return self.cluster.experiment(number)

    def test_the_shell_example(self) -> None:
        experiment = self.example("shell")
        trials = self.cluster.trials(experiment["id"])
        self.assertEqual(len(trials), 12)
        self.assertLess(sum(trial["step"] for trial in trials), 12 * 27)  # Some fell early.
        self.assertAlmostEqual(experiment["best"]["value"], 1, places=2)
        best = self.cluster.json("trial", "show", experiment["best"]["trial_id"])
        self.assertEqual([one["step"] for one in best["checkpoints"]], [9, 18, 27])

    def test_the_cpp_example(self) -> None:
        experiment = self.example("cpp")
        trials = self.cluster.trials(experiment["id"])
        self.assertEqual((len(trials), experiment["trials_by_state"]["FAILED"]), (18, 0))
        self.assertLess(experiment["best"]["value"], 0.1)
        stopped = [trial for trial in trials if trial["state"] == "STOPPED"]
        self.assertTrue(stopped)
        for trial in stopped:  # They waited for the verdict, and reported nothing after it.
            self.assertIn(trial["step"], (1, 3, 9, 27))
            attempt = self.cluster.json("trial", "show", trial["id"])["attempts"][0]
            self.assertEqual(attempt["last_seq"], trial["step"])
            self.assertIn((attempt["exit_code"], attempt["signal"]), ((0, None), (None, 15)))

    def test_a_report_waits_for_a_worker_that_was_killed(self) -> None:
        ready, go = self.cluster.home / "ready", self.cluster.home / "go"
        path = self.cluster.work / "script.sh"
        path.write_text(f"set -eu\nrt report loss=2\ntouch {ready}\n"
                        f"until [ -e {go} ]; do sleep 0.01; done\nrt report loss=1\n")
        number = self.cluster.submit("killed", """
experiment: killed
command: [sh, script.sh]
metric: loss
mode: min
""")
        wait_until("it reported", ready.exists)
        self.cluster.kill("worker-1")
        go.touch()
        experiment = self.cluster.wait_experiment(number)
        rows = self.cluster.rows(experiment, self.cluster.trials(number)[0])
        self.assertEqual([row["loss"] for row in rows], [2, 1])
        self.assertEqual(experiment["state"], "COMPLETED")


if __name__ == "__main__":
    unittest.main()
