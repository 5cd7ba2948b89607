rt_test(unit_decide SOURCES asha_test.cc DEPS rt_decide SANITIZE address)
