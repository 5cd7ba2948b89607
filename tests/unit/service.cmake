rt_test(unit_service SOURCES attach_test.cc fetched_logs_test.cc metrics_page_test.cc peer_book_test.cc questions_test.cc result_files_test.cc results_dir_test.cc
    service_hooks_test.cc service_sync_test.cc service_test.cc service_tokens_test.cc
    service_translate_test.cc state_dir_test.cc
    sweeper_test.cc trial_rows_test.cc DEPS rt_head_service rt_head_main)
target_compile_definitions(unit_service PRIVATE RT_DOCS="${CMAKE_SOURCE_DIR}/docs"
    RT_RECORDED_SPECS="${CMAKE_SOURCE_DIR}/tests/data/specs")
