rt_test(unit_core SOURCES core_test.cc core_requests_test.cc core_gpus_test.cc core_gangs_test.cc
    core_history_test.cc core_metric_test.cc core_nodes_test.cc core_promotion_test.cc core_clones_test.cc core_hyperband_test.cc core_median_test.cc core_search_end_test.cc
    core_demand_test.cc core_pools_test.cc core_resize_test.cc core_tokens_test.cc core_lane_test.cc core_outcomes_test.cc
    DEPS rt_head_view SANITIZE address)
