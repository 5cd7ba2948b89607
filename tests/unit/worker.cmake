rt_test(unit_worker
    SOURCES worker_incarnation_test.cc worker_core_test.cc worker_spool_test.cc worker_shim_test.cc
            worker_barriers_test.cc worker_cache_test.cc worker_launcher_test.cc worker_freezer_test.cc worker_memory_test.cc worker_port_test.cc
            worker_run_dirs_test.cc worker_outputs_test.cc worker_checkpoint_test.cc
            worker_replica_test.cc worker_trees_test.cc worker_cgroup_test.cc
            worker_metric_keys_test.cc worker_watchdog_test.cc worker_loop_watch_test.cc
            worker_away_test.cc worker_reported_test.cc worker_socket_test.cc
            worker_head_link_test.cc worker_executor_relay_test.cc
    DEPS rt_worker_checkpoint rt_worker_link SANITIZE address)
target_compile_definitions(unit_worker PRIVATE RT_SHIM="$<TARGET_FILE:rt_shim>")
add_dependencies(unit_worker rt_shim)
rt_test(unit_profile_line SOURCES profile_line_test.cc worker_gpu_rows_test.cc DEPS rt_worker_session)
rt_test(unit_preflight SOURCES worker_preflight_test.cc DEPS rt_worker_launch SANITIZE address)
