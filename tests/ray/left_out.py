"""Test functions of Ray that are left out by hand: "file::function" and the reason. Others are
left out by what they name (`core_tests.py`)."""

from __future__ import annotations

LEFT_OUT = {
    "test_actor::test_caching_actors": "turns off that rt connects when it is needed",
    "test_actor::test_decorator_args": "expects an error for @ray.remote(), which rt accepts",
    "test_actor::test_actor_inheritance": "compares the words of an error; rt has its own",
    "test_basic_2::test_variable_number_of_args": (
        "rt finds wrong arguments of a task where it runs, not at remote() (ours to mend)"
    ),
    "test_basic::test_import_ray_does_not_import_grpc": "is about the modules of Ray itself",
    "test_basic::test_invalid_arguments": "accepts fractions as max_retries; rt does not",
    "test_generators::test_dynamic_generator": "compares the words of an error; rt has its own",
    "test_generators::test_generator_errors": (
        "a task with a fixed num_returns that yields some values and raises loses the values "
        "(ours to mend)"
    ),
    "test_generators::test_generator_oom": "takes more memory and time than the test is worth",
    "test_generators::test_ray_client": "uses Ray's second client",
}
