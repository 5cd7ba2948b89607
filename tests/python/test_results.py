"""Results: of trials as they are kept in memory, and as directories show them."""

from __future__ import annotations

import copy
import json
import math
import pickle
import sys
from pathlib import Path
from typing import Any, Optional

import pytest
from rt import tune
from rt._checkpoint import Checkpoint
from rt._values import ValueTable
from rt.tune._files import RUNNING_FILE, SEARCH_FILE, read_search, write_search
from rt.tune._live import LiveTrial
from rt.tune._pareto import hypervolume
from rt.tune._results import ResultGrid
from rt.tune._run import KEPT_STATE
from rt.tune._trial_base import AnyTrial, evaluated, tag_of
from rt.tune._trials import CHECKPOINTS_FILE, Trial, TrialSet, as_dataframe, save_checkpoints

JSON_PAGE = (Path(__file__).resolve().parents[2] / "docs/json.md").read_text()

SPACE = {
    "lr": {"loguniform": [1e-4, 1e-1]},
    "net": {"width": {"choice": [1, 2]}, "depth": 3},
    "late": None,  # sample_from
    "none": None,
    "list": [{"grid": [1, 2]}, 5],
    "odd": {"constant": {"grid": 4}},
}
CONFIG = {
    "lr": 0.01, "net": {"width": 2, "depth": 3}, "late": "a b/c", "none": None, "list": [1, 5],
    "odd": {"grid": 4},
}  # fmt: skip


class KeptTrial(AnyTrial):
    """A trial whose rows and checkpoints (numbers, from 1, with iterations) a test makes up."""

    def __init__(self, number: int = 0, path: str = "", *rows: dict[str, Any]) -> None:
        self.trial_id = f"1/{number}"
        self.trial_name = f"t_1_0000{number}"
        self.state = "COMPLETED"
        self.config: dict[str, Any] = {"a": {"b": number}}
        self.path = path
        self._rows = [{"training_iteration": i + 1, **row} for i, row in enumerate(rows)]
        self.kept: dict[int, int] = {}

    @property
    def rows(self) -> list[dict[str, Any]]:
        return self._rows

    @property
    def last_metrics(self) -> dict[str, Any]:
        return self._rows[-1] if self._rows else {}

    @property
    def error(self) -> Optional[tune.TrialError]:
        return None

    @property
    def checkpoints(self) -> list[tuple[Checkpoint, dict[str, Any]]]:
        def at(number: int) -> Checkpoint:
            return Checkpoint._remote(
                lambda target: (Path(target) / "weights").write_text(str(number)) and None
            )

        return [
            (at(n), {**self._rows[i - 1], "checkpoint_dir_name": f"checkpoint_{n - 1:06d}"})
            for n, i in self.kept.items()
        ]


def grid(*trials: AnyTrial, **experiment: Any) -> TrialSet:
    return TrialSet(experiment, trials, None, None)


def kept_in(directory: Path, *rows: dict[str, Any]) -> KeptTrial:
    """A trial with the files that the head writes."""
    directory.mkdir()
    trial = KeptTrial(0, str(directory), *rows)
    (directory / "params.json").write_text(json.dumps(trial.config))
    (directory / "result.json").write_text("\n".join(map(json.dumps, trial.rows)))
    return trial


def test_copied_checkpoints_have_rays_numbers_and_their_rows(tmp_path: Path) -> None:
    trial = kept_in(tmp_path / "t", {"v": 3}, {"v": 1}, {"v": 9}, {"v": 2})
    trial.kept = {2: 2, 4: 4}
    save_checkpoints(trial)
    result = tune.Result.from_path(trial.path)
    names = ["checkpoint_000001", "checkpoint_000003"]
    assert sorted(each.name for each in (tmp_path / "t").glob("checkpoint_*")) == names
    assert [row["v"] for _, row in result.best_checkpoints] == [1, 2]
    assert [row["checkpoint_dir_name"] for _, row in result.best_checkpoints] == names
    best = result.get_best_checkpoint("v", "min")
    assert best is not None and (Path(best.path) / "weights").read_text() == "2"
    assert sorted(path.name for path in Path(best.path).iterdir()) == ["weights"]


def test_checkpoints_that_are_no_longer_kept_go(tmp_path: Path) -> None:
    trial = kept_in(tmp_path / "t", {"v": 3}, {"v": 1}, {"v": 9})
    mine = tmp_path / "t" / "checkpoint_of_mine"
    mine.mkdir()
    for kept in ({1: 1, 2: 2}, {2: 2, 3: 3}):
        trial.kept = kept
        save_checkpoints(trial)
    found = sorted(each.name for each in (tmp_path / "t").glob("checkpoint_*"))
    assert found == ["checkpoint_000001", "checkpoint_000002", mine.name]


