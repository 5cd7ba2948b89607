"""A search follows the seeds of the script, as in Ray; its key does not."""

from __future__ import annotations

import json
import random
from typing import Any, Optional

import numpy
import pytest
from fake_world import World
from rt import _driver, tune
from rt.tune import _run
from rt.tune._experiment import Request
from rt.tune.search import BasicVariantGenerator, Searcher


def objective(config: dict[str, Any]) -> dict[str, Any]:
    return {"acc": config["lr"]}


@pytest.fixture
def seeds(world: World, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Starts a search and returns the seed in its specification."""
    # As in a process that never called np.random.seed.
    monkeypatch.setattr(numpy.random.mtrand, "_rand", numpy.random.RandomState())
    for name in ("seed", "randint"):
        monkeypatch.setattr(numpy.random, name, getattr(numpy.random.mtrand._rand, name))

    def search(**more: Any) -> Optional[int]:
        tune.run(objective, config={"lr": tune.uniform(0, 1)}, verbose=0, **more)
        return world.spec().get("seed")

    return search


def test_a_search_follows_the_seed_of_numpy(seeds: Any) -> None:
    numpy.random.seed(3)
    first, second = seeds(), seeds()
    assert first != second
    random.seed()
    numpy.random.seed(3)
    assert [seeds(), seeds()] == [first, second]
    numpy.random.seed(4)
    assert seeds() != first


def test_a_search_follows_the_seed_of_random(seeds: Any) -> None:
    random.seed(3)
    first = seeds()
    random.seed(3)
    assert seeds() == first
    random.seed(4)
    assert seeds() != first


def test_searches_of_a_script_without_seeds_differ(seeds: Any) -> None:
    assert len({seeds() for _ in range(5)}) == 5


def test_a_seed_of_the_search_wins(seeds: Any) -> None:
    numpy.random.seed(3)
    assert seeds(search_alg=BasicVariantGenerator(random_state=17)) == 17
    assert seeds(search_alg=BasicVariantGenerator(random_state=numpy.int64(18))) == 18
    for make in (numpy.random.default_rng, numpy.random.RandomState):
        drawn = [seeds(search_alg=BasicVariantGenerator(random_state=make(5))) for _ in "ab"]
        assert drawn[0] == drawn[1] != seeds(search_alg=BasicVariantGenerator())
    with pytest.raises(ValueError, match=r"the seed .* must be a whole number of 0 or more"):
        BasicVariantGenerator(random_state="5")


def test_a_searcher_of_the_scripts_own_is_not_disturbed(
    seeds: Any, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Fixed(Searcher):
        def suggest(self, trial_id: str) -> Any:
            return self.FINISHED

        def set_search_properties(self, *_: Any, **__: Any) -> bool:
            return True

    numpy.random.seed(3)
    expected = numpy.random.randint(1000)
    monkeypatch.setattr(_run, "_follow", lambda driver, ready, created: None)
    numpy.random.seed(3)
    _run.run_search(Request(objective, tune=tune.TuneConfig(search_alg=Fixed())))
    assert "seed" not in world.spec() and numpy.random.randint(1000) == expected


def test_a_seed_that_was_drawn_is_not_part_of_the_key(seeds: Any, world: World) -> None:
    for value in (3, 4):
        numpy.random.seed(value)
        seeds()
    keys = [each["key"].split(":")[2] for each in world.asked("experiment_create")]
    assert len(set(keys)) == 1
    seeds(search_alg=BasicVariantGenerator(random_state=17))
    assert world.asked("experiment_create")[-1]["key"].split(":")[2] != keys[0]


def test_a_driver_that_is_run_again_draws_with_the_seed_of_its_search(
    seeds: Any, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = []
    monkeypatch.setattr(_run, "_follow", lambda _, ready, created: used.append(ready.advice.seed))
    request = Request(objective, space={"lr": tune.uniform(0, 1)})
    _run.run_search(request)
    known = json.loads(world.file.read_text())
    world.file.write_text(json.dumps({**known, "attached": True, "seed": 99}))
    _driver.close()
    _run.run_search(request)
    _run.resume_search(request, {"id": 1, "state": "RUNNING", "seed": 98}, _run.Fates())
    assert used == [world.spec(0)["seed"], 99, 98]
