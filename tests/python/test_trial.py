"""`python -m rt._trial` as a real process against a fake worker."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fake_worker import FakeWorker, wait_until
from rt import tune
from rt._pack import PACKAGE_PARENT, write_payload


def start(
    tmp_path: Path, trainable: Any, config: Any = None, env: Any = None, **more: Any
) -> tuple[FakeWorker, subprocess.Popen[str]]:
    hello = more.pop("hello", {})
    worker = FakeWorker(str(tmp_path), **hello)
    payload = {"trainable": trainable, "values": more.pop("values", {}), **more}
    (tmp_path / "config.json").write_text(json.dumps(config or {}))
    (tmp_path / "trial").mkdir(exist_ok=True)
    environment = {
        **os.environ,
        **worker.env(),
        "RT_CONFIG": str(tmp_path / "config.json"),
        "RT_TRIAL_DIR": str(tmp_path / "trial"),
        "RT_TRAINABLE": write_payload(payload),
        "PYTHONPATH": PACKAGE_PARENT,
        **(env or {}),
    }
    argv = [sys.executable, "-m", "rt._trial"]
    child = subprocess.Popen(argv, env=environment, stderr=subprocess.PIPE, text=True)
    return worker, child


def finish(child: subprocess.Popen[str]) -> tuple[int, str]:
    _, errors = child.communicate(timeout=60)
    return child.returncode, errors


def metrics(worker: FakeWorker, key: str) -> list[Any]:
    return [report["metrics"].get(key) for report in worker.reports]


def test_a_function_reports_and_returns(tmp_path: Path) -> None:
    def train(config: dict[str, Any]) -> dict[str, Any]:
        tune.report({"x": config["a"]})
        return {"x": config["a"] + 1}

    worker, child = start(tmp_path, train, {"a": 1})
    assert finish(child) == (0, "")
    assert metrics(worker, "x") == [1, 2]


def test_a_number_and_a_generator_are_reported(tmp_path: Path) -> None:
    def generate(config: dict[str, Any]) -> Any:
        yield {"x": 1}
        yield 2.5

    worker, child = start(tmp_path, generate)
    assert finish(child)[0] == 0
    assert metrics(worker, "x") == [1, None]
    assert metrics(worker, "_metric") == [None, 2.5]


@pytest.mark.parametrize("chdir", [True, False])
def test_a_trial_changes_into_its_directory_where_that_is_asked_for(
    tmp_path: Path, chdir: bool
) -> None:
    class Steps(tune.Trainable):
        def setup(self, config: dict[str, Any]) -> None:
            self.began = os.getcwd()

        def step(self) -> dict[str, Any]:
            origin = os.environ["TUNE_ORIG_WORKING_DIR"]
            return {"at": self.began, "here": os.getcwd(), "origin": origin, "done": True}

    def where(config: dict[str, Any]) -> dict[str, Any]:
        return {"here": os.getcwd(), "origin": os.environ["TUNE_ORIG_WORKING_DIR"]}

    for trainable in (Steps, where):
        folder = tmp_path / trainable.__name__
        folder.mkdir()
        worker, child = start(folder, trainable, chdir=chdir)
        assert finish(child) == (0, "")
        row = worker.reports[-1]["metrics"]
        expected = str(folder / "trial") if chdir else os.getcwd()
        assert row["here"] == row.get("at", row["here"]) == expected
        assert row["origin"] == os.getcwd()


def test_a_trial_knows_the_directory_of_a_script_on_its_machine(tmp_path: Path) -> None:
    def where(config: dict[str, Any]) -> dict[str, Any]:
        return {"origin": os.environ["TUNE_ORIG_WORKING_DIR"]}

    for name, cwd, env, origin in [
        ("plain", str(tmp_path), {}, str(tmp_path)),
        ("elsewhere", str(tmp_path / "gone"), {}, os.getcwd()),
        ("bundle", str(tmp_path), {"RT_BUNDLE": "m"}, os.getcwd()),
    ]:
        (tmp_path / name).mkdir()
        worker, child = start(tmp_path / name, where, cwd=cwd, env=env)
        assert finish(child) == (0, "")
        assert metrics(worker, "origin") == [origin], name


def test_values_that_json_lacks_arrive_as_themselves(tmp_path: Path) -> None:
    from rt._encode import encode_space

    space, table = encode_space({"net": {"f": tune.choice([len, sum])}, "k": (1, 2)})
    shown = space["net"]["f"]["choice"][1]

    def train(config: dict[str, Any]) -> dict[str, Any]:
        assert config["k"] == (1, 2)
        return {"x": config["net"]["f"]([1, 2])}

    config = {"net": {"f": shown}, "k": space["k"]}
    worker, child = start(tmp_path, train, config, values=table)
    assert finish(child)[0] == 0
    assert metrics(worker, "x") == [3]


def test_an_exception_arrives_with_the_users_frames_only(tmp_path: Path) -> None:
    def helper() -> None:
        raise KeyError("lost")

    def train(config: dict[str, Any]) -> None:
        tune.report({"x": 1})
        helper()

    worker, child = start(tmp_path, train)
    code, errors = finish(child)
    assert code == 1
    assert worker.errors[0]["kind"] == "KeyError"
    assert worker.errors[0]["traceback"].count("test_trial.py") == 2
    assert "_attempt.py" not in worker.errors[0]["traceback"].replace("test_trial.py", "")
    assert "KeyError: 'lost'" in errors
    assert metrics(worker, "x") == [1]


def test_an_error_that_cannot_say_what_it_is_is_reported(tmp_path: Path) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError("no text")

    def trainable(_: Any) -> None:
        raise Mute

    worker, child = start(tmp_path, trainable)
    finish(child)
    worker.close()
    assert worker.errors[0]["kind"] == "Mute"
    assert worker.errors[0]["message"] == "<Mute.__str__ raised an error>"


def test_a_trainable_that_does_not_load_is_an_error(tmp_path: Path) -> None:
    class Broken:
        def __reduce__(self) -> Any:
            return (__import__, ("no_such_module_anywhere",))

    worker, child = start(tmp_path, Broken())
    assert finish(child)[0] == 1
    assert worker.errors[0]["kind"] == "ModuleNotFoundError"


class OldSpelling(tune.Trainable):
    def _setup(self, config: dict[str, Any]) -> None:
        self.total = 0

    def _train(self) -> dict[str, Any]:
        self.total += 1
        return {"total": self.total}

    def _save(self, checkpoint_dir: str) -> str:
        path = os.path.join(checkpoint_dir, "state.txt")
        Path(path).write_text(str(self.total))
        return path

    def _restore(self, checkpoint: Any) -> None:
        self.total = int(Path(checkpoint).read_text())


class NewSpelling(tune.Trainable):
    def setup(self, config: dict[str, Any]) -> None:
        self.total = 0

    def step(self) -> dict[str, Any]:
        self.total += 1
        return {"total": self.total, "done": self.total == 7}

    def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any]:
        return {"total": self.total}

    def load_checkpoint(self, checkpoint: Any) -> None:
        self.total = checkpoint["total"]


STOP_AT_5 = {"stop": [{"key": "training_iteration", "at_most": False, "threshold": 5}]}


def test_a_checkpoint_of_a_dict_gives_it_back(tmp_path: Path) -> None:
    data = {"epoch": 3, "own": Own(7)}
    made = tune.Checkpoint.from_dict(data)
    assert made.to_dict()["epoch"] == 3
    shutil.rmtree(made.path)  # As the worker takes it.
    assert made.to_dict()["own"].value == 7 and os.path.isdir(made.path)
    (tmp_path / "weights").write_text("")
    with pytest.raises(ValueError, match="no dict was saved in this checkpoint; it holds weights"):
        tune.Checkpoint(tmp_path).to_dict()
    with pytest.raises(ValueError, match="from_dict takes a dict, not list"):
        tune.Checkpoint.from_dict([1])  # type: ignore[arg-type]


class Own:
    """Of the script."""

    def __init__(self, value: int) -> None:
        self.value = value


def test_a_class_is_stepped_and_checkpointed(tmp_path: Path) -> None:
    worker, child = start(
        tmp_path, OldSpelling, checkpoint_frequency=2, checkpoint_at_end=True,
        hello={"control": STOP_AT_5},
    )  # fmt: skip
    assert finish(child) == (0, "")
    assert metrics(worker, "total") == [1, 2, 3, 4, 5]
    assert ["checkpoint" in report for report in worker.reports] == [False, True, False, True, True]
    assert "state.txt" in worker.checkpoints[0]
    assert os.listdir(tmp_path / "trial") == []


@pytest.mark.parametrize("time_attr", ["training_iteration", "time_total_s"])
def test_a_class_of_a_population_saves_where_it_is_compared(tmp_path: Path, time_attr: str) -> None:
    class Steady(NewSpelling):
        def step(self) -> dict[str, Any]:
            return {**super().step(), "time_this_iter_s": 1.0}

    control = {**STOP_AT_5, "time_attr": time_attr, "milestones": [2.0, 4.0]}
    worker, child = start(tmp_path, Steady, checkpoint_at_milestones=True,
                          hello={"control": control})  # fmt: skip
    assert finish(child) == (0, "")
    saved = ["checkpoint" in report for report in worker.reports]
    assert saved == [False, True, False, True, False]


@pytest.mark.parametrize("cls", [OldSpelling, NewSpelling])
def test_a_class_goes_on_from_a_checkpoint(tmp_path: Path, cls: Any) -> None:
    made = cls({})
    made.train()
    made.train()
    where = made.save(str(tmp_path / "checkpoint"))
    worker, child = start(
        tmp_path, cls, env={"RT_CHECKPOINT_DIR": where},
        hello={"control": STOP_AT_5, "iteration_base": 2},
    )  # fmt: skip
    assert finish(child) == (0, "")
    assert metrics(worker, "total") == [3, 4, 5]
    assert metrics(worker, "training_iteration") == [3, 4, 5]


def test_done_in_a_result_ends_a_class(tmp_path: Path) -> None:
    worker, child = start(tmp_path, NewSpelling)
    assert finish(child) == (0, "")
    assert metrics(worker, "total") == list(range(1, 8))


def test_sigterm_ends_a_class_after_its_step_with_a_checkpoint(tmp_path: Path) -> None:
    class Slow(NewSpelling):
        def step(self) -> dict[str, Any]:
            import time

            time.sleep(0.01)
            self.total += 1
            return {"total": self.total}

    worker, child = start(tmp_path, Slow, checkpoint_at_end=True)
    wait_until(lambda: len(worker.reports) >= 2, 30)
    child.send_signal(signal.SIGTERM)
    assert finish(child)[0] == 143
    assert "checkpoint" in worker.reports[-1]


def test_a_worker_that_cannot_be_reached_is_one_line(tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": PACKAGE_PARENT}
    child = subprocess.run(
        [sys.executable, "-m", "rt._trial"], env=env, capture_output=True, text=True, check=False
    )
    assert child.returncode == 1
    assert child.stderr.count("\n") == 1


def test_a_checkpoint_of_a_dict_may_hold_what_only_the_script_knows(tmp_path: Path) -> None:
    class Local:
        value = 3

    class Trains(tune.Trainable):
        def save_checkpoint(self, checkpoint_dir: str) -> Any:
            return {"kind": Local, "function": lambda: 4}

        def load_checkpoint(self, checkpoint: Any) -> None:
            self.found = (checkpoint["kind"].value, checkpoint["function"]())

    Trains().save(str(tmp_path))
    restored = Trains()
    restored.restore(str(tmp_path))
    assert restored.found == (3, 4)


def test_a_child_that_is_ended_as_soon_as_it_is_forked_ends(tmp_path: Path) -> None:
    def train(config: dict[str, Any]) -> dict[str, Any]:
        ended = 0
        for _ in range(100):
            child = os.fork()
            if child == 0:
                signal.pause()
                os._exit(0)
            os.kill(child, signal.SIGTERM)
            ended += os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGTERM
        return {"ended": ended}

    worker, child = start(tmp_path, train)
    assert finish(child) == (0, "")
    assert metrics(worker, "ended") == [100]
