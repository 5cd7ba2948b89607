"""Test functions of Ray that are left out by hand: "file::function" and the reason. Others are
left out by what they name (`core_tests.py`)."""

from __future__ import annotations

LEFT_OUT = {
    "test_actor::test_keep_calling_get_actor": (
        "expects that a handle of get_actor() does not keep its actor; in rt every handle does"
    ),
    "test_actor::test_actor_handle_weak_ref_counting": "the same",
    "test_actor_advanced::test_get_or_create_actor_from_multiple_threads": (
        "a detached actor whose class uses a handle of the session"
    ),
    "test_actor_cancel::test_is_canceled_sync_actor_task": (
        "expects that a method that is cancelled runs on; in rt it gets a KeyboardInterrupt"
    ),
    "test_actor_cancel::test_is_canceled_not_supported_in_async_actor": (
        "expects an error of is_canceled() in a coroutine; in rt it answers"
    ),
    "test_actor_failures::test_exit_actor_invalid_usage_error": (
        "compares the words of an error; rt has its own"
    ),
    "test_asyncio::test_asyncio_actor_shutdown_when_non_async_method_mixed": (
        "expects calls to be slower than one second for 10 000; in rt they end before the exit"
    ),
    "test_actor::test_caching_actors": "turns off that rt connects when it is needed",
    "test_actor_advanced::test_actor_namespace_access": (
        "compares the words of an error; detached actors of rt have no namespaces"
    ),
    "test_actor_advanced::test_create_actor_race_condition": (
        "50 rounds of 1 000 threads that ask for a detached actor take minutes"
    ),
    "test_actor_bounded_threads::test_threaded_actor_have_bounded_num_of_threads": (
        "counts the threads of Ray's own worker; rt has one more"
    ),
    "test_actor_failures::test_exit_actor_queued": (
        "expects calls to be slower than one second for 10 000; in rt they end before the exit"
    ),
    "test_advanced_2::test_gpu_and_neuron_cores": "needs accelerators that rt does not have",
    "test_advanced_2::test_neuron_core_ids": "needs accelerators that rt does not have",
    "test_advanced_2::test_gpu_ids": "asks for neuron cores",
    "test_advanced_2::test_many_custom_resources": "resources whose names are numbers",
    "test_advanced_3::test_object_ref_properties": "makes references from bytes",
    "test_advanced_3::test_logging_to_driver": "reads the prefixes of Ray's own log lines",
    "test_advanced_3::test_not_logging_to_driver": "log_to_driver has no effect in rt",
    "test_advanced_2::test_gpu_ids_cuda_visible_devices_preset": (
        "invents gpus: embedded clusters take their names from the gpus that are there"
    ),
    "test_advanced_6::test_specific_gpus": "the same",
    "test_advanced_9::test_worker_oom_score": "reads the score that Ray gives its own workers",
    "test_advanced_4::test_check_health": "is about Ray's own head",
    "test_advanced_4::test_ray_start_and_stop": "runs `ray start`",
    "test_async::test_run_backgroun_job": "uses an internal function of Ray",
    "test_actor::test_decorator_args": "expects an error for @ray.remote(), which rt accepts",
    "test_actor::test_actor_inheritance": "compares the words of an error; rt has its own",
    "test_basic::test_import_ray_does_not_import_grpc": "is about the modules of Ray itself",
    "test_basic::test_invalid_arguments": "accepts fractions as max_retries; rt does not",
    "test_generators::test_dynamic_generator": "compares the words of an error; rt has its own",
    "test_generators::test_generator_oom": "takes more memory and time than the test is worth",
    "test_generators::test_ray_client": "uses Ray's second client",
}
