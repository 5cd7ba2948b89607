"""Every public name of Ray and its libraries is there, or says what works instead."""

from __future__ import annotations

import copy
import importlib.util
import pickle
from typing import Any

import pytest
from fake_world import World
from fake_world import trial as world_trial
from ray_names import NAMES
from rt import train, tune
from rt._encode import encode_space
from rt.tune._live import Controller, LiveTrial
from rt.tune.search.sample import Categorical, Domain, Float, Function, Integer

_MODULES = [
    each
    for each in NAMES
    if not each.startswith("train.torch") or importlib.util.find_spec("torch") is not None
]


@pytest.mark.parametrize("module", _MODULES)
def test_a_public_name_of_ray_is_there_or_says_what_works(module: str) -> None:
    bare = []
    path = f"rt.{module}".rstrip(".")
    names = NAMES[module].split()
    for code in [f"import {path}", *(f"from {path} import {name}" for name in names)]:
        try:
            exec(code, {})
        except ImportError as error:
            if "What works now:" not in str(error):
                bare.append(f"{code}: {error}")
    assert bare == []


@pytest.mark.parametrize(
    "code",
    [
        "from rt.tune.tuner import TuneConfig, Tuner",
        "from rt.tune.search.sample import Categorical, Domain, Float, Function, Integer",
        "from rt.tune.registry import get_trainable_cls, register_trainable",
        "from rt.tune.trainable import Trainable, with_parameters, with_resources",
        "from rt.tune.trainable.session import report, get_trial_id",
        "from rt.tune.stopper.timeout import TimeoutStopper",
        "from rt.tune.logger.json import JsonLoggerCallback",
        "from rt.tune.search import grid_search",
        "from rt.train import TRAIN_DATASET_KEY",
    ],
)
def test_a_name_that_costs_nothing_is_there(code: str) -> None:
    exec(code, {})


@pytest.mark.parametrize(
    ("context", "name"),
    [
        (train.get_context(), "get_storage"),
        (train.get_context(), "get_metadata"),
        (tune.get_context(), "get_metadata"),
        (tune.uniform(0, 1), "sampler"),
        (LiveTrial("1/0", 0, {}, "t"), "node_ip"),
        (Controller(None, None), "trial_executor"),
    ],
)
def test_an_attribute_that_is_not_there_yet_says_what_works(context: object, name: str) -> None:
    assert not hasattr(context, name)
    with pytest.raises(AttributeError, match=rf"\.{name} yet \(in Ray: .* What works now: "):
        getattr(context, name)
    kind = type(context).__name__
    with pytest.raises(AttributeError, match=f"'{kind}' object has no attribute 'get_nothing'"):
        getattr(context, "get_nothing")  # noqa: B009
    assert type(copy.deepcopy(context)) is type(context)


def test_a_searcher_is_told_of_an_earlier_search(world: World) -> None:
    class Told(tune.search.Searcher):
        """Keeps what it is told."""

        def suggest(self, trial_id: str) -> Any:
            """Nothing more."""
            return tune.search.FINISHED

        def add_evaluated_point(self, parameters: Any, value: float, *_: Any, **__: Any) -> None:
            """Keeps it."""
            self.known = (parameters, value)

    rows = [{"training_iteration": i, "acc": acc} for i, acc in ((1, 0.5), (2, 0.25))]
    world.set(world_trial(0, metrics=rows[1], params={"lr": 0.1}), rows={"1/0": rows})
    searcher = Told(metric="acc", mode="max")
    searcher.add_evaluated_trials(tune.run(print, config={"lr": tune.uniform(0, 1)}), "acc")
    assert searcher.known == ({"lr": 0.1}, 0.5)


@pytest.mark.parametrize(
    ("domain", "kind", "name", "arguments"),
    [
        (tune.uniform(0, 2), Float, "uniform", [0, 2]),
        (Float(0, 2), Float, "uniform", [0, 2]),
        (Float(1, 2).loguniform(), Float, "loguniform", [1, 2]),
        (Float(0, 2).uniform().quantized(0.5), Float, "quniform", [0, 2, 0.5]),
        (Float(0, 2).normal(1, 3), Float, "randn", [1, 3]),
        (Integer(1, 9), Integer, "randint", [1, 9]),
        (Integer(1, 9).loguniform(), Integer, "lograndint", [1, 9]),
        (tune.randint(1, 9).quantized(2), Integer, "qrandint", [1, 9, 2]),
        (tune.choice("ab"), Categorical, "choice", ["a", "b"]),
        (Categorical(["a", "b"]).uniform(), Categorical, "choice", ["a", "b"]),
    ],
)
def test_a_domain_has_the_class_that_it_has_in_ray(
    domain: Domain, kind: type[Domain], name: str, arguments: list[object]
) -> None:
    assert type(domain) is kind and isinstance(domain, Domain)
    assert (domain.name, domain.arguments) == (name, arguments)
    assert encode_space({"x": domain})[0] == {"x": {name: arguments}}
    assert domain.is_valid(domain.sample())  # type: ignore[attr-defined]
    again = pickle.loads(pickle.dumps(domain))
    assert (type(again), repr(again)) == (kind, repr(domain))


def test_the_bounds_and_values_of_a_domain_can_be_read() -> None:
    assert (tune.loguniform(1, 8).lower, tune.loguniform(1, 8).upper) == (1, 8)
    assert (tune.randint(1, 8).lower, tune.randint(1, 8).upper) == (1, 8)
    assert tune.randint(1, 8).is_valid(7) and not tune.randint(1, 8).is_valid(8)
    assert tune.qrandint(2, 8, 2).is_valid(8) and tune.randn().lower == -float("inf")
    assert tune.choice([3, 4]).categories == [3, 4] and tune.choice([3]).grid() == {
        "grid_search": [3]
    }
    assert isinstance(tune.sample_from(lambda: 3), Function)
    assert tune.sample_from(lambda: 3).sample() == 3
