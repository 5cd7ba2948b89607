"""Tuner.restore with corrected functions: which settings of a search they replace."""

from __future__ import annotations

from typing import Any

import pytest
from rt import tune
from rt.tune._advice import ENTRIES
from rt.tune._corrected import check_asked, corrected
from rt.tune._experiment import Request
from rt.tune._hangs import failed_call
from rt.tune.search import Searcher


def train(config: dict[str, Any]) -> None:
    pass


def old(trial_id: str, result: dict[str, Any]) -> bool:
    return False


def new(trial_id: str, result: dict[str, Any]) -> bool:
    return True


def started() -> Request:
    return Request(
        train,
        {"x": tune.uniform(0, 1)},
        tune.TuneConfig(metric="v", mode="max", num_samples=3),
        tune.RunConfig(name="e", stop=old, verbose=0),
    )


def test_what_is_given_replaces_and_the_rest_stays() -> None:
    made = corrected(started(), None, tune.RunConfig(stop=new))
    assert made.run.stop is new and made.run.name == "e" and made.run.verbose == 0
    assert made.tune == started().tune
    same = tune.TuneConfig(metric="v", mode="max", num_samples=3, trial_name_creator=str)
    assert corrected(started(), same, None).tune.trial_name_creator is str


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"num_samples": 4}, "num_samples is 3, and cannot become 4"),
        ({"mode": "min"}, "mode is 'max', and cannot become 'min'"),
        ({"scheduler": tune.schedulers.ASHAScheduler(max_t=9)}, "scheduler is "),
    ],
)
def test_a_setting_of_the_head_is_refused(setting: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        corrected(started(), tune.TuneConfig(**setting), None)
    with pytest.raises(ValueError, match="stop is "):
        corrected(started(), None, tune.RunConfig(stop={"v": 3}))


def test_what_the_head_does_not_ask_is_refused() -> None:
    check_asked({"judges": True}, {"judges": True, "watches": True})
    check_asked({}, {"judges": True})
    check_asked({"judges": True, "watches": True}, {"judges": True})
    with pytest.raises(ValueError, match="for stop or scheduler cannot be given one later"):
        check_asked({"judges": True}, {"watches": True})
    with pytest.raises(ValueError, match="without callbacks"):
        check_asked({"watches": True}, {})


class Fails(Searcher):
    def suggest(self, trial_id: str) -> Any:
        raise KeyError(trial_id)


def test_an_error_says_in_which_function_and_how_to_go_on() -> None:
    def enter() -> None:
        Fails("v", "max").suggest("1/0")

    with pytest.raises(KeyError) as caught:
        enter()
    assert failed_call(caught.value, ENTRIES) is None  # Not below poll().
    call = failed_call(caught.value, [enter.__code__])
    assert call is not None
    assert str(call).startswith("Fails.suggest (test_corrected.py:")
    assert "trainable, tune_config=tune.TuneConfig(search_alg=...)).fit()" in call.advice("/d")