def test_a_trial_without_checkpoints_has_no_note(tmp_path: Path) -> None:
    trial = kept_in(tmp_path / "t", {"v": 3})
    save_checkpoints(trial)
    assert sorted(each.name for each in (tmp_path / "t").iterdir()) == [
        "params.json", "result.json",
    ]  # fmt: skip


def test_a_search_that_was_left_and_moved_is_read_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "e").mkdir()
    trial = kept_in(tmp_path / "e" / "t", {"v": 3, "experiment_tag": "0_b=0"})
    trial.num_failures = 2
    space = {"a": {"b": {"grid": [0, 1]}}}
    waiting = KeptTrial(1, str(tmp_path / "e" / "t1"))
    write_search(grid(trial, waiting, results_dir=str(tmp_path / "e"), state="COMPLETED",
                      space=space, spec={"trainable": "f"}))  # fmt: skip
    fields = json.loads((tmp_path / "e" / SEARCH_FILE).read_text())
    assert f"{{{', '.join(fields)}}}" in JSON_PAGE
    assert f"{{{', '.join(fields['trials'][0])}}}" in JSON_PAGE
    (tmp_path / "e").rename(tmp_path / "moved")
    [found] = read_search(str(tmp_path / "moved"), unpickle=False)
    assert (found.trial_id, found.status, found.is_finished()) == ("1/0", "TERMINATED", True)
    assert (found.trainable_name, found.num_failures, found.has_checkpoint) == ("f", 2, False)
    assert (found.evaluated_params, found.experiment_tag) == ({"a/b": 0}, "0_b=0")
    assert found.metric_analysis["v"] == {"max": 3, "min": 3, "avg": 3, "last": 3}


def cloned_in(directory: Path, name: str = "c") -> KeptTrial:
    """A trial that was cloned after its rows, and has not reported since."""
    trial = kept_in(directory / name, {"v": 9, "config": {"a": {"b": 0}}})
    trial.config = {"a": {"b": 5}}
    (directory / name / "params.json").write_text(json.dumps(trial.config))
    return trial


class CutOff(KeptTrial):
    """As the head tells it: it has no row of its own."""

    last_metrics = {}  # type: ignore[assignment]


@pytest.mark.parametrize("older", [False, True])
def test_the_row_before_a_clone_is_not_its_value_in_the_directory(
    older: bool, tmp_path: Path
) -> None:
    (tmp_path / "e").mkdir()
    kept = cloned_in(tmp_path / "e")
    cut = CutOff(0, kept.path, *kept.rows)
    write_search(grid(cut, results_dir=str(tmp_path / "e"), state="COMPLETED"))
    if older:  # Of a release that did not write it.
        path = tmp_path / "e" / SEARCH_FILE
        fields = json.loads(path.read_text())
        del fields["trials"][0]["has_row"]
        path.write_text(json.dumps(fields))
    found = read_search(str(tmp_path / "e"), unpickle=False)
    [trial] = found
    assert trial.last_metrics == {} and trial.value("v", "max", "last") is None
    assert trial.last_result["v"] == 9 and trial.config == {"a": {"b": 5}}
    with pytest.raises(ValueError, match="no trial reported"):
        found.best("v")
    result = tune.Result.from_path(kept.path)
    assert result.metrics["v"] == 9 and result.config == {"a": {"b": 5}}


def test_a_row_with_a_config_of_its_own_counts(tmp_path: Path) -> None:
    trial = kept_in(tmp_path / "t", {"v": 9, "config": {"mine": 1}})
    assert tune.Result.from_path(trial.path)._trial.last_metrics["v"] == 9
    (tmp_path / "t" / "params.json").write_text('{"x": "NaN"}')
    rows = '{"v": 8, "config": {"x": "NaN"}}\n'
    (tmp_path / "t" / "result.json").write_text(rows)
    assert tune.Result.from_path(trial.path)._trial.last_metrics["v"] == 8


def test_the_front_is_read_from_the_directory(tmp_path: Path) -> None:
    (tmp_path / "e").mkdir()
    trials = []
    for number, row in enumerate([{"loss": 1, "speed": 2}, {"loss": 2, "speed": 1}]):
        trials.append(kept_in(tmp_path / "e" / f"t{number}", row))
    known = {
        "results_dir": str(tmp_path / "e"),
        "state": "COMPLETED",
        "objectives": [{"metric": "loss", "mode": "min"}, {"metric": "speed", "mode": "max"}],
        "constraints": {"speed": {">=": 2}},
    }
    write_search(grid(*trials, **known))
    found = ResultGrid(read_search(str(tmp_path / "e"), unpickle=False))
    assert [each.metrics["loss"] for each in found.get_best_results()] == [1]


