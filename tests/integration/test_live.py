"""The live screen, on a pseudo-terminal that is read as a person reads it; and what pipes get."""

import json
import pathlib
import re
import sys
import unittest

from harness import BIN, ClusterTest
from pseudo_terminal import Terminal
from script import PYTHON

RT = str(BIN / "rt")
TRIAL = """
import json, os, sys, time
x = float(sys.argv[1])
print("RT_REPORT " + json.dumps({"loss": x}), flush=True)
if x == 3:
    raise ValueError("three is a bad number")
while x > 1 and not os.path.exists(sys.argv[2]):
    time.sleep(0.02)
"""
SEARCH = """
experiment: {name}
command: [{python}, trial.py, "${{x}}", {go}]
space: {{x: {{grid: [{grid}]}}, width: 64, activation: relu}}
metric: loss
mode: min
"""
DRIVER = """
import os, sys, threading, time
from rt import tune

def train(config):
    tune.report({"loss": config["x"]})
    while not os.path.exists(config["go"]):
        time.sleep(0.02)

def talk():
    for number in range(20):
        print(f"said {number}")
        time.sleep(0.03)
    print("without an end", end="", flush=True)
    open(sys.argv[1], "w").close()

threading.Thread(target=talk).start()
analysis = tune.run(train, config={"x": tune.grid_search([1, 2, 3]), "go": sys.argv[1]},
                    metric="loss", mode="min")
print("best", analysis.best_config["x"])
"""


ENDLESS = """
import time
from rt import tune

def train(config):
    while True:
        tune.report({"loss": config["x"]})
        time.sleep(0.05)

tune.run(train, config={"x": tune.grid_search([1, 2])}, metric="loss", mode="min")
"""


