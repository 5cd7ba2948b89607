rt_test(unit_run SOURCES run_failpoint_test.cc run_files_test.cc run_queues_test.cc
    run_result_roots_test.cc run_runtime_dir_test.cc run_service_manager_test.cc
    run_subprocess_test.cc DEPS rt_run
    SANITIZE address thread)
