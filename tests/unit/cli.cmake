rt_test(unit_cli SOURCES cli_best_test.cc cli_lists_test.cc cli_job_end_test.cc cli_live_test.cc cli_plan_test.cc cli_plan_space_test.cc
    cli_render_test.cc
    cli_selector_test.cc cli_why_test.cc DEPS rt_cli_pure rt_run)
rt_test(unit_cli_doctor SOURCES cli_aws_file_test.cc cli_doctor_test.cc cli_download_test.cc cli_head_client_test.cc
    cli_home_test.cc cli_hosts_test.cc cli_snapshot_test.cc DEPS rt_cli_core)
set_source_files_properties(cli_aws_file_test.cc PROPERTIES
    COMPILE_DEFINITIONS "RT_ARTICLE_FILE=\"${CMAKE_SOURCE_DIR}/tests/data/article_cluster.yaml\"")
