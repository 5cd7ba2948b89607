rt_test(unit_elastic SOURCES elastic_model_test.cc elastic_policy_test.cc elastic_taught_test.cc DEPS rt_elastic SANITIZE address)
target_compile_options(unit_elastic PRIVATE -ffp-contract=off)
