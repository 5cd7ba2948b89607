rt_test(unit_core_elastic SOURCES core_elastic_test.cc DEPS rt_head_view SANITIZE address)
