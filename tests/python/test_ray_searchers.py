"""Ray's search classes with a library's name: what runs for each, and what is said about it."""

from __future__ import annotations

import math
import pickle
from typing import Any

import cloudpickle
import pytest
from fake_world import World
from rt import _algorithms, tune
from rt.tune import _ray_searchers
from rt.tune._experiment import Request, advice_of, build_spec, tell_properties
from rt.tune._native import NATIVE, notes_of_search
from rt.tune._searchers import LIBRARIES
from rt.tune.search import ConcurrencyLimiter, HeadSearch, Repeater, Searcher, SearchGenerator
from rt.tune.search.ax import AxSearch
from rt.tune.search.bayesopt import BayesOptSearch
from rt.tune.search.bohb import TuneBOHB
from rt.tune.search.hebo import HEBOSearch
from rt.tune.search.hyperopt import HyperOptSearch
from rt.tune.search.nevergrad import NevergradSearch
from rt.tune.search.optuna import OptunaSearch
from rt.tune.search.zoopt import ZOOptSearch

SPACE = {"lr": tune.loguniform(1e-4, 1e-1), "fixed": 3}


def table(name: str) -> dict[str, Any]:
    options = [("startup_trials", "integer"), ("points", "points"), ("evaluated", "results")]
    return {
        "kind": "search", "name": name, "version": 1, "meaning": f"the meaning of {name}",
        "aliases": [], "needs_metric": True,
        "options": [{"name": each, "type": kind, "default": 0, "lower": 0.0, "upper": None,
                     "open": False, "meaning": ""} for each, kind in options],
    }  # fmt: skip


