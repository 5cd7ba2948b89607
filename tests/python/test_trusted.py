"""What reading the results of somebody else's search may do: nothing of theirs runs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from rt import tune
from rt._values import restore_values, value_as_text
from rt.tune._experiment import metric_and_mode


class Runs:
    """Unpickled, it makes a directory."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (self.path,)


def trial_with(tmp_path: Path, value: Any) -> Path:
    directory = tmp_path / "trial"
    directory.mkdir()
    (directory / "params.json").write_text(json.dumps({"x": value_as_text(value), "y": 1}))
    (directory / "result.json").write_text("")
    return directory


def test_reading_a_trial_runs_no_code_of_whoever_wrote_it(tmp_path: Path) -> None:
    proof = tmp_path / "ran"
    config = tune.Result.from_path(str(trial_with(tmp_path, Runs(str(proof))))).config
    assert config["x"].startswith("pickle:") and config["y"] == 1
    assert not proof.exists()


def test_values_of_a_trusted_trial_are_loaded(tmp_path: Path) -> None:
    directory = str(trial_with(tmp_path, frozenset({3})))
    assert tune.Result.from_path(directory, unpickle=True).config["x"] == frozenset({3})


def test_literals_need_no_trust(tmp_path: Path) -> None:
    assert restore_values({"x": "py:(64, 32)"}, {}, unpickle=False) == {"x": (64, 32)}


def test_a_search_algorithm_gives_the_metric(monkeypatch: pytest.MonkeyPatch) -> None:
    class Head(tune.search.HeadSearch):
        def __init__(self, metric: str, mode: str) -> None:
            self.metric, self.mode = metric, mode

    config = tune.TuneConfig(search_alg=Head("loss", "min"))
    assert metric_and_mode(config) == ("loss", "min")
    with pytest.raises(ValueError, match="search algorithm has metric 'loss'"):
        metric_and_mode(tune.TuneConfig(metric="acc", mode="max", search_alg=Head("loss", "max")))
