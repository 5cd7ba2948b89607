"""Algorithms of the head that have no class in the package are known from the program itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from rt import _algorithms, tune
from rt.tune.schedulers import runs_in_head
from rt.tune.search import ConcurrencyLimiter

TABLES = [
    {
        "kind": "search", "name": "sweep", "version": 1, "meaning": "", "aliases": ["line"],
        "needs_metric": False,
        "options": [{"name": "steps", "type": "integer", "default": 4, "lower": 1.0, "upper": 9.0,
                     "open": False, "meaning": ""}],
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


def test_mistakes_name_what_is_known() -> None:
    said = r"sweep has no option 'step' \(did you mean 'steps'\?\); its options: steps"
    with pytest.raises(ValueError, match=said):
        tune.create_searcher("sweep", step=5)
    with pytest.raises(ValueError, match="steps must be between 1 and 9, not 10"):
        tune.create_searcher("sweep", steps=10)
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
