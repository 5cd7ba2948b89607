rt_test(unit_executors SOURCES core_executors_test.cc executor_spec_test.cc
    DEPS rt_head_view SANITIZE address)
