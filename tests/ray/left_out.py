"""Test functions of Ray that are left out by hand: "file::function" and the reason. Others are
left out by what they name (`core_tests.py`)."""

from __future__ import annotations

LEFT_OUT = {
    "test_actor::test_caching_actors": "turns off that rt connects when it is needed",
    "test_actor::test_decorator_args": "expects an error for @ray.remote(), which rt accepts",
    "test_actor::test_actor_inheritance": "compares the words of an error; rt has its own",
    "test_basic::test_import_ray_does_not_import_grpc": "is about the modules of Ray itself",
    "test_basic::test_invalid_arguments": "accepts fractions as max_retries; rt does not",
    "test_generators::test_ray_client": "uses Ray's second client",
}
