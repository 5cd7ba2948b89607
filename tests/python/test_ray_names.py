"""Every public name of Ray and its libraries is there, or says what works instead."""

from __future__ import annotations

import ast
import copy
import importlib
import importlib.util
import inspect
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from fake_world import World
from fake_world import trial as world_trial
from ray_page import PAGE, page
from rt import train, tune
from rt._encode import encode_space
from rt._missing import explain_argument
from rt.tune._live import Controller, LiveTrial
from rt.tune.search.sample import Categorical, Domain, Float, Function, Integer

_RECORD = json.loads((Path(__file__).parents[1] / "data" / "ray_names.json").read_text())
_NAMES: dict[str, dict[str, Any]] = _RECORD["modules"]
# Modules of rt that import a library, as Ray's do.
_NEEDS = {
    "air.integrations.keras": "keras",
    "train.huggingface.transformers": "transformers",
    "train.lightgbm": "lightgbm",
    "train.lightning": "pytorch_lightning",
    "train.tensorflow.keras": "keras",
    "train.torch": "torch",
    "train.xgboost": "xgboost",
    "tune.integration.keras": "keras",
    "tune.integration.lightgbm": "lightgbm",
    "tune.integration.pytorch_lightning": "pytorch_lightning",
    "tune.integration.xgboost": "xgboost",
}


def _is_usable(module: str) -> bool:
    needed = [
        library
        for name, library in _NEEDS.items()
        if module == name or module.startswith(f"{name}.")
    ]
    return all(importlib.util.find_spec(each) is not None for each in needed)


_MODULES = [each for each in _NAMES if _is_usable(each)]
# Modules whose classes and functions take what Ray's take.
_WITH_ARGUMENTS = (
    "air.integrations",
    "tune.callback",
    "tune.integration",
    "tune.logger",
    "tune.schedulers",
    "tune.search",
    "tune.stopper",
    "tune.trainable",
    "tune.tune",
    "tune.utils",
)


@pytest.mark.parametrize("module", _MODULES)
def test_a_public_name_of_ray_is_there_or_says_what_works(module: str) -> None:
    bare = []
    path = f"rt.{module}".rstrip(".")
    for code in [f"import {path}", *(f"from {path} import {name}" for name in _NAMES[module])]:
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
        "from rt.tune.logger.mlflow import MLflowLoggerCallback",
        "from rt.tune.logger.wandb import WandbLoggerCallback",
        "from rt.tune.suggest.optuna import OptunaSearch",
        "from rt.tune.utils import *; flatten_dict",
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
        (tune.uniform(0, 1), "default_sampler_cls"),
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


def test_the_page_about_ray_is_what_the_tables_say() -> None:
    assert _lines(PAGE.read_text(encoding="utf-8")) == _lines(page()), "run ray_page.py"


def _lines(text: str) -> list[str]:
    """Without those of schedulers, which come one by one."""
    schedulers = ("rt.tune.schedulers", "**A scheduler.**")
    return [line for line in text.splitlines() if not any(each in line for each in schedulers)]


# Arguments of Ray that rt does not name, because they say how Ray runs what runs in the head.
_OTHER_ARGUMENTS = {
    "tune.Experiment": "all: they are those of tune.run",
}


@pytest.mark.parametrize("module", [each for each in _MODULES if each.startswith(_WITH_ARGUMENTS)])
def test_a_class_of_ray_has_its_arguments_and_defaults(module: str) -> None:
    try:
        found = importlib.import_module(f"rt.{module}")
    except ModuleNotFoundError:  # The test above reads what it says.
        return
    wrong = []
    for name, recorded in _NAMES[module].items():
        theirs = recorded and {each: default for each, default in recorded if each[0] != "*"}
        ours = getattr(found, name, None)
        if not theirs or ours is None or f"{module}.{name}" in _OTHER_ARGUMENTS:
            continue
        parameters = inspect.signature(ours).parameters
        takes_all = any(each.kind == each.VAR_KEYWORD for each in parameters.values())
        for argument, default in theirs.items():
            parameter = parameters.get(argument)
            if parameter is None:
                if not takes_all and not explain_argument(name, argument):
                    wrong.append(f"{name}({argument})")
            elif not _is_default(parameter.default, default):
                wrong.append(f"{name}({argument}={default}), not {parameter.default!r}")
    assert wrong == []


def _is_default(ours: Any, recorded: str) -> bool:
    if recorded == "":
        return True  # Ours may have a default where Ray's has none.
    try:
        return bool(ours == ast.literal_eval(recorded))
    except ValueError:
        return True  # The text of an expression, such as a name.
