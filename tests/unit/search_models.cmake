# The models of common/search and what they are made of.
rt_test(unit_search_models
    SOURCES search_bohb_test.cc search_branches_test.cc search_cma_test.cc search_dehb_test.cc search_elementary_test.cc search_encoding_test.cc search_gaussian_test.cc
        search_gp_test.cc search_mobster_test.cc search_noise_test.cc search_sobol_test.cc search_tpe_test.cc
    DEPS rt_search SANITIZE address)
target_compile_options(unit_search_models PRIVATE -ffp-contract=off)  # As its inline functions need.
# What checks numbers only runs as released: a sanitizer has it take ten times as long, and finds in it
# what it finds in the short runs above.
rt_test(unit_search_numbers SOURCES search_front_test.cc search_regret_test.cc DEPS rt_algorithms)
target_compile_options(unit_search_numbers PRIVATE -ffp-contract=off)
