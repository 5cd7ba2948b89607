"""Primitives, their checks, and the arguments of schedulers and searches."""

from __future__ import annotations

import math
import pickle
from typing import Any, Callable, NamedTuple

import pytest
from rt import train, tune
from rt._encode import encode_space, json_config
from rt._json import dump, numbers, parse
from rt._pack import dumps_by_value
from rt._values import restore_values
from rt.tune.schedulers import ASHAScheduler, AsyncHyperBandScheduler, FIFOScheduler
from rt.tune.search import BasicVariantGenerator, ConcurrencyLimiter


def test_every_primitive_has_its_json_form() -> None:
    space = {
        "a": tune.uniform(0, 1), "b": tune.quniform(0, 1, 0.25), "c": tune.loguniform(1e-4, 1),
        "d": tune.qloguniform(0.1, 1, 0.1), "e": tune.randn(), "f": tune.qrandn(0, 1, 0.1),
        "g": tune.randint(0, 9), "h": tune.qrandint(2, 8, 2), "i": tune.lograndint(1, 9),
        "j": tune.qlograndint(1, 9, 2), "k": tune.choice([1, "x", None]),
        "l": tune.grid_search([1, 2]), "m": {"n": [3, {"o": tune.uniform(0, 1)}]}, "p": 4,
    }  # fmt: skip
    encoded, table = encode_space(space)
    assert table == {}
    assert encoded == {
        "a": {"uniform": [0, 1]}, "b": {"quniform": [0, 1, 0.25]}, "c": {"loguniform": [1e-4, 1]},
        "d": {"qloguniform": [0.1, 1, 0.1]}, "e": {"randn": [0.0, 1.0]},
        "f": {"qrandn": [0, 1, 0.1]}, "g": {"randint": [0, 9]}, "h": {"qrandint": [2, 8, 2]},
        "i": {"lograndint": [1, 9]}, "j": {"qlograndint": [1, 9, 2]},
        "k": {"choice": [1, "x", None]}, "l": {"grid": [1, 2]},
        "m": {"n": [3, {"o": {"uniform": [0, 1]}}]}, "p": 4,
    }  # fmt: skip
    for key in "abcdefghijk":
        space[key].sample()


def test_a_constant_that_looks_like_a_primitive_is_escaped() -> None:
    assert encode_space({"raw": {"choice": [1]}})[0] == {"raw": {"constant": {"choice": [1]}}}
    with pytest.raises(ValueError, match="raw: a parameter cannot be called choice"):
        encode_space({"raw": {"choice": tune.uniform(0, 1)}})


@pytest.mark.parametrize(
    "make",
    [
        lambda: tune.uniform(1, 0),
        lambda: tune.uniform(1, 1),
        lambda: tune.uniform("0", 1),  # type: ignore[arg-type]
        lambda: tune.uniform(0, float("inf")),
        lambda: tune.loguniform(0, 1),
        lambda: tune.quniform(0, 1, 0.3),
        lambda: tune.quniform(0, 1, 0),
        lambda: tune.randint(0, 1.5),  # type: ignore[arg-type]
        lambda: tune.qrandint(1, 2, 5),
        lambda: tune.randn(0, -1),
        lambda: tune.choice([]),
        lambda: tune.grid_search([]),
        lambda: tune.sample_from(1),  # type: ignore[arg-type]
        lambda: encode_space([1]),  # type: ignore[arg-type]
        lambda: encode_space({1: 2}),  # type: ignore[dict-item]
        lambda: encode_space({"a": tune.choice([tune.grid_search([1])])}),
        lambda: encode_space({"a": (tune.uniform(0, 1), 2)}),
        lambda: encode_space({"a": tune.choice([[(tune.uniform(0, 1), 2)]])}),
        lambda: encode_space({"a": {1: tune.uniform(0, 1)}}),
        lambda: tune.choice(5),  # type: ignore[arg-type]
        lambda: tune.grid_search(5),  # type: ignore[arg-type]
        lambda: BasicVariantGenerator(points_to_evaluate=[{"a": tune.uniform(0, 1)}]).to_spec(),
        lambda: ASHAScheduler(max_t=1, grace_period=2),
        lambda: ASHAScheduler(reduction_factor=1),
        lambda: ASHAScheduler(mode="best"),
        lambda: BasicVariantGenerator(random_state=-1),
        lambda: ConcurrencyLimiter(BasicVariantGenerator(), 0),
        lambda: tune.TuneConfig(mode="best"),
        lambda: tune.FailureConfig(max_failures=1, fail_fast=True),
        lambda: tune.CheckpointConfig(num_to_keep=0),
        lambda: tune.CheckpointConfig(durable_after="disk"),
        lambda: tune.Tuner("unknown"),
        lambda: tune.Tuner(3),
        lambda: tune.Tuner(int),
        lambda: tune.create_scheduler("pbt"),
        lambda: tune.run(print, stop={"a": "b"}),
        lambda: tune.run(print, num_samples=0),
        lambda: tune.run(print, scheduler="asha"),
        lambda: tune.run(print, checkpoint_freq=1),
        lambda: tune.run(print, callbacks=[object()]),
        lambda: tune.run(print, resume=True),
    ],
)  # fmt: skip
def test_bad_input_is_a_value_error(make: Callable[[], Any]) -> None:
    with pytest.raises(ValueError):
        make()


def test_an_unknown_argument_of_run_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="num_sample"):
        tune.run(print, num_sample=3)


