rt_test(unit_core_elastic SOURCES core_elastic_test.cc core_profiles_test.cc DEPS rt_head_view SANITIZE address)
