rt_test(unit_search SOURCES search_test.cc search_bohb_search_test.cc search_cma_search_test.cc search_conditions_test.cc search_dehb_search_test.cc search_outcomes_test.cc search_belief_test.cc search_gp_search_test.cc search_mobster_search_test.cc search_tpe_search_test.cc
    DEPS rt_algorithms SANITIZE address)
