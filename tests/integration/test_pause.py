"""`rt exp pause|resume|extend`, `rt trial pause|resume|retry`: a trial saves, ends, and goes on."""

import json
import os
import textwrap
import unittest
from typing import Any

from harness import ClusterTest, wait_until

# Saves when it is asked to; reports one step per file that the test drops.
SCRIPT = """
import json, os, pathlib, time
from rt import tune
gate = pathlib.Path({gate!r})
def train(config):
    (gate / (os.environ["RT_TRIAL_ID"].replace("/", "-") + "." + os.environ["RT_ATTEMPT"])).touch()
    start = 0
    checkpoint = tune.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as path:
            start = int((pathlib.Path(path) / "step").read_text())
    for step in range(start + 1, 31):
        while not (gate / "go").exists() and tune.checkpoint_requested() is None:
            time.sleep(0.01)
        if tune.checkpoint_requested() is not None:
            path = pathlib.Path(os.environ["RT_TRIAL_DIR"]) / "saved"
            path.mkdir(exist_ok=True)
            (path / "step").write_text(str(step))
            tune.report({{"step": step}}, checkpoint=tune.Checkpoint(str(path)))
        else:
            tune.report({{"step": step}})
tuner = tune.Tuner(train, tune_config=tune.TuneConfig(num_samples={samples}),
                   run_config=tune.RunConfig(priority={priority}))
results = tuner.fit()
print("steps", sorted(r.metrics["step"] for r in results))
"""