@pytest.fixture(autouse=True)
def program(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that has each algorithm of the table."""
    tables = [table(name) for name in {each.algorithm for each in NATIVE.values()}]
    monkeypatch.setattr(_algorithms, "tables", lambda: tables)


def request_of(search: Any, space: Any = None, **more: Any) -> Request:
    return Request(lambda config: None, space, tune.TuneConfig(search_alg=search, **more))


@pytest.mark.parametrize("name", sorted(LIBRARIES))
def test_each_name_runs_the_algorithm_of_the_table(name: str) -> None:
    kind = getattr(_ray_searchers, LIBRARIES[name])
    algorithm = NATIVE[LIBRARIES[name]].algorithm
    for request in (
        request_of(name, SPACE, metric="acc", mode="max"),
        request_of(kind(metric="acc", mode="max"), SPACE),
    ):
        spec = build_spec(request)[0]
        assert list(spec["search"]) == [algorithm]
        assert advice_of(request, spec).to_spec() == {}
        assert (spec["metric"], spec["mode"]) == ("acc", "max")
        assert spec["space"] == {"lr": {"loguniform": [1e-4, 1e-1]}, "fixed": 3}


def test_a_search_says_what_runs_and_which_arguments_change_nothing(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    search = HyperOptSearch(gamma=0.5)
    tune.run(print, config=SPACE, metric="acc", mode="max", search_alg=search)
    said = [line for line in capsys.readouterr().err.splitlines() if "HyperOptSearch" in line]
    assert len(said) == 1
    assert "runs 'tpe' of rt: the meaning of tpe" in said[0] and said[0].endswith(": gamma")
    limited = ConcurrencyLimiter(HyperOptSearch(), 2)
    assert len(notes_of_search(limited)) == 1
    assert notes_of_search(tune.search.BasicVariantGenerator()) == []


def test_a_program_without_the_algorithm_runs_tpe(monkeypatch: pytest.MonkeyPatch) -> None:
    tables: list[dict[str, Any]] = [table("tpe")]
    monkeypatch.setattr(_algorithms, "tables", lambda: tables)
    search = BayesOptSearch(metric="acc", mode="max")
    assert build_spec(request_of(search, SPACE))[0]["search"] == {"tpe": {"startup_trials": 10}}
    assert "runs 'tpe' of rt" in search.note()
    tables.clear()
    with pytest.raises(ValueError, match="has no tpe: install the release"):
        BayesOptSearch().chosen()


def test_arguments_become_options_and_the_seed() -> None:
    spec = build_spec(request_of(HyperOptSearch(n_initial_points=7, random_state_seed=5), SPACE))[0]
    assert spec["search"] == {"tpe": {"startup_trials": 7}} and spec["seed"] == 5
    spec = build_spec(request_of(BayesOptSearch(points_to_evaluate=[{"lr": 0.01}]), SPACE))[0]
    assert spec["seed"] == 42
    name = NATIVE["BayesOptSearch"].algorithm
    assert spec["search"] == {name: {"startup_trials": 10, "points": [{"lr": 0.01}]}}
    assert build_spec(request_of(HEBOSearch(), SPACE))[0]["max_concurrent"] == 8
    assert build_spec(request_of(TuneBOHB(max_concurrent=3), SPACE))[0]["max_concurrent"] == 3


def test_bohb_config_becomes_options_of_bohb(monkeypatch: pytest.MonkeyPatch) -> None:
    bohb = table("bohb")
    for name in ("rows_min", "good_fraction", "candidates", "random_fraction"):
        bohb["options"].append({**bohb["options"][0], "name": name, "type": "number"})
    monkeypatch.setattr(_algorithms, "tables", lambda: [bohb])
    search = TuneBOHB(bohb_config={
        "min_points_in_model": 5, "top_n_percent": 20, "num_samples": 32, "random_fraction": 0.5,
        "min_bandwidth": 0.01,
    })  # fmt: skip
    assert build_spec(request_of(search, SPACE))[0]["search"] == {
        "bohb": {"rows_min": 5, "good_fraction": 0.2, "candidates": 32, "random_fraction": 0.5}
    }
    assert search.note().endswith("that change nothing: bohb_config['min_bandwidth']")


@pytest.mark.parametrize(
    ("search", "space"),
    [
        (HyperOptSearch({"x": tune.uniform(0, 1)}), {"x": {"uniform": [0, 1]}}),
        (BayesOptSearch({"x": (0, 2)}), {"x": {"uniform": [0, 2]}}),
        (
            AxSearch([
                {"name": "a", "type": "range", "bounds": [1e-3, 1.0], "log_scale": True},
                {"name": "b", "type": "range", "bounds": [1, 8]},
                {"name": "c", "type": "choice", "values": ["u", "v"]},
                {"name": "d", "type": "fixed", "value": 4},
            ]),
            {"a": {"loguniform": [1e-3, 1.0]}, "b": {"randint": [1, 9]},
             "c": {"choice": ["u", "v"]}, "d": 4},
        ),
        (
            ZOOptSearch(budget=9, dim_dict={
                "a": ("ValueType.CONTINUOUS", [0, 1], 1e-2),
                "b": ("ValueType.DISCRETE", [-10, 10], False),
                "c": ("ValueType.GRID", ["u", "v"], 1e-2),
            }),
            {"a": {"uniform": [0, 1]}, "b": {"randint": [-10, 11]}, "c": {"choice": ["u", "v"]}},
        ),
    ],
)  # fmt: skip
def test_a_searchers_own_space_is_the_space_of_the_search(search: Any, space: Any) -> None:
    request = request_of(search, {"fixed": 3})
    assert build_spec(request)[0]["space"] == {**space, "fixed": 3}
    again = request_of(search, request.space)  # As Tuner.restore makes it.
    assert build_spec(again)[0]["space"] == {**space, "fixed": 3}
    with pytest.raises(ValueError, match=r"has a space of its own; 'y' is a variable of another"):
        request_of(search, {"y": tune.uniform(0, 1)})


def test_what_would_change_the_meaning_of_a_search_is_refused() -> None:
    for search, arguments, text in [
        (AxSearch, {"ax_client": object()}, "ax_client: rt does not run Ax; a subclass of"),
        (AxSearch, {"outcome_constraints": ["a <= 1"]}, "outcome_constraints: rt has no"),
        (ZOOptSearch, {"algo": "other"}, "'asracos' or 'sracos'"),
        (HyperOptSearch, {"space": object()}, "space is a object of the library"),
        (OptunaSearch, {"space": [("suggest_float", "x", 0, 1)]}, "not a list"),
        (HEBOSearch, {"evaluated_rewards": [1.0]}, "1 values for 0 points"),
        (
            OptunaSearch,
            {"points_to_evaluate": [{"x": 1}], "evaluated_rewards": ["a"]},
            "the value of a known result must be a number, not 'a'",
        ),
        (OptunaSearch, {"mode": "best"}, "mode must be 'min' or 'max'"),
    ]:
        with pytest.raises(ValueError, match=text):
            search(**arguments)
    with pytest.raises(TypeError, match=r"'seeds'.*did you mean 'seed'"):
        OptunaSearch(seeds=1)
    assert "Arguments of the library that change nothing: optimizer" in NevergradSearch(
        optimizer=object()
    ).note()


def test_limiters_and_generators_keep_the_algorithm_in_the_head() -> None:
    search = ConcurrencyLimiter(OptunaSearch(metric="acc", mode="max", seed=3), max_concurrent=4)
    request = request_of(search, SPACE)
    spec = build_spec(request)[0]
    assert list(spec["search"]) == ["tpe"] and spec["max_concurrent"] == 4 and spec["seed"] == 3
    assert (spec["metric"], spec["mode"]) == ("acc", "max")
    assert advice_of(request, spec).searcher is None
    request = request_of(SearchGenerator(OptunaSearch()), SPACE)
    assert isinstance(request.tune.search_alg, SearchGenerator)
    assert list(build_spec(request)[0]["search"]) == ["tpe"]
    with pytest.raises(ValueError, match="BasicVariantGenerator is not a Searcher"):
        SearchGenerator(tune.search.BasicVariantGenerator())  # type: ignore[arg-type]


def test_results_that_are_known_go_to_the_algorithm_of_the_head() -> None:
    points = [{"lr": 0.01}, {"lr": 0.02}, {"lr": 0.03}]
    search = OptunaSearch(points_to_evaluate=points, evaluated_rewards=[0.5, math.nan])
    request = request_of(search, SPACE, metric="acc", mode="max")
    spec = build_spec(request)[0]
    assert spec["search"]["tpe"]["points"] == [{"lr": 0.03}]
    assert spec["search"]["tpe"]["evaluated"] == [
        {"config": {"lr": 0.01}, "value": 0.5},
        {"config": {"lr": 0.02}, "value": None},
    ]
    assert advice_of(request, spec).searcher is None


def test_several_objectives_go_to_the_algorithm_of_the_head() -> None:
    search = OptunaSearch(metric=["loss", "speed"], mode=["min", "max"])
    spec = build_spec(request_of(search, SPACE))[0]
    assert list(spec["search"]) == ["auto"]
    assert spec["metric"] == ["loss", "speed"] and spec["mode"] == ["min", "max"]


def test_a_repeater_and_a_batch_are_asked_in_the_script() -> None:
    for search in (
        Repeater(OptunaSearch(), 3),
        ConcurrencyLimiter(OptunaSearch(), 2, batch=True),
    ):
        request = request_of(search, SPACE, metric="acc", mode="max")
        spec = build_spec(request)[0]
        assert isinstance(advice_of(request, spec).searcher, Searcher)
        assert spec["search"] == {"basic": {}}


def test_a_searcher_that_was_saved_with_the_space_need_not_take_it_again() -> None:
    search = Repeater(OptunaSearch(), 2)
    request = request_of(search, SPACE, metric="acc", mode="max")
    spec = build_spec(request)[0]
    tell_properties(request, advice_of(request, spec), spec)
    again = request_of(pickle.loads(cloudpickle.dumps(search)), SPACE, metric="acc", mode="max")
    advice = advice_of(again, spec)
    with pytest.raises(ValueError, match="did not take the search space"):
        tell_properties(again, advice, spec)
    tell_properties(again, advice, spec, resumed=True)
    assert isinstance(advice.searcher, Repeater)
    assert set(advice.searcher.searcher.space) == set(SPACE)


def test_a_class_of_a_library_can_be_pickled_after_use() -> None:
    search = OptunaSearch(metric="acc", mode="max")
    assert isinstance(search.chosen(), HeadSearch)
    again = pickle.loads(cloudpickle.dumps(search))
    assert again.metric == "acc" and isinstance(again.chosen(), HeadSearch)
