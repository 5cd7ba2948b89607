"""ResourceChangingScheduler: what of Ray's arguments becomes of the specification."""

from __future__ import annotations

from typing import Any

import pytest
from asking_head import Head, advised, created, entry, row
from rt import tune
from rt._resources import TrialResources, as_factory
from rt.tune._allocate import ClusterResources
from rt.tune._experiment import Request, advice_of, build_spec
from rt.tune.schedulers import (
    ASHAScheduler,
    DistributeResources,
    DistributeResourcesToTopJob,
    ResourceChangingScheduler,
    TrialScheduler,
)


def spec_of(scheduler: Any, **more: Any) -> dict[str, Any]:
    settings = tune.TuneConfig(metric="loss", mode="min", scheduler=scheduler, **more)
    return build_spec(Request(print, {"lr": 0.1}, settings, tune.RunConfig(name="e")))[0]


def test_it_is_written_beside_its_base_scheduler() -> None:
    spec = spec_of(ResourceChangingScheduler(ASHAScheduler(max_t=16)))
    assert spec["reallocation"] == {"distribute": {}}
    assert spec["scheduler"]["asha"]["max_t"] == 16
    plain = spec_of("resource_changing")
    assert plain["scheduler"] == {"fifo": {}} and plain["reallocation"] == {"distribute": {}}
    assert "reallocation" not in spec_of(ResourceChangingScheduler("asha", None))
    assert "reallocation" not in spec_of("asha")


def test_arguments_of_the_allocation_are_translated() -> None:
    even = DistributeResources(True, {"CPU": 2, "GPU": 0}, 3, {"GPU": 1})
    assert even.to_spec() == {
        "distribute": {
            "add_bundles": True,
            "increase_by": {"cpu": 2},
            "increase_by_times": 3,
            "reserve": {"cpu": 0, "gpu": 1},
        }
    }
    assert DistributeResources(increase_by_times=3).to_spec() == {"distribute": {}}
    top = DistributeResourcesToTopJob(increase_by={"GPU": 1}, metric="acc", mode="max")
    assert top.to_spec() == {
        "distribute_to_top": {
            "increase_by": {"cpu": 0, "gpu": 1}, "metric": "acc", "mode": "max",
        }
    }  # fmt: skip