def test_each_file_that_a_search_leaves_is_documented() -> None:
    for name in (SEARCH_FILE, RUNNING_FILE, CHECKPOINTS_FILE, KEPT_STATE):
        assert f"{name}`" in JSON_PAGE


def test_what_was_drawn_makes_the_tag() -> None:
    assert evaluated(CONFIG, SPACE) == {
        "lr": 0.01, "net/width": 2, "late": "a b/c", "list/0": 1,
    }  # fmt: skip
    assert tag_of(7, CONFIG, SPACE) == "7_late=a_b_c,0=1,lr=0.0100,width=2"
    assert tag_of(7, {"x": 1}, {"x": 1}) == "7"
    assert evaluated({"x": {"y": 2}, "k": 1}, {"k": 1}) == {"x": {"y": 2}}  # A searcher's.


def test_a_live_trial_goes_by_its_newest_row() -> None:
    trial = LiveTrial("1/7", 7, CONFIG, "t", "f", SPACE)
    assert trial.experiment_tag == "7_late=a_b_c,0=1,lr=0.0100,width=2"
    assert trial.evaluated_params["net/width"] == 2 and trial.trainable_name == "f"
    for value in (3, 1, 2):
        trial.update_last_result({"v": value, "done": False, "experiment_tag": "7_x=1"})
    assert trial.experiment_tag == "7_x=1" and trial.metric_n_steps == {"v": 3}
    assert trial.metric_analysis == {"v": {"max": 3, "min": 1, "avg": 2, "last": 2}}
    trial.ended(failed=False)
    assert trial.last_result["done"] is True and trial.is_finished()


def test_a_metric_that_is_only_nan_is_said_to_be(tmp_path: Path) -> None:
    results = ResultGrid(grid(*(KeptTrial(n, "", {"loss": math.nan}) for n in range(2))))
    with pytest.raises(ValueError, match=r"'loss' is NaN or infinite; filter_nan_and_inf=False"):
        results.get_best_result("loss", "min")
    best = results.get_best_result("loss", "min", filter_nan_and_inf=False)
    assert math.isnan(best.metrics["loss"])
    with pytest.raises(ValueError, match="no trial reported the metric 'acc'"):
        results.get_best_result("acc", "min")


def rows_of(table: Any) -> list[dict[str, Any]]:
    """Of a table of either kind."""
    return list(table.to_dict("records")) if hasattr(table, "iloc") else list(table)


def test_a_trial_with_nothing_but_nan_keeps_its_newest_row() -> None:
    trials = [KeptTrial(0, "", {"loss": 2}, {"loss": 3}), KeptTrial(1, "", {"loss": math.nan})]
    found = rows_of(ResultGrid(grid(*trials)).get_dataframe("loss", "min"))
    assert [row["training_iteration"] for row in found] == [1, 1]
    assert found[0]["loss"] == 2 and math.isnan(found[1]["loss"])


def test_a_table_has_each_trials_first_best_row() -> None:
    results = ResultGrid(grid(KeptTrial(0, "", {"v": 1}, {"v": 3}, {"v": 3}, {"v": 1})))
    for mode, iteration in (("max", 2), ("min", 1)):
        assert rows_of(results.get_dataframe("v", mode))[0]["training_iteration"] == iteration
    for metric, mode in (("v", "best"), (None, "min")):
        with pytest.raises(ValueError, match="mode must be"):
            results.get_dataframe(metric, mode)


def test_an_analysis_goes_by_trial_ids() -> None:
    trials = [KeptTrial(n, f"/r/{n}", {"v": n}, {"v": -n}) for n in range(2)]
    analysis = tune.ExperimentAnalysis(grid(*trials), default_metric="v", default_mode="max")
    assert analysis.get_all_configs() == {"1/0": {"a": {"b": 0}}, "1/1": {"a": {"b": 1}}}
    assert analysis.get_all_configs(prefix=True)["1/1"] == {"config/a/b": 1}
    assert [len(rows_of(each)) for each in analysis.trial_dataframes.values()] == [2, 2]
    assert list(analysis.trial_dataframes) == list(analysis.results) == ["1/0", "1/1"]
    for table, ids in ((analysis.results_df, ["1/0", "1/1"]), (analysis.best_result_df, ["1/0"])):
        by_index = hasattr(table, "iloc")
        assert (list(table.index) if by_index else [row["trial_id"] for row in table]) == ids
        assert rows_of(table)[0]["config/a/b"] == 0
    assert len(as_dataframe([], "trial_id")) == 0


def test_the_last_row_of_a_trial_that_a_scheduler_stopped_is_done() -> None:
    for state, done in (("STOPPED", True), ("COMPLETED", True), ("FAILED", False)):
        item = {"id": "1/0", "state": state, "metrics": {"loss": 1, "done": False}, "params": {}}
        trial = Trial(item, {}, ValueTable({}))
        assert trial.last_result["done"] is done