def test_values_that_json_lacks_are_shown_and_restored() -> None:
    first, second = object(), object()
    encoded, table = encode_space({"a": {"b": tune.choice([first, second])}, "c": (1, 2)})
    names = encoded["a"]["b"]["choice"]
    assert names == ["<object object>", "<object object> #2"] and encoded["c"] == "(1, 2)"
    restored = restore_values({"a": {"b": names[1]}, "c": "(1, 2)"}, table)
    assert restored["a"]["b"] is second and restored["c"] == (1, 2)


def test_texts_and_arrays_arrive_as_what_they_were() -> None:
    import numpy

    array = numpy.array([0.5])
    space = {"a": "NaN", "b": "py:1", "c": float("nan"), "d": float("-inf"), "e": numpy.float64(2),
             "f": array, "g": tune.choice(["(1, 2)", (1, 2), "Infinity"]), "h": "\udce9",
             "i": {"j": ["pickle: x", {1: 2}]}}  # fmt: skip
    encoded, table = encode_space(space)
    drawn = {**encoded, "g": encoded["g"]["choice"][1]}
    found = restore_values(numbers(parse(dump(drawn))), table)
    assert found.pop("f") is array and math.isnan(found.pop("c"))
    assert found == {"a": "NaN", "b": "py:1", "d": -math.inf, "e": 2.0, "g": (1, 2),
                     "h": "\udce9", "i": {"j": ["pickle: x", {1: 2}]}}  # fmt: skip
    texts = encoded["g"]["choice"]
    for text, value in zip(texts, ["(1, 2)", (1, 2), "Infinity"]):
        assert restore_values(numbers({"g": text}), table)["g"] == value


def test_what_is_tried_out_follows_the_seed_of_the_module() -> None:
    import random

    domains = [tune.uniform(0, 1), tune.choice([1, 2, 3]), tune.qrandint(0, 100, 5), tune.randn()]
    drawn = []
    for _ in range(2):
        random.seed(5)
        drawn.append([each.sample(size=4) for each in domains])
    assert drawn[0] == drawn[1]


class Point(NamedTuple):
    x: int
    y: int


def test_what_is_computed_for_a_trial_arrives_as_what_it_was() -> None:
    import numpy

    config = {"a": (64, 32), "b": Point(1, 2), "c": {1: (2,)}, "d": "NaN", "e": "py:(1,)",
              "f": b"x", "g": [1, {"h": (True, None)}], "i": 2**70, "k": "\udce9",
              "l": float("inf"), "m": int, "n": 1 + 2j, "o": {3}}  # fmt: skip
    sent = json_config(config)
    assert sent["a"] == "py:(64, 32)" and sent["g"] == [1, {"h": "py:(True, None)"}]
    assert sent["m"].startswith("pickle:<class 'int'> ")
    found = restore_values(numbers(parse(dump(sent))), {}, strict=True)
    assert found == config and type(found["b"]) is Point
    arrays = {"a": numpy.array([0.5]), "b": numpy.zeros(()), "c": numpy.int64(3)}
    sent = json_config(arrays)
    assert (sent["b"], sent["c"]) == (0.0, 3)
    again = restore_values(sent, {})["a"]
    assert again.shape == (1,) and again[0] == 0.5
    with pytest.raises(ValueError, match=r"a/b: .* may have 16384 bytes when pickled"):
        json_config({"a": {"b": numpy.zeros(5000)}})
    with pytest.raises(ValueError, match=r"a: .* cannot be sent to the trials"):
        json_config({"a": (i for i in [1])})


def test_a_value_that_cannot_be_unpickled_here_stays_a_text_unless_it_is_needed() -> None:
    text = "pickle:<x> bm8="
    assert restore_values({"a": text}, {})["a"] == text
    with pytest.raises(pickle.UnpicklingError):
        restore_values({"a": text}, {}, strict=True)


def test_wrapped_trainables_keep_their_names_and_resources() -> None:
    def train_it(config: dict[str, Any], data: list[int]) -> int:
        return len(data)

    wrapped = tune.with_resources(tune.with_parameters(train_it, data=[1, 2]), {"cpu": 2})
    assert wrapped.__name__ == "train_it" and wrapped({}) == 2

    class Trains(tune.Trainable):
        def setup(self, config: dict[str, Any], data: Any = None) -> None:
            self.data = data

    made = tune.with_resources(tune.with_parameters(Trains, data=[3]), {"gpu": 1})
    assert made.__name__ == "Trains" and made({}).data == [3]
    assert dumps_by_value(made) and dumps_by_value(wrapped)


def test_what_cannot_be_pickled_says_so() -> None:
    import threading

    lock = threading.Lock()
    with pytest.raises(ValueError, match="cannot be sent to the trials"):
        dumps_by_value(lambda config: lock)


def test_the_names_of_ray_are_there() -> None:
    import rt as ray
    from rt.tune.logger import pretty_print

    assert ASHAScheduler is AsyncHyperBandScheduler and FIFOScheduler().to_spec() == {"fifo": {}}
    assert ray.tune is tune and ray.train is train
    assert pretty_print({"a": {"b": 1}}) == "a:\n  b: 1\n"
    for name in ("report", "Checkpoint", "RunConfig", "FailureConfig", "CheckpointConfig"):
        assert hasattr(train, name) and hasattr(tune, name)


def test_a_class_without_steps_says_what_is_missing() -> None:
    with pytest.raises(TypeError, match=r"must define step\(\) or _train\(\)"):
        tune.Trainable().train()
