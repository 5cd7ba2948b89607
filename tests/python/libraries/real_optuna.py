"""OptunaSearch where it runs Optuna itself."""

from __future__ import annotations

from typing import Any

import optuna
import pytest
from rt import tune
from rt.tune._experiment import Request, advice_of, build_spec, tell_properties
from rt.tune.search import ConcurrencyLimiter
from rt.tune.search.optuna import OptunaSearch

SPACE = {
    "lr": tune.loguniform(1e-4, 1e-1), "net": {"width": tune.randint(1, 9)},
    "step": tune.quniform(0, 1, 0.25), "kind": tune.choice([(1, 2), (3, 4)]), "fixed": 7,
}  # fmt: skip


@pytest.fixture(autouse=True)
def quiet() -> None:
    optuna.logging.set_verbosity(optuna.logging.WARNING)


def minimised(search: Any, count: int, value: Any) -> list[dict[str, Any]]:
    """The configurations of `count` trials, of which each has ended before the next."""
    configs = []
    for number in range(count):
        config = search.suggest(f"1/{number}")
        configs.append(config)
        search.on_trial_result(f"1/{number}", {"training_iteration": 1, "loss": value(config)})
        search.on_trial_complete(f"1/{number}", {"loss": value(config)})
    return configs


def test_a_sampler_of_the_users_own_proposes() -> None:
    sampler = optuna.samplers.RandomSampler(seed=4)
    search = OptunaSearch(sampler=sampler, metric="loss", mode="min")
    request = Request(print, SPACE, tune.TuneConfig(search_alg=ConcurrencyLimiter(search, 2)))
    spec = build_spec(request)[0]
    advice = advice_of(request, spec)
    assert advice.searcher is search and spec["max_concurrent"] == 2
    tell_properties(request, advice, spec)
    assert spec["space"] == {"net": {}, "fixed": 7}
    configs = minimised(search, 5, lambda config: config["lr"])
    assert search.study is not None and search.study._study.sampler is sampler
    for config in configs:
        assert sorted(config) == ["kind", "lr", "net/width", "step"]
        assert config["kind"] in [(1, 2), (3, 4)] and 1 <= config["net/width"] <= 8
        assert config["step"] * 4 == int(config["step"] * 4)
    assert search.study._study.best_value == min(config["lr"] for config in configs)


def test_a_function_defines_the_space_while_it_runs() -> None:
    def space(trial: Any) -> Any:
        if trial.suggest_categorical("kind", ["a", "b"]) == "a":
            trial.suggest_float("only_a", 0, 1)
        return {"constant": 3}

    search = OptunaSearch(space, metric="loss", mode="min", seed=1)
    configs = minimised(search, 12, lambda config: config.get("only_a", 2))
    assert all(("only_a" in config) == (config["kind"] == "a") for config in configs)
    assert {config["constant"] for config in configs} == {3}
    again = OptunaSearch(space, metric="loss", mode="min", seed=1)
    assert minimised(again, 12, lambda config: config.get("only_a", 2)) == configs
    bad = OptunaSearch(lambda trial: 3, metric="loss", mode="min")
    with pytest.raises(ValueError, match="returns a dict of constants or None, not int"):
        bad.suggest("1/0")


def test_several_objectives_and_ends_of_all_kinds() -> None:
    search = OptunaSearch(metric=["loss", "size"], mode=["min", "max"], seed=1)
    assert search.set_search_properties(None, None, {"x": tune.uniform(0, 1)})
    for number, (result, error) in enumerate(
        [({"loss": 1.0, "size": 2.0}, False), (None, True), ({"loss": 1.0}, False)]
    ):
        search.suggest(f"1/{number}")
        search.on_trial_complete(f"1/{number}", result, error)
    assert search.study is not None
    states = [each.state.name for each in search.study._study.trials]
    assert states == ["COMPLETE", "FAIL", "PRUNED"]
    assert [each.name for each in search.study._study.directions] == ["MINIMIZE", "MAXIMIZE"]


def test_points_come_first_and_known_values_are_not_run() -> None:
    search = OptunaSearch(
        {"x": tune.uniform(0, 1)}, "loss", "min", [{"x": 0.25}, {"x": 0.5}],
        optuna.samplers.TPESampler(seed=1), evaluated_rewards=[3.0],
    )  # fmt: skip
    assert search.suggest("1/0") == {"x": 0.5}
    assert search.study is not None
    assert [each.values for each in search.study._study.trials] == [[3.0], None]


def test_a_space_that_optuna_cannot_draw_is_refused() -> None:
    for space, text in [
        ({"x": tune.grid_search([1])}, "a grid_search in the space"),
        ({"x": tune.randn()}, "x: Optuna draws from no normal distribution"),
        ({"x": tune.qloguniform(2, 8, 2)}, "x: Optuna has no logarithmic range with steps"),
    ]:
        search = OptunaSearch(space, sampler=optuna.samplers.RandomSampler())
        with pytest.raises(ValueError, match=text):
            search.suggest("1/0")


def test_optunas_distributions_become_tunes() -> None:
    made = optuna.distributions
    search = OptunaSearch({
        "a": made.FloatDistribution(0, 1), "b": made.FloatDistribution(1, 2, log=True),
        "c": made.FloatDistribution(0, 1, step=0.5), "d": made.IntDistribution(1, 8),
        "e": made.IntDistribution(2, 8, step=2), "f": made.CategoricalDistribution(["u", "v"]),
    })  # fmt: skip
    assert isinstance(search.space, dict)
    assert list(map(repr, search.space.values())) == [
        "uniform(0.0, 1.0)", "loguniform(1.0, 2.0)", "quniform(0.0, 1.0, 0.5)", "randint(1, 9)",
        "qrandint(2, 8, 2)", "choice('u', 'v')",
    ]  # fmt: skip
