rt_test(unit_spec SOURCES spec_test.cc DEPS rt_spec SANITIZE address)
