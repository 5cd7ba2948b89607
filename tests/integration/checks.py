"""What must be true of a search after a fault, checked from three sides: what each trial was told
(the notes of trial_program.py), what the head holds (its rows and attempts), and result.json."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import shutil
import signal
import sys
from typing import Any, Collection, Optional

from harness import Cluster, wait_until

HERE = pathlib.Path(__file__).resolve().parent


def bare_python() -> list[str]:
    """The real interpreter without what `site` adds: a search starts it for each trial."""
    return [os.path.realpath(sys.executable), "-E", "-S"]


@dataclasses.dataclass
class Story:
    """What one attempt noted."""

    attempt: int
    start: int
    told: list[int]  # Steps whose report was answered, in order.
    verdicts: list[int]
    committed: list[int]
    ended: bool


def read_story(path: pathlib.Path) -> Story:
    lines = path.read_text().splitlines(keepends=True)
    notes = [json.loads(line) for line in lines if line.endswith("\n")]
    steps = {key: [note[key] for note in notes if key in note]
             for key in ("start", "acked", "verdict", "committed", "end")}
    told = [step for note in notes for key, step in note.items()
            if key in ("acked", "verdict", "committed")]
    assert len(steps["start"]) <= 1, f"{path}: {notes}"
    return Story(int(path.suffix[1:]), sum(steps["start"]), told, steps["verdict"],
                 steps["committed"], bool(steps["end"]))


@dataclasses.dataclass
class Search:
    """A search over k = 0 … trials-1 with trial_program.py."""

    cluster: Cluster
    name: str
    trials: int = 20
    steps: int = 6
    pause_s: float = 0.05
    checkpoint_every: int = 0
    verdict_every: int = 0
    options: str = ""  # More lines of YAML.
    number: int = 0

    @property
    def notes(self) -> pathlib.Path:
        return self.cluster.home / f"notes-{self.name}"

    def command(self) -> list[str]:
        return [*bare_python(), "trial_program.py", str(self.notes), str(self.steps),
                str(self.pause_s), str(self.checkpoint_every), str(self.verdict_every)]

    def prepare(self) -> None:
        self.notes.mkdir()
        for program in ("trial_program.py", "driver_program.py"):
            shutil.copy(HERE / program, self.cluster.work)

    def yaml(self) -> str:
        return (f"experiment: {self.name}\ncommand: {json.dumps(self.command())}\n"
                f"space: {{k: {{grid: {list(range(self.trials))}}}}}\n{self.options}\n")

    def find(self) -> None:
        """Waits until somebody has created the experiment, and takes its number."""
        def number() -> int:
            items = self.cluster.ask("experiment_list")["items"]
            return next((item["id"] for item in items if item["name"] == self.name), 0)
        self.number = wait_until(f"{self.name} is there", number, lasting=True)

    def submit(self) -> None:
        self.prepare()
        self.number = self.cluster.submit(self.name, self.yaml())

    def wait_done(self, count: int) -> None:
        self.cluster.follow(f"{count} trials are done", self.number,
                            lambda item: item["trials_by_state"]["COMPLETED"] >= count)

    def running(self, node: Optional[int] = None) -> list[dict[str, Any]]:
        """Trials that run (on that node), each with its user's pid."""
        found = []
        for trial in self.cluster.trials(self.number):
            if trial["state"] != "RUNNING" or node not in (None, *trial["node_ids"]):
                continue
            shown = self.cluster.trial(trial["id"])
            member = shown["attempts"][-1]["members"][0]
            if shown["state"] == "RUNNING" and member["pid"]:
                found.append({**shown, "pid": member["pid"], "node": member["node_id"]})
        return found

    def catch(self, committed: int = 0, node: Optional[int] = None) -> dict[str, Any]:
        """A trial that runs (on that node), stopped by SIGSTOP after so many checkpoints."""
        def one() -> Optional[dict[str, Any]]:
            for trial in self.running(node):
                try:
                    os.kill(trial["pid"], signal.SIGSTOP)
                    stat = pathlib.Path(f"/proc/{trial['pid']}/stat")
                    wait_until("it stopped", lambda: stat.read_text().split()[2] in "TZX")
                    stories = self.stories(trial)
                    if stories and not stories[-1].ended and \
                            len(stories[-1].committed) >= committed:
                        return trial
                    os.kill(trial["pid"], signal.SIGCONT)
                except (ProcessLookupError, FileNotFoundError):
                    continue
            return None
        found: dict[str, Any] = wait_until("a trial is caught", one)
        return found

    def stories(self, trial: dict[str, Any]) -> list[Story]:
        name = trial["id"].replace("/", "_")
        return sorted((read_story(path) for path in self.notes.glob(f"{name}.*")),
                      key=lambda story: story.attempt)

    def attempts(self) -> list[dict[str, Any]]:
        """Those of all trials."""
        trials = self.cluster.bridge(
            [{"op": "trial_get", "trial_id": f"{self.number}/{n}"} for n in range(self.trials)])
        return [attempt for trial in trials for attempt in trial["attempts"]]

    def check(self, failed: Collection[str] = (), restarted: Optional[Collection[str]] = (),
              deadline_s: float = 120) -> dict[str, Any]:
        """Waits for the end and checks everything. `restarted`: trials that may have (None: any).
        """
        experiment: dict[str, Any] = self.cluster.wait_experiment(self.number, deadline_s)
        trials = self.cluster.bridge(
            [{"op": "trial_get", "trial_id": f"{self.number}/{n}"} for n in range(self.trials)])
        rows = self.cluster.bridge(
            [{"op": "trial_rows", "trial_id": f"{self.number}/{n}"} for n in range(self.trials)])
        counts = {state: n for state, n in experiment["trials_by_state"].items() if n}
        wanted = {"COMPLETED": self.trials - len(failed), "FAILED": len(failed)}
        why = "\n".join(f"{t['id']} {t['reason']} {t['attempts']}" for t in trials
                        if t["state"] != "COMPLETED" and t["id"] not in failed)
        assert counts == {k: n for k, n in wanted.items() if n}, f"{counts}\n{why}"
        for trial, answer in zip(trials, rows):
            assert not answer["more"]
            try:
                self._check_trial(experiment, trial, answer["rows"], trial["id"] in failed,
                                  restarted is None or trial["id"] in restarted)
            except AssertionError as error:
                raise AssertionError(
                    f"trial {trial['id']}: {error}\n{json.dumps(trial['attempts'])}\n"
                    f"{self.stories(trial)}\n{self.cluster.logs()}") from None
        self.cluster.wait_no_trials()
        return experiment

    def _check_trial(self, experiment: dict[str, Any], trial: dict[str, Any], rows: list[Any],
                     failed: bool, may_restart: bool) -> None:
        stories = self.stories(trial)
        attempts = trial["attempts"]
        assert trial["state"] == ("FAILED" if failed else "COMPLETED"), trial["state"]
        assert may_restart or trial["attempt"] == 1, f"restarted: {trial['attempt']}"
        outcomes = [attempt["outcome"] for attempt in attempts]
        assert outcomes[-1] == ("FAILED" if failed else "SUCCEEDED"), outcomes
        assert "SUCCEEDED" not in outcomes[:-1] and None not in outcomes, outcomes
        last = stories[-1]
        assert last.attempt == trial["attempt"], "the last attempt noted nothing"
        assert last.ended != failed
        # In the head: each step once, in order, of the attempt that counts.
        seen = [(row["i"], row["attempt"]) for row in rows]
        steps = [step for step, _ in seen]
        assert steps == list(range(1, len(steps) + 1)), f"rows {seen}"
        assert failed or len(steps) == self.steps, f"rows {seen}"
        assert all(row["training_iteration"] == row["i"] for row in rows), rows
        assert {row["k"] for row in rows} <= {trial["params"]["k"]}
        assert all(a <= b for (_, a), (_, b) in zip(seen, seen[1:])), f"rows {seen}"
        on_disk = [(row["i"], row["attempt"]) for row in self.cluster.rows(experiment, trial)]
        assert on_disk == seen, f"result.json {on_disk}, the head {seen}"
        for index, story in enumerate(stories):
            first_cut = min((later.start for later in stories[index + 1:]), default=self.steps)
            superseded = [step for step, attempt in seen
                          if attempt == story.attempt and step > first_cut]
            assert not superseded, f"attempt {story.attempt} was superseded at {first_cut}: {seen}"
            lost = [step for step in story.told if step <= first_cut
                    and (step, story.attempt) not in seen]
            assert not lost, f"told of attempt {story.attempt} and lost: {lost}"
            committed = max((step for earlier in stories[:index] for step in earlier.committed),
                            default=0)
            assert story.start >= committed, f"step {story.start} after checkpoint {committed}"