class PauseTest(ClusterTest):
    workers = 1

    def trial(self, trial_id: str) -> Any:
        return self.cluster.trial(trial_id)

    def wait_trial(self, trial_id: str, state: str) -> Any:
        def there() -> Any:
            trial = self.trial(trial_id)
            return trial if trial["state"] == state else None
        return wait_until(f"trial {trial_id} is {state}", there)

    def wait_trains(self, trial_id: str) -> None:
        """A trial that is RUNNING has a process, which may not have come to its function yet."""
        attempt = self.wait_trial(trial_id, "RUNNING")["attempt"]
        met = self.gate / f"{trial_id.replace('/', '-')}.{attempt}"
        wait_until(f"trial {trial_id} trains", met.exists)

    def wait_exp(self, number: int, state: str) -> Any:
        def there() -> Any:
            one = self.cluster.experiment(number)
            return one if one["state"] == state else None
        return wait_until(f"experiment {number} is {state}", there)

    def submit(self, name: str, samples: int, priority: int = 0) -> int:
        gate = self.cluster.work / name
        gate.mkdir()
        script = self.cluster.work / f"{name}.py"
        script.write_text(textwrap.dedent(SCRIPT.format(
            gate=str(gate), samples=samples, priority=priority)))
        job = int(self.cluster.rt("submit", "--detach", script.name, "-o", "quiet").stdout)

        def made() -> Any:
            ids = self.cluster.json("job", "show", str(job))["experiment_ids"]
            return ids[0] if ids else None
        self.job = job
        self.gate = gate
        return int(wait_until("the driver made its experiment", made))

    def test_a_paused_search_saves_and_goes_on(self) -> None:
        number = self.submit("pause", 2)
        for trial in (0, 1):
            self.wait_trains(f"{number}/{trial}")
        self.cluster.rt("exp", "pause", str(number), "--reason", "for lunch")
        paused = self.wait_exp(number, "PAUSED")
        self.assertEqual(paused["reason"], "paused: for lunch")
        for trial in (0, 1):
            shown = self.trial(f"{number}/{trial}")
            self.assertEqual(shown["state"], "PAUSED")
            self.assertEqual([a["outcome"] for a in shown["attempts"]], ["SUSPENDED"])
            self.assertEqual(shown["step"], 1)
            self.assertEqual(len(shown["checkpoints"]), 1)
            self.assertIn("rt exp resume", shown["waiting"]["frees"])
        (self.gate / "go").touch()
        self.cluster.rt("exp", "resume", str(number))
        done = self.wait_exp(number, "COMPLETED")
        self.assertEqual(done["trials_by_state"]["COMPLETED"], 2)
        for trial in (0, 1):
            shown = self.trial(f"{number}/{trial}")
            self.assertEqual((shown["reports"], shown["failures"], shown["attempt"]), (30, 0, 2))
        logs = wait_until("the driver ends", lambda: self.driver_output())
        self.assertIn("steps [30, 30]", logs)

    def driver_output(self) -> str:
        job = self.cluster.json("job", "show", str(self.job))
        if job["state"] != "SUCCEEDED":
            return ""
        return self.cluster.rt("logs", f"j{self.job}").stdout

    def test_one_trial_is_paused_and_resumed(self) -> None:
        number = self.submit("one", 2)
        self.wait_trains(f"{number}/0")
        self.cluster.rt("trial", "pause", f"{number}/0")
        self.wait_trial(f"{number}/0", "PAUSED")
        (self.gate / "go").touch()
        self.wait_trial(f"{number}/1", "COMPLETED")
        self.assertEqual(self.cluster.experiment(number)["state"], "RUNNING")
        self.cluster.rt("trial", "resume", f"{number}/0")
        self.wait_exp(number, "COMPLETED")

    def yaml(self, name: str, command: list[str], **more: Any) -> int:
        path = self.cluster.work / f"{name}.yaml"
        path.write_text(json.dumps({"experiment": name, "command": command, **more}))
        done = self.cluster.rt("submit", "--detach", path.name, "-o", "quiet")
        return int(done.stdout)

    def test_a_program_that_cannot_be_told_is_ended_and_starts_again(self) -> None:
        flag = self.cluster.work / "flag"
        number = self.yaml("deaf", ["/bin/sh", "-c", f"test -e {flag} || sleep 600"])
        self.wait_trial(f"{number}/0", "RUNNING")
        self.cluster.rt("trial", "pause", f"{number}/0")
        self.wait_trial(f"{number}/0", "PAUSED")
        flag.touch()
        self.cluster.rt("trial", "resume", f"{number}/0")
        self.wait_exp(number, "COMPLETED")

    def test_extend_and_retry_what_is_over(self) -> None:
        flag = self.cluster.work / "repaired"
        number = self.yaml("grow", ["/bin/sh", "-c", f"test -e {flag}"], num_samples=2)
        self.assertEqual(self.wait_exp(number, "FAILED")["trials_total"], 2)
        results = self.cluster.experiment(number)["results_dir"]
        flag.touch()
        self.cluster.rt("exp", "extend", str(number), "--samples", "3")
        grown = self.wait_exp(number, "COMPLETED")
        self.assertEqual(grown["trials_total"], 5)
        self.assertEqual(grown["trials_by_state"]["FAILED"], 2)
        self.cluster.rt("trial", "retry", f"{number}/0")
        self.wait_trial(f"{number}/0", "COMPLETED")
        self.wait_exp(number, "COMPLETED")
        self.cluster.rt("exp", "resume", str(number), "--failed")
        done = wait_until("the last failed one is done", lambda: self.all_completed(number))
        self.assertEqual(done["trials_by_state"]["FAILED"], 0)
        self.assertEqual(len([d for d in os.listdir(results) if "_0000" in d]), 5)
        refused = self.cluster.rt("exp", "resume", str(number), check=False)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("nothing left to do", refused.stderr)

    def all_completed(self, number: int) -> Any:
        one = self.cluster.experiment(number)
        return one if one["trials_by_state"]["COMPLETED"] == 5 else None

    def test_a_search_that_a_person_stopped_goes_on(self) -> None:
        number = self.submit("stopped", 2)
        self.wait_trains(f"{number}/0")
        self.cluster.rt("exp", "stop", str(number))
        self.wait_exp(number, "STOPPED")
        (self.gate / "go").touch()
        self.cluster.rt("exp", "resume", str(number))
        self.assertEqual(self.wait_exp(number, "COMPLETED")["trials_by_state"]["COMPLETED"], 2)

    def test_a_higher_priority_takes_the_room_of_a_lower_one(self) -> None:
        low = self.submit("low", 2)
        low_gate = self.gate
        for trial in (0, 1):
            self.wait_trains(f"{low}/{trial}")
        high = self.submit("high", 1, priority=5)
        self.wait_trains(f"{high}/0")
        states = sorted(one["state"] for one in self.cluster.trials(low))
        self.assertEqual(states, ["PENDING", "RUNNING"])
        made_room = next(one for one in self.cluster.trials(low) if one["state"] == "PENDING")
        shown = self.trial(made_room["id"])
        self.assertEqual([a["outcome"] for a in shown["attempts"]], ["SUSPENDED"])
        self.assertEqual(len(shown["checkpoints"]), 1)
        self.assertEqual(self.cluster.experiment(high)["priority"], 5)
        (self.gate / "go").touch()
        self.wait_exp(high, "COMPLETED")
        shown = self.wait_trial(made_room["id"], "RUNNING")
        (low_gate / "go").touch()
        self.wait_exp(low, "COMPLETED")
        steps = [row["step"] for row in self.cluster.rows(self.cluster.experiment(low), shown)]
        self.assertEqual(steps, list(range(1, 31)))


if __name__ == "__main__":
    unittest.main()
