"""A misspelt metric: what its search says in a script."""

from __future__ import annotations

from typing import Any, Optional

import pytest
from fake_world import World, trial
from rt import tune

PROBLEM = "a report does not have the metric 'loss'; reported: lss; did you mean 'lss'?"


def objective(config: dict[str, Any]) -> dict[str, Any]:
    return {"loss": 1}


def fit(metric: Optional[str] = "loss") -> tune.ResultGrid:
    tuner = tune.Tuner(
        objective,
        tune_config=tune.TuneConfig(metric=metric, mode="min"),
        run_config=tune.RunConfig(name="strict", verbose=0),
    )
    return tuner.fit()


def failed_world(world: World) -> None:
    trials = [trial(n, state="FAILED", metrics={"lss": 1, "time_total_s": 2}) for n in range(3)]
    error = {"error": {"class": "MetricError", "message": PROBLEM}}
    details = {each["id"]: error for each in trials}
    experiment = {"state": "FAILED", "reason": f"breaker: its first 3 trials: {PROBLEM}"}
    world.set(*trials, details=details, experiment=experiment)


def test_the_results_of_a_misspelt_metric_name_it(world: World) -> None:
    failed_world(world)
    grid = fit()
    assert grid.num_errors == 3 and PROBLEM in str(grid.errors[0])
    with pytest.raises(ValueError) as caught:
        grid.get_best_result()
    assert str(caught.value) == (
        "no trial reported the metric 'loss'; reported: lss (filled in by rt: time_total_s); did "
        f"you mean 'lss'? 3 of 3 trials failed; the first, trial 1/0: {PROBLEM}"
    )


def test_run_raises_what_the_first_trial_failed_with(world: World) -> None:
    failed_world(world)
    with pytest.raises(tune.TuneError, match="breaker: its first 3 trials: a report") as caught:
        tune.run(objective, metric="loss", mode="min", verbose=0)
    assert PROBLEM in str(caught.value.__cause__)
    assert isinstance(caught.value, ValueError)  # Of what a script gave: the name of the metric.


def test_a_name_inside_a_map_is_meant(world: World) -> None:
    world.set(trial(0, metrics={"eval": {"loss": 1.0}, "los": 2}))
    with pytest.raises(ValueError, match=r"did you mean 'eval/loss'\?"):
        fit()


def test_a_metric_that_is_a_text_is_said_to_be_one(world: World) -> None:
    world.set(trial(0, metrics={"loss": "small"}))
    with pytest.raises(ValueError, match="ended without a number for the metric 'loss'; reported: "
                                         "loss; no value of 'loss' is a number"):
        fit()


def test_a_last_row_without_the_metric_ends_no_search(world: World) -> None:
    rows = [{"training_iteration": 1, "loss": 0.5}, {"training_iteration": 2}]
    world.set(trial(0, metrics=rows[-1]), rows={"1/0": rows})
    assert fit()[0].metrics["training_iteration"] == 2


@pytest.mark.parametrize("name", ["RT", "TUNE"])
def test_the_check_can_be_switched_off(
    world: World, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    world.set(trial(0, metrics={"lss": 1}))
    with pytest.raises(ValueError, match="without the metric 'loss'"):
        fit()
    assert "strict_metric" not in world.spec()
    monkeypatch.setenv(f"{name}_DISABLE_STRICT_METRIC_CHECKING", "1")
    assert len(fit()) == 1 and world.spec()["strict_metric"] is False
    keys = [each["key"].split(":")[2] for each in world.asked("experiment_create")]
    assert keys[0] == keys[1], "a driver that is run again would begin a second search"
    fit(metric=None)
    assert "strict_metric" not in world.spec()


def test_what_the_head_warns_of_is_said(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.set(trial(0, metrics={"acc": 1}), warnings=["stop: no row has 'lss'"])
    tune.run(objective, verbose=0)
    assert "warning" not in capsys.readouterr().err
    tune.run(objective)
    assert "rt: warning: stop: no row has 'lss'\n" in capsys.readouterr().err
