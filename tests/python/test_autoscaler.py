"""rt.autoscaler.sdk: what reaches the head, and what is refused before."""

from __future__ import annotations

from typing import Any

import pytest
import rt
from fake_world import World
from rt.autoscaler.sdk import request_resources


def test_a_request_travels_as_sizes_with_their_numbers(world: World) -> None:
    request_resources(num_cpus=3)
    request_resources(bundles=[{"CPU": 2, "GPU": 1}, {"GPU": 1, "CPU": 2}, {"tpu": 1}])
    request_resources(num_cpus=2, bundles=[{"CPU": 4}])
    request_resources(bundles=[])
    request_resources(num_cpus=0)
    request_resources()
    assert [one["bundles"] for one in world.asked("resources_request")] == [
        [{"resources": {"cpu": 1}, "count": 3}],
        [
            {"resources": {"cpu": 2, "gpu": 1}, "count": 2},
            {"resources": {"cpu": 0, "tpu": 1}, "count": 1},
        ],
        [{"resources": {"cpu": 4}, "count": 1}, {"resources": {"cpu": 1}, "count": 2}],
        [],
        [],
        [],
    ]


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"num_cpus": 1.5}, TypeError, "num_cpus should be of type int"),
        ({"num_cpus": True}, TypeError, "num_cpus should be of type int"),
        ({"num_cpus": -1}, ValueError, "0 or more"),
        ({"bundles": {"CPU": 1}}, TypeError, "bundles should be a list"),
        ({"bundles": [3]}, TypeError, "each bundle should be a dict"),
        ({"bundles": [{"CPU": "many"}]}, ValueError, "'CPU' must be a number"),
        ({"bundles": [{"CPU": -2}]}, ValueError, "'CPU' must be a number"),
        ({"bundles": [{"CPU": 1}], "bundle_label_selectors": [{"a": "b"}]}, ValueError, "labels"),
    ],
)
def test_what_is_no_request_is_refused(
    world: World, arguments: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        request_resources(**arguments)
    assert world.asked("resources_request") == []


def test_a_request_that_the_head_refuses_is_a_value_error(world: World) -> None:
    refused = {"code": "INVALID_ARGUMENT", "message": "no single node has 9 cpus", "hint": None}
    world.set(fail={"resources_request": refused})
    with pytest.raises(ValueError, match="no single node"):
        request_resources(num_cpus=9)


def test_other_names_of_the_module_say_what_works_instead() -> None:
    assert rt.autoscaler.sdk.request_resources is request_resources
    with pytest.raises(AttributeError, match="rt up"):
        rt.autoscaler.sdk.create_or_update_cluster  # noqa: B018
