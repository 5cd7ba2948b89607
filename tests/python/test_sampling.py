"""Ray's modules around search spaces: distributions as objects, and the variants of a space."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rt import tune
from rt.tune.search import sample
from rt.tune.search.variant_generator import (
    RecursiveDependencyError,
    assign_value,
    flatten_resolved_vars,
    format_vars,
    generate_variants,
    parse_spec_vars,
)


@pytest.mark.parametrize(
    ("domain", "kind", "q"),
    [
        (tune.uniform(0, 1), sample.Uniform, None),
        (tune.loguniform(1, 2), sample.LogUniform, None),
        (tune.qloguniform(1, 2, 0.5), sample.LogUniform, 0.5),
        (tune.randn(2, 3), sample.Normal, None),
        (tune.qrandn(2, 3, 0.1), sample.Normal, 0.1),
        (tune.randint(1, 9), sample.Uniform, None),
        (tune.qlograndint(2, 8, 2), sample.LogUniform, 2),
        (tune.choice([1, 2]), sample.Uniform, None),
    ],
)
def test_a_converter_can_ask_for_the_distribution(domain: Any, kind: Any, q: Any) -> None:
    sampler = domain.get_sampler()
    if q is not None:
        assert isinstance(sampler, sample.Quantized) and sampler.q == q
        sampler = sampler.get_sampler()
    assert type(sampler) is kind and str(sampler) == kind.__name__
    assert domain.is_valid(domain.sampler.sample(domain))
    assert not domain.is_function() and not domain.is_grid()


def test_a_distribution_can_be_replaced() -> None:
    domain = sample.Float(1, 8)
    domain.set_sampler(sample.LogUniform())
    assert repr(domain) == "loguniform(1.0, 8.0)"
    with pytest.raises(ValueError, match="has a distribution; allow_override=True"):
        domain.set_sampler(sample.Uniform())
    domain.set_sampler(sample.Quantized(sample.Uniform(), 0.5), allow_override=True)
    assert repr(domain) == "quniform(1.0, 8.0, 0.5)"
    with pytest.raises(ValueError, match=r"randint\(1, 9\) has no distribution Normal"):
        tune.randint(1, 9).set_sampler(sample.Normal())
    with pytest.raises(ValueError, match="for a grid: grid_search"):
        tune.choice([1]).set_sampler(sample.Grid())
    with pytest.raises(RuntimeError, match="a grid is not drawn"):
        sample.Grid().sample(tune.choice([1]))


def test_values_are_cast_and_drawn_from_a_seed() -> None:
    assert tune.uniform(0, 1).cast(1) == 1.0 and tune.randint(0, 5).cast(3.7) == 3
    assert tune.choice("ab").cast("b") == "b" and tune.choice("ab").domain_str == "['a', 'b']"
    assert tune.uniform(0, 1).domain_str == "(0.0, 1.0)"
    first = tune.uniform(0, 1).sample(size=3, random_state=np.random.RandomState(1))
    again = tune.uniform(0, 1).sample(size=3, random_state=np.random.RandomState(1))
    assert first == again and len(set(first)) == 3
    assert tune.uniform(0, 1).sample(random_state=4) == tune.uniform(0, 1).sample(random_state=4)
    function = tune.sample_from(lambda config: config["x"] + 1)
    assert function.is_function() and function.sample({"x": 2}) == 3 and function.is_valid(object())


def test_the_first_grid_varies_fastest() -> None:
    space = {"b": tune.grid_search([3, 4]), "a": tune.grid_search([1, 2]), "c": [7], "d": {"e": 8}}
    found = list(generate_variants(space))
    assert [(each["a"], each["b"]) for _, each in found] == [(1, 3), (2, 3), (1, 4), (2, 4)]
    assert found[1][0] == {("a",): 2, ("b",): 3} and found[1][1]["d"] == {"e": 8}
    assert space["a"] == {"grid_search": [1, 2]}  # Unchanged.


def test_values_are_drawn_for_each_point_or_once() -> None:
    space = {"g": tune.grid_search([1, 2, 3]), "x": tune.uniform(0, 1)}
    drawn = [config["x"] for _, config in generate_variants(space, random_state=1)]
    assert len(set(drawn)) == 3
    assert drawn == [config["x"] for _, config in generate_variants(space, random_state=1)]
    once = [config["x"] for _, config in generate_variants(space, constant_grid_search=True)]
    assert len(set(once)) == 1


def test_functions_and_texts_see_the_other_values() -> None:
    space = {
        "c": {"eval": "spec.b * 10"},
        "b": tune.sample_from(lambda spec: spec.a + 1),
        "a": tune.grid_search([1, 5]),
        "nested": {"choice": tune.choice([tune.randint(8, 9)])},
    }
    found = [config for _, config in generate_variants(space)]
    assert [(each["b"], each["c"]) for each in found] == [(2, 20), (6, 60)]
    assert found[0]["nested"] == {"choice": 8}
    one, other = tune.sample_from(lambda spec: spec.b), tune.sample_from(lambda spec: spec.a)
    with pytest.raises(RecursiveDependencyError, match=r"a, b: these values .* need each other"):
        list(generate_variants({"a": one, "b": other}))


def test_the_parts_of_a_spec() -> None:
    domain = tune.uniform(0, 1)
    spec = {"a": 1, "b": {"c": domain}, "g": tune.grid_search([1])}
    assert parse_spec_vars(spec) == ([(("a",), 1)], [(("b", "c"), domain)], [(("g",), [1])])
    assign_value(spec, ("b", "c"), 5)
    assert spec["b"] == {"c": 5}
    values = {("b", "lr"): 0.1, ("a", 0): "x", ("run",): "name"}
    assert format_vars(values) == "a_0=x,lr=0.1000"
    assert flatten_resolved_vars(values)["b/lr"] == 0.1
