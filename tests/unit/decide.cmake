rt_test(unit_decide SOURCES asha_test.cc DEPS rt_algorithms SANITIZE address)