def test_a_scheduler_of_the_scripts_own_decides_in_the_driver() -> None:
    class Own(TrialScheduler):
        pass

    own = Own()
    assert tune.schedulers.as_scheduler(ResourceChangingScheduler(own)) is own


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: ResourceChangingScheduler(None, 3), "a function from .*, not 3"),
        (lambda: ResourceChangingScheduler(ResourceChangingScheduler()), "itself"),
        (lambda: DistributeResources(increase_by={"memory": 1}), "CPU and GPU only"),
        (lambda: DistributeResources(increase_by={"CPU": -1}), "below 0"),
        (lambda: DistributeResources(increase_by_times=1.5), "whole number"),
        (lambda: DistributeResourcesToTopJob(metric="loss"), "belong together"),
        (lambda: spec_of(ResourceChangingScheduler(), reuse_actors=True), "reuse_actors"),
    ],
)
def test_what_it_cannot_do_is_refused(make: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        make()


def test_a_function_of_the_users_allocates_in_the_script() -> None:
    class Mine(DistributeResources):
        def __call__(self, controller: Any, trial: Any, result: Any, scheduler: Any) -> Any:
            return None

    for allocate in (lambda controller, trial, result, scheduler: None, Mine()):
        scheduler = ResourceChangingScheduler("asha", allocate)
        trainable = tune.with_resources(print, {"cpu": 2})
        settings = tune.TuneConfig(metric="loss", mode="min", scheduler=scheduler)
        request = Request(trainable, {}, settings, tune.RunConfig(name="e"))
        spec = build_spec(request)[0]
        advice = advice_of(request, spec)
        assert "reallocation" not in spec and "asha" in spec["scheduler"]
        assert advice.to_spec() == {"allocates": True}
        assert advice.resources == {"cpu": 2}


def test_a_function_finds_what_rays_functions_read() -> None:
    for spec, bundles in (
        ({"cpu": 2, "gpu": 1}, [{"CPU": 2, "GPU": 1}]),
        ({"bundles": [{"cpu": 1}, {"tpu": 1}], "ranks": 1}, [{"CPU": 1}, {"tpu": 1}]),
        ({"cpu": 1, "custom": {"tpu": 2}, "ranks": 2}, [{"CPU": 1, "tpu": 2}] * 2),
    ):
        factory = as_factory(spec)
        assert factory.bundles == bundles
    assert factory.ranks == 2 and factory.required_resources == {"CPU": 2, "tpu": 4}
    reads: list[int] = []

    def read() -> dict[str, float]:
        reads.append(1)
        return {"CPU": 4.0, "GPU": 0.5}

    cluster = ClusterResources(read)
    assert (cluster.get_num_cpus(), cluster.get_num_gpus()) == (4, 0)
    assert len(reads) == 1
    cluster.update_avail_resources()
    assert len(reads) == 2


def test_a_trial_reads_its_resources_with_the_names_of_ray_and_of_rt() -> None:
    one = TrialResources({"bundles": [{"cpu": 2, "gpu": 1}], "strategy": "SPREAD", "ranks": 1})
    assert (one["cpu"], one.head_cpus, one.strategy) == (2, 2, "SPREAD")
    assert one.required_resources == {"CPU": 2, "GPU": 1}
    flat = TrialResources({"cpu": 4})
    assert flat == {"cpu": 4} and flat.bundles == [{"CPU": 4}]
    two = TrialResources({"bundles": [{"cpu": 1}, {"cpu": 2}], "ranks": 1})
    assert "cpu" not in two and two.required_resources == {"CPU": 3}
    assert TrialResources({}) == {} and TrialResources({}).head_cpus == 0


def allocating(function: Any) -> dict[str, Any]:
    return {
        "allocator": ResourceChangingScheduler(None, function),
        "resources": {"cpu": 1},
    }


def test_a_function_gives_resources_once_for_each_change() -> None:
    seen: list[Any] = []

    def mine(controller: Any, trial: Any, result: dict[str, Any], scheduler: Any) -> Any:
        step = result["training_iteration"]
        seen.append((step, trial.placement_group_factory.required_resources["CPU"]))
        assert scheduler.base_trial_resources.required_resources == {"CPU": 1}
        assert trial in controller.get_live_trials()
        return [None, {"CPU": 2}, tune.PlacementGroupFactory([{"CPU": 2}]), {"cpu": 2}][step - 1]

    head = Head()
    advisors = advised(head, **allocating(mine))
    head.say(created(2), entry(3, "start", rank=0), row(4, 1), row(5, 2), row(6, 3), row(7, 4))
    advisors.poll(0)
    assert seen == [(1, 1), (2, 1), (3, 1), (4, 1)]
    assert [each["resources"] for each in head.answers[0]["allocated"]] == [{"cpu": 2}]
    # The next attempt says what it has.
    again = Head(answered_seq=5)
    advisors = advised(again, **allocating(mine))
    seen.clear()
    again.say(created(2), entry(3, "start", rank=0), row(4, 1), row(5, 2),
              entry(6, "answered", through=5),
              {**entry(7, "start", rank=0), "attempt": 2, "resources": {"cpu": 2}},
              {**row(8, 4), "attempt": 2})  # fmt: skip
    advisors.poll(0)
    assert seen == [(1, 1), (2, 1), (4, 2)]
    assert again.answers[0]["allocated"] == []  # It said so before.


def test_a_function_that_returns_no_resources_is_named() -> None:
    def wrong(controller: Any, trial: Any, result: Any, scheduler: Any) -> Any:
        return 4

    head = Head()
    advisors = advised(head, **allocating(wrong))
    head.say(created(2), entry(3, "start", rank=0), row(4, 1))
    with pytest.raises(ValueError, match=r"resources_allocation_function wrong: .* or None"):
        advisors.poll(0)


def test_resources_that_depend_on_the_configuration_are_refused() -> None:
    trainable = tune.with_resources(print, lambda config: {"cpu": 1})
    settings = tune.TuneConfig(scheduler=ResourceChangingScheduler())
    with pytest.raises(ValueError, match="as a dict"):
        build_spec(Request(trainable, {}, settings, tune.RunConfig(name="e")))


def test_what_the_head_refuses_of_resources_costs_no_other_decision() -> None:
    class Strict(Head):
        def call(self, op: str, **fields: Any) -> Any:
            if op == "driver_answer" and fields["allocated"]:
                raise ValueError("trial 0: resources/memory: must be a size such as 8GiB")
            return super().call(op, **fields)

    class Stops(tune.Stopper):
        def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
            return result["training_iteration"] == 2

        def stop_all(self) -> bool:
            return False

    def mine(controller: Any, trial: Any, result: Any, scheduler: Any) -> Any:
        return {"CPU": 1, "memory": -1}

    head = Strict()
    advisors = advised(head, **allocating(mine), stoppers=[Stops()])
    head.say(created(2), entry(3, "start", rank=0), row(4, 1), row(5, 2))
    with pytest.raises(ValueError, match=r"function mine: trial 0: resources/memory: .* or None"):
        advisors.poll(0)
    assert [each["stops"][0]["number"] for each in head.answers] == [0]
    assert head.answers[0]["allocated"] == [] and head.answers[0]["through"] == 5


def test_what_else_the_head_refuses_is_no_matter_of_resources() -> None:
    class Refusing(Head):
        def call(self, op: str, **fields: Any) -> Any:
            if op == "driver_answer":
                raise ValueError("a suggested configuration must be a map")
            return super().call(op, **fields)

    head = Refusing()
    advisors = advised(head, **allocating(lambda *_: {"CPU": 2}))
    head.say(created(2), entry(3, "start", rank=0), row(4, 1))
    with pytest.raises(ValueError, match=r"^a suggested configuration must be a map"):
        advisors.poll(0)


def test_the_name_of_a_resource_that_is_no_text_is_refused() -> None:
    head = Head()
    advisors = advised(head, **allocating(lambda *_: {1: 2}))
    head.say(created(2), entry(3, "start", rank=0), row(4, 1))
    with pytest.raises(ValueError, match="the name of a resource is a text, not 1"):
        advisors.poll(0)
