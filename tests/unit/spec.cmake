rt_test(unit_spec SOURCES spec_test.cc spec_policies_test.cc DEPS rt_spec SANITIZE address)
