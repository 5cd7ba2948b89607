"""What callbacks see of a trial whose configuration a clone has changed."""

from __future__ import annotations

from typing import Any

import pytest
from rt import tune
from rt.tune._explore import explored
from rt.tune.search import Searcher
from test_advice import Head, advised, entry, row


class Configs(tune.Callback):
    """What callbacks see of a trial's configuration, by hook."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def on_trial_start(self, iteration: int, trials: Any, trial: Any, **info: Any) -> None:
        self.seen.append(("start", trial.config["lr"], trial.evaluated_params))

    def on_trial_result(
        self, iteration: int, trials: Any, trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        self.seen.append(("result", trial.config["lr"], result["config"]["lr"]))


def test_a_clone_has_its_new_configuration_in_callbacks() -> None:
    first = entry(2, "trial", params={"lr": 0.5, "rest": 1}, name="t0")
    cloned = {"lr": 0.25, "rest": 1}
    # The rows of an attempt may come before its start, which both say what it has.
    history = [first, entry(3, "start", rank=0), row(4, 1),
               {**row(5, 2), "attempt": 2, "params": cloned},
               entry(6, "start", rank=0, params=cloned) | {"attempt": 2}]  # fmt: skip
    head, callback = Head(), Configs()
    advisors = advised(head, callbacks=[callback], space={"lr": {"uniform": [0, 1]}, "rest": 1})
    head.say(*history)
    advisors.poll(0)
    assert callback.seen == [("start", 0.5, {"lr": 0.5}), ("result", 0.5, 0.5),
                             ("start", 0.25, {"lr": 0.25}), ("result", 0.25, 0.25)]  # fmt: skip
    # A driver that comes back knows it as well.
    again, callback = Head(answered_seq=6), Configs()
    advisors = advised(again, callbacks=[callback])
    again.say(*history, {"seq": 7, "kind": "answered", "through": 6},
              {**row(8, 3), "attempt": 2, "params": cloned})  # fmt: skip
    advisors.poll(0)
    assert callback.seen == [("result", 0.25, 0.25)]


def test_a_clone_that_would_be_too_large_has_the_configuration_of_the_head() -> None:
    asked = entry(5, "explore", params={"lr": 0.5})
    small = explored(lambda config: {**config, "more": "a" * 1000}, asked, {})
    assert set(small["params"]) == {"lr", "more"}
    large = explored(lambda config: {**config, "more": "a" * 100_000}, asked, {})
    assert "at most 65536 bytes" in large["failure"] and "params" not in large


@pytest.mark.parametrize(
    ("found", "text"),
    [
        ({"x": "a" * 100_000}, r"Mine\.suggest: a configuration has at most 65536 bytes"),
        ({"x": tune.uniform(0, 1)}, r"Mine\.suggest: x: .* is to be drawn"),
        ([1], r"Mine\.suggest returned \[1\]; it returns a configuration as a dict, None"),
        ("x", r"Mine\.suggest returned 'x'"),
    ],
)
def test_a_suggestion_that_is_no_configuration_names_its_searcher(found: Any, text: str) -> None:
    class Mine(Searcher):
        def suggest(self, trial_id: str) -> Any:
            return found

    head = Head()
    advisors = advised(head, searcher=Mine("loss", "min"))
    head.say(asked=(0,))
    with pytest.raises(ValueError, match=text):
        advisors.poll(0)