def test_a_list_that_is_used_as_a_dataframe_says_that_pandas_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    rows = as_dataframe([{"loss": 1}])
    assert rows == [{"loss": 1}] and rows[0]["loss"] == 1 and rows[:1] == [{"loss": 1}]
    assert copy.deepcopy(rows) == rows and pickle.loads(pickle.dumps(rows)) == rows
    for use in (lambda: rows["loss"], lambda: rows.sort_values("loss"), lambda: rows.loc[0]):
        with pytest.raises((ImportError, AttributeError), match="pip install pandas"):
            use()
    assert not hasattr(rows, "iloc")


def test_the_best_checkpoint_is_the_best_of_the_best_trial() -> None:
    trial = KeptTrial(0, "", {"v": 1}, {"v": 5}, {"v": 3})
    trial.kept = {1: 1, 2: 2, 3: 3}
    analysis = tune.ExperimentAnalysis(grid(trial), default_metric="v", default_mode="max")
    assert analysis.best_checkpoint is not None
    assert (Path(analysis.best_checkpoint.path) / "weights").read_text() == "2"


def front_of(*rows: dict[str, Any], **experiment: Any) -> ResultGrid:
    objectives = [{"metric": "loss", "mode": "min"}, {"metric": "speed", "mode": "max"}]
    known = {"objectives": objectives, **experiment}
    trials = [KeptTrial(number, "", row) for number, row in enumerate(rows)]
    return ResultGrid(TrialSet(known, trials, ["loss", "speed"], ["min", "max"]))


def test_the_front_of_several_objectives() -> None:
    rows: list[dict[str, Any]] = [
        {"loss": 3, "speed": 9}, {"loss": 1, "speed": 5}, {"loss": 4, "speed": 4}, {"loss": 0},
        {"loss": math.nan, "speed": 10},
    ]  # fmt: skip
    grid = front_of(*rows)
    assert [each.metrics["loss"] for each in grid.get_best_results()] == [1, 3]
    assert grid.get_hypervolume() == 3 * 1 + 1 * 4
    assert grid.get_hypervolume({"loss": 5, "speed": 0}) == 4 * 5 + 2 * 4
    endless = front_of(*rows, {"loss": math.inf, "speed": 9}, {"loss": 3.5, "speed": -math.inf})
    assert endless.get_hypervolume() == 3 * 1 + 1 * 4
    with pytest.raises(ValueError, match="improves loss, speed together: get_best_results"):
        grid.get_best_result()
    assert grid.get_best_result("loss", "min").metrics["loss"] == 0
    with pytest.raises(ValueError, match="reference is a dict with a value of each of loss, speed"):
        grid.get_hypervolume({"loss": 5})
    kept = front_of(*rows, constraints={"loss": {">=": 2}})
    assert [each.metrics["loss"] for each in kept.get_best_results()] == [3]
    one = ResultGrid(TrialSet({}, [KeptTrial(0, "", {"loss": 1})], "loss", "min"))
    with pytest.raises(ValueError, match="one objective: get_best_result"):
        one.get_best_results()


def test_the_hypervolume_of_three_objectives() -> None:
    points = [[0.5, 0.5, 0.5], [0.25, 0.75, 0.5], [0.75, 0.25, 0.25]]
    assert hypervolume(points, [1, 1, 1]) == pytest.approx(
        0.125 + 0.75 * 0.25 * 0.5 + 0.25 * 0.75 * 0.75 - 0.125 * 0.5 - 0.25 * 0.25 * 0.5
        - 0.25 * 0.5 * 0.5 + 0.25 * 0.25 * 0.5
    )  # fmt: skip
    assert hypervolume([[2, 0, 0]], [1, 1, 1]) == 0


class ClonedTrial(Trial):
    """Its rows are those of the configuration that it had before it was cloned."""

    def _read_rows(self) -> list[dict[str, Any]]:
        return [{"training_iteration": n, "loss": 1 / n, "config": {}} for n in (1, 2)]


def test_a_clone_that_ended_without_a_row_shows_the_last_one_and_is_never_the_best() -> None:
    item = {"id": "1/0", "params": {"lr": 2}, "reports": 2, "metrics": None, "state": "COMPLETED"}
    trial = ClonedTrial(item, {}, ValueTable())
    results = ResultGrid(TrialSet({}, [trial], "loss", "min"))
    assert results[0].metrics["loss"] == 0.5 and results[0].metrics["training_iteration"] == 2
    assert trial.value("loss", "min", "last") is None
    assert ClonedTrial({**item, "state": "RUNNING"}, {}, ValueTable()).last_result == {}
    assert ClonedTrial({**item, "reports": 0}, {}, ValueTable()).last_result == {}
