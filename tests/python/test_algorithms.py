"""Algorithms of the head that have no class in the package are known from the program itself."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from rt import _algorithms, tune
from rt.tune._native import notes_of_search
from rt.tune._ray_searchers import TuneBOHB
from rt.tune.schedulers import runs_in_head
from rt.tune.search import ConcurrencyLimiter, Repeater, Searcher

TABLES = [
    {
        "kind": "search", "name": "sweep", "version": 1, "meaning": "", "aliases": ["line"],
        "needs_metric": False,
        "options": [{"name": "steps", "type": "integer", "default": 4, "lower": 1.0, "upper": 9.0,
                     "open": False, "meaning": ""}],
    },
    {
        "kind": "search", "name": "bohb", "version": 1, "meaning": "", "aliases": [],
        "needs_metric": True,
        "options": [{"name": "candidates", "type": "integer", "default": 64, "lower": 1.0,
                     "upper": None, "open": False, "meaning": ""},
                    {"name": "evaluated", "type": "evaluated", "default": [], "meaning": ""}],
    },
    {
        "kind": "scheduler", "name": "patience", "version": 2, "meaning": "", "aliases": [],
        "needs_metric": True,
        "options": [{"name": "at", "type": "number", "default": 2.0, "lower": 0.0, "upper": None,
                     "open": True, "meaning": ""}],
    },
]  # fmt: skip


@pytest.fixture(autouse=True)
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    binary = tmp_path / "rt"
    reply = json.dumps({"algorithms": TABLES})
    binary.write_text(f"#!/bin/sh\n[ \"$*\" = 'bridge --algorithms' ] && echo '{reply}'\n")
    binary.chmod(0o755)
    monkeypatch.setenv("RT_BIN", str(tmp_path))
    _algorithms.tables.cache_clear()
    yield
    _algorithms.tables.cache_clear()


def test_a_scheduler_of_the_head_is_used_by_its_name() -> None:
    scheduler = tune.create_scheduler("patience", at=3)
    assert scheduler.to_spec() == {"patience": {"at": 3}}
    assert runs_in_head(scheduler) and scheduler.needs_metric
    with pytest.raises(ValueError, match="patience compares trials by a metric"):
        tune.run(print, scheduler="patience")


def test_a_search_algorithm_of_the_head_is_used_by_its_name() -> None:
    search = tune.create_searcher("line", steps=5, random_state=7, max_concurrent=2)
    assert search.to_spec() == {"sweep": {"steps": 5}}
    assert (search.seed, search.max_concurrent) == (7, 2)
    assert tune.create_searcher("line", steps=5, seed=7).seed == 7
    with pytest.raises(ValueError, match="seed and random_state are two names"):
        tune.create_searcher("line", seed=7, random_state=8)


def test_a_name_that_is_a_librarys_too_takes_the_options_of_the_algorithm() -> None:
    assert isinstance(tune.create_searcher("bohb", bohb_config={}, seed=3), TuneBOHB)
    search = tune.create_searcher("bohb", candidates=5, seed=3, max_concurrent=2)
    assert search.to_spec() == {"bohb": {"candidates": 5}}
    assert (search.seed, search.max_concurrent) == (3, 2)
    with pytest.raises(ValueError, match=r"bohb has no option 'candidate' \(did you mean"):
        tune.create_searcher("bohb", candidate=5)


def test_known_results_without_a_finite_value_are_failures() -> None:
    nan, values = float("nan"), [1, np.float64(2.5), float("inf"), [1.0, float("nan")], None]
    results = [{"config": {"x": 0.5}, "value": value} for value in [nan, *values]]
    search = tune.create_searcher("bohb", evaluated=results)
    told = search.to_spec()["bohb"]["evaluated"]
    assert [each["value"] for each in told] == [None, 1, 2.5, None, None, None]
    assert math.isnan(results[0]["value"])  # What the script gave is as it was.


def test_limiters_and_repeaters_refuse_what_is_no_number_of_trials() -> None:
    inner = tune.create_searcher("bohb")
    for wrong in ("2", float("nan"), 0, 2.5, None):
        with pytest.raises(ValueError, match="max_concurrent must be"):
            ConcurrencyLimiter(inner, wrong)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="repeat must be"):
            Repeater(inner, wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"searcher is a Searcher such as TPESearch.*not 'tpe'"):
        Repeater("tpe", 2)  # type: ignore[arg-type]


def test_an_algorithm_of_the_head_is_asked_by_the_script_for_a_repeater_and_a_batch() -> None:
    head = tune.create_searcher("bohb", candidates=5, metric="loss", mode="min", random_state=4)
    for around in (Repeater(head, 2), ConcurrencyLimiter(head, 2, batch=True)):
        assert isinstance(around.searcher, Searcher)
        assert around.searcher.chosen() is head
        assert (around.searcher.metric, around.searcher.mode) == ("loss", "min")
        assert "'bohb' of rt, which sees the values at the ends" in notes_of_search(around)[0]
    with pytest.raises(ValueError, match="the mean of one metric"):
        Repeater(head, 2).set_search_properties(["a", "b"], "min", {})  # type: ignore[arg-type]


def test_mistakes_name_what_is_known() -> None:
    said = r"sweep has no option 'step' \(did you mean 'steps'\?\); its options: steps"
    with pytest.raises(ValueError, match=said):
        tune.create_searcher("sweep", step=5)
    with pytest.raises(ValueError, match="steps must be between 1 and 9, not 10"):
        tune.create_searcher("sweep", steps=10)
    with pytest.raises(ValueError, match="steps must be a number, not nan"):
        tune.create_searcher("sweep", steps=float("nan"))
    with pytest.raises(ValueError, match="at must be above 0, not 0"):
        tune.create_scheduler("patience", at=0)
    with pytest.raises(ValueError, match=r"did you mean 'patience'\?\); known: .*asha"):
        tune.create_scheduler("patient")
    with pytest.raises(ValueError, match=r"did you mean 'sweep'\?\); known: ax, .*random, sweep"):
        tune.create_searcher("swep")
    with pytest.raises(ValueError, match="points_to_evaluate must be a list of dicts"):
        tune.create_searcher("basic", points_to_evaluate=3)


def test_a_search_by_name_takes_metric_and_mode() -> None:
    search = tune.create_searcher("line", metric="loss", mode="min", steps=5)
    assert (search.metric, search.mode) == ("loss", "min")  # type: ignore[attr-defined]
    assert search.to_spec() == {"sweep": {"steps": 5}}
    with pytest.raises(ValueError, match="mode"):
        tune.create_searcher("line", metric="loss", mode="least")
    with pytest.raises(ValueError, match="give it to the Tuner as param_space"):
        tune.create_searcher("line", space={"x": 1})


def test_a_limiter_passes_on_the_algorithm_that_it_limits() -> None:
    inner = tune.create_searcher("basic", points_to_evaluate=[{"x": 1}])
    limited = ConcurrencyLimiter(inner, 2)
    assert limited.to_spec() == {"basic": {"points": [{"x": 1}]}}


def test_a_program_that_is_not_there_is_named_with_what_names_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RT_BIN", str(tmp_path / "nowhere"))
    _algorithms.tables.cache_clear()
    with pytest.raises(RuntimeError, match="nowhere cannot be started: No such file"):
        _algorithms.tables()
