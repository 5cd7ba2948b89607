rt_test(unit_yaml SOURCES yaml_json_test.cc yaml_cluster_test.cc yaml_hosts_test.cc yaml_pools_test.cc DEPS rt_yaml rt_run SANITIZE address)
set_source_files_properties(yaml_pools_test.cc PROPERTIES
    COMPILE_DEFINITIONS "RT_ARTICLE_FILE=\"${CMAKE_SOURCE_DIR}/tests/data/article_cluster.yaml\"")