class LiveTest(ClusterTest):
    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        (cls.cluster.work / "trial.py").write_text(TRIAL)

    def setUp(self) -> None:
        self.name = self.id().rsplit(".", 1)[1]
        self.go = self.cluster.home / f"{self.name}.go"

    def search(self, grid: str) -> str:
        """Writes a search whose trials wait for self.go, but for 1 and 3; its file."""
        path = self.cluster.work / f"{self.name}.yaml"
        path.write_text(SEARCH.format(name=self.name, python=sys.executable, go=self.go,
                                      grid=grid))
        return str(path)

    def terminal(self, *argv: str, **more: object) -> Terminal:
        env = {key: value for key, value in self.cluster.env.items() if key != "NO_COLOR"}
        terminal = Terminal([RT, *argv], env, self.cluster.work, **more)  # type: ignore[arg-type]
        self.addCleanup(terminal.close)
        return terminal

    def experiments_shown(self, lines: list[str]) -> int:
        return sum(line.startswith("experiment ") for line in lines)

    def test_submit_shows_everything_in_place(self) -> None:
        terminal = self.terminal("submit", self.search("1, 2, 3, 4, 5, 6, 7, 8, 9"))
        lines = terminal.wait_for("a full screen", lambda lines: lines if any(
            "4 RUNNING" in line for line in lines) and any(
            line.startswith("error") for line in lines) else None)
        text = "\n".join(lines)
        self.assertEqual(self.experiments_shown(lines), 1, text)
        self.assertRegex(text, r"2/9 trials  about \d+")
        self.assertRegex(text, r"\[=+> +\] 22%")
        self.assertRegex(text, r"trials   3 PENDING  4 RUNNING  1 COMPLETED  1 FAILED")
        self.assertRegex(text, r"best     loss 1  trial \d+/0  step 1")
        self.assertIn("x=1 width=64 activation=relu", text)
        self.assertRegex(text, r"worker-1 +READY +\[=+\]  cpu 2/2")
        self.assertRegex(text, r"worker-2 +READY +\[=+\]  cpu 2/2")
        self.assertRegex(text, r"waits    \d+/6 and 2 more: needs 1 cpu")
        self.assertRegex(text, r"error    trial \d+/2: ValueError: three is a bad number")
        self.go.touch()
        self.assertEqual(terminal.end(), 0)
        text = terminal.text()
        self.assertEqual(self.experiments_shown(terminal.lines()), 1, text)
        self.assertRegex(text, r"experiment \d+ \w+  COMPLETED")
        self.assertRegex(text, r"100%  9/9 trials\n")
        self.assertIn('{"x":1,"width":64,"activation":"relu"}', text)
        # The first and the last frame come on top of 4 a second.
        self.assertLessEqual(terminal.frames(), 4 * terminal.elapsed + 2)
        for line in re.sub(rb"\x1b\[[?\d;]*[a-zA-Z]", b"", terminal.raw).split(b"\r\n"):
            if not line.startswith((b"rt:", b"{")):
                self.assertLess(len(line.decode()), 80, line)
        self.assertIn(b"\x1b[32m", terminal.raw)

    def test_a_window_that_changes_its_size(self) -> None:
        terminal = self.terminal("submit", self.search("2, 4, 5, 6, 7"))
        terminal.wait_for("it runs", lambda lines: any("4 RUNNING" in line for line in lines))
        for columns, rows in ((40, 10), (120, 30), (60, 6)):
            terminal.resize(columns, rows)
            before = terminal.frames()
            terminal.wait_for("a frame of the new size",
                              lambda _, before=before: terminal.frames() > before + 1)
            lines = terminal.lines()
            self.assertEqual(self.experiments_shown(lines), 1, terminal.text())
            self.assertTrue(any(line.startswith("waits") for line in lines), terminal.text())
        self.go.touch()
        self.assertEqual(terminal.end(), 0)

    def test_colours_only_where_they_are_wanted(self) -> None:
        self.go.touch()
        path = self.search("1, 2")
        for arguments, changed, wanted in ((["submit", path], {"NO_COLOR": "1"}, False),
                                           (["submit", "--color", "never", path], {}, False),
                                           (["submit", "--color=always", path],
                                            {"NO_COLOR": "1"}, True)):
            terminal = self.terminal(*arguments, **changed)
            self.assertEqual(terminal.end(), 0)
            self.assertGreater(terminal.frames(), 0)
            self.assertEqual(re.search(rb"\x1b\[[\d;]*m", terminal.raw) is not None, wanted,
                             (arguments, changed))

    def test_a_dumb_terminal_gets_lines(self) -> None:
        self.go.touch()
        terminal = self.terminal("submit", self.search("1, 2"), TERM="dumb")
        self.assertEqual(terminal.end(), 0)
        self.assertNotIn(b"\x1b", terminal.raw)
        self.assertRegex(terminal.text(), r"rt: experiment \d+ COMPLETED  2/2 trials")

    def test_a_pipe_gets_a_line_per_change_and_few_of_them(self) -> None:
        self.go.touch()
        done = self.cluster.rt("submit", self.search(", ".join(["1"] * 60)))
        lines = [line for line in done.stderr.splitlines() if "experiment" in line]
        self.assertRegex(lines[-1],
                         r"rt: experiment \d+ COMPLETED  60/60 trials; best so far loss 1 ")
        self.assertEqual(len(set(lines)), len(lines))
        self.assertLess(len(lines), 20, done.stderr)
        self.assertNotIn("\x1b", done.stderr)

    def test_ctrl_c_stops_the_search_and_shows_its_end(self) -> None:
        terminal = self.terminal("submit", self.search("2, 4"))
        terminal.wait_for("it runs", lambda lines: any("2 RUNNING" in line for line in lines))
        terminal.interrupt()
        self.assertEqual(terminal.end(), 130)
        self.assertRegex(terminal.text(), r"experiment \d+ \w+  STOPPED")

    def test_watch_an_experiment_and_the_cluster(self) -> None:
        number = self.cluster.submit(self.name, pathlib.Path(self.search(
            "2, 4, 5, 6, 7, 8")).read_text())
        whole = self.terminal("watch", size=(100, 30))
        one = self.terminal("watch", self.name)
        one.wait_for("it runs", lambda lines: any("4 RUNNING" in line for line in lines))
        whole.wait_for("its line", lambda lines: any(
            line.startswith(f"experiment {number} {self.name}  RUNNING") for line in lines))
        self.assertRegex(whole.text(), r"cluster it  127\.0\.0\.1:\d+  up ")
        self.assertRegex(whole.text(), r"waits +\d+/4 and 1 more: needs 1 cpu")
        self.go.touch()
        self.assertEqual(one.end(), 0)
        self.assertRegex(one.text(), r"COMPLETED")
        whole.wait_for("nothing is open", lambda lines: any(
            "no experiment and no job is open" in line for line in lines))
        whole.interrupt()
        self.assertNotEqual(whole.end(), 0)
        self.assertRegex(self.cluster.rt("watch", str(number)).stdout,
                         rf"^experiment {number} COMPLETED  6/6 trials; best so far loss 2 ")

    def test_q_ends_watch_and_gives_the_terminal_back(self) -> None:
        number = self.cluster.submit(self.name, pathlib.Path(self.search("2, 4")).read_text())
        for words in (["watch"], ["watch", str(number)]):
            terminal = self.terminal(*words, size=(100, 30))
            terminal.wait_for("it says how it ends", lambda lines: "q quits" in lines)
            self.assertFalse(terminal.echoes())
            terminal.type("q")
            self.assertEqual(terminal.end(), 0)
            self.assertTrue(terminal.echoes())
        terminal = self.terminal("watch", size=(100, 30))
        terminal.wait_for("it says how it ends", lambda lines: "q quits" in lines)
        terminal.interrupt()
        terminal.end()
        self.assertTrue(terminal.echoes())
        self.cluster.rt("exp", "stop", str(number))
        self.cluster.wait_experiment(number)

    def test_trials_that_never_started_are_not_done(self) -> None:
        terminal = self.terminal("submit", self.search(", ".join(str(x) for x in range(4, 24, 2))),
                                 size=(100, 30))
        terminal.wait_for("it runs", lambda lines: any("4 RUNNING" in line for line in lines))
        terminal.interrupt()
        self.assertEqual(terminal.end(), 130)
        self.assertRegex(terminal.text(), r"\] 40%  4/10 trials")
        self.assertIn("10 STOPPED (6 never started)", terminal.text())

    def python(self, script: str, *args: str, size: tuple[int, int] = (90, 40)) -> Terminal:
        path = self.cluster.work / f"{self.name}.py"
        path.write_text(script)
        env = {**self.cluster.env, "RT_CLUSTER": "it", "RT_BIN": str(BIN),
               "PYTHONPATH": str(BIN.parents[2] / "python")}
        terminal = Terminal([str(PYTHON), str(path), *args], env, self.cluster.work, size=size)
        self.addCleanup(terminal.close)
        return terminal

    def test_ctrl_c_in_a_python_script_stands_above_the_screen(self) -> None:
        terminal = self.python(ENDLESS, size=(100, 30))
        terminal.wait_for("it reports", lambda lines: any(
            line.startswith("best     loss") for line in lines))
        terminal.interrupt()
        terminal.end()
        lines = terminal.lines()
        self.assertEqual(self.experiments_shown(lines), 1, terminal.text())
        note = next(i for i, line in enumerate(lines) if "stopping after the current" in line)
        frame = next(i for i, line in enumerate(lines) if line.startswith("experiment "))
        self.assertLess(note, frame, terminal.text())
        self.assertIn("STOPPED", lines[frame])

    def test_watch_as_json(self) -> None:
        self.go.touch()
        number = self.cluster.submit(self.name, pathlib.Path(self.search("1, 2")).read_text())
        lines = self.cluster.rt("watch", str(number), "-o", "json").stdout.splitlines()
        self.assertEqual(json.loads(lines[-1])["state"], "COMPLETED")

    def test_python_draws_the_same_screen_below_what_the_script_says(self) -> None:
        terminal = self.python(DRIVER, str(self.go))
        self.assertEqual(terminal.end(), 0, terminal.text())
        lines = terminal.lines()
        self.assertEqual(self.experiments_shown(lines), 1, terminal.text())
        said = [line for line in lines if line.startswith("said")]
        self.assertEqual(said, [f"said {number}" for number in range(20)], terminal.text())
        self.assertIn("without an end", lines)
        self.assertGreater(lines.index(next(line for line in lines if "COMPLETED" in line)),
                           lines.index("without an end"))
        self.assertRegex(terminal.text(), r"trials   3 COMPLETED")
        self.assertIn("best 1", lines)
        self.assertGreater(terminal.frames(), 2)


if __name__ == "__main__":
    unittest.main()
