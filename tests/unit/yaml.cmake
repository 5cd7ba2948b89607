rt_test(unit_yaml SOURCES yaml_json_test.cc yaml_cluster_test.cc yaml_hosts_test.cc yaml_pools_test.cc DEPS rt_yaml rt_run SANITIZE address)
