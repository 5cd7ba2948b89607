"""Tuner.restore with corrected functions: which settings of a search they replace."""

from __future__ import annotations

from typing import Any

import pytest
from rt import tune
from rt.tune import _run
from rt.tune._advice import ENTRIES, Advice
from rt.tune._corrected import check_asked, check_same_space, corrected
from rt.tune._experiment import Request
from rt.tune._hangs import failed_call
from rt.tune._run import Fates, _reopen
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


class Net:
    pass


def test_another_space_is_refused_and_other_functions_in_it_are_not() -> None:
    def space(**changed: Any) -> dict[str, Any]:
        kept = {"x": tune.uniform(0, 1), "net": tune.choice([Net, None]), "k": {"n": 3}}
        return {**kept, "made": tune.sample_from(lambda _: 1), **changed}

    check_same_space(space(), space(made=tune.sample_from(lambda spec: spec.config.x)))
    check_same_space(None, {})
    changes: list[tuple[dict[str, Any], str]] = [
        ({"x": tune.uniform(0, 2)}, "x is .*, and cannot become "),
        ({"x": 0.5}, "x is .*, and cannot become 0.5"),
        ({"k": {"n": 4}}, "k is .* cannot become "),
        ({"net": tune.choice([int, None])}, "net is "),
        ({"y": 1}, "y is absent, and cannot become 1; give the param_space of the first run"),
    ]
    for changed, said in changes:
        with pytest.raises(ValueError, match=said):
            check_same_space(space(), space(**changed))
    with pytest.raises(ValueError, match="and cannot become absent"):
        check_same_space(space(), {})


class Ending:
    """A head whose search 1 is asked for again while it is ending."""

    def __init__(self, state: str) -> None:
        self.states = [state, state, "STOPPED"]
        self.ops: list[str] = []

    def call(self, op: str, **fields: Any) -> Any:
        self.ops.append(op)
        if op in ("experiment_get", "experiment_wait"):
            return {"state": self.states.pop(0)}
        assert op != "experiment_resume" or self.states == []
        return {}


def test_a_search_that_is_stopping_is_resumed_once_it_has_ended() -> None:
    head = Ending("STOPPING")
    # Its state was another one when it was found.
    assert _reopen(head, {"id": 1, "state": "RUNNING"}, Fates(), "m")  # type: ignore[arg-type]
    assert head.ops == [
        "experiment_get", "experiment_wait", "experiment_wait", "experiment_resume",
    ]  # fmt: skip
    running = Ending("RUNNING")
    assert _reopen(running, {"id": 1}, Fates(), "m")  # type: ignore[arg-type]
    assert running.ops == ["experiment_get"]
    unwanted = Ending("RUNNING")
    fates = Fates(unfinished="keep")
    assert _reopen(unwanted, {"id": 1}, fates, "m")  # type: ignore[arg-type]
    assert unwanted.ops[:2] == ["experiment_get", "experiment_stop"]
    assert unwanted.ops[-1] == "experiment_resume"


@pytest.mark.parametrize("is_left", [True, False])
def test_functions_are_told_nothing_of_a_search_of_which_nothing_is_left(
    is_left: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    followed: list[Advice] = []
    advice = Advice(stoppers=[tune.stopper.NoopStopper()], callbacks=[tune.Callback()])
    ready = _run._Prepared(started(), {}, {}, advice, False, "m")
    monkeypatch.setattr(_run, "_prepare", lambda *_, **__: ready)
    monkeypatch.setattr(_run._driver, "get", lambda: None)
    monkeypatch.setattr(_run, "_reopen", lambda *_: is_left)
    monkeypatch.setattr(_run, "_follow", lambda _, made, __: followed.append(made.advice))
    _run.resume_search(started(), {"id": 1}, Fates())
    assert (len(followed[0].stoppers), len(followed[0].callbacks)) == (int(is_left), 1)
