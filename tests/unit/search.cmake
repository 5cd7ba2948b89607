rt_test(unit_search SOURCES search_test.cc DEPS rt_algorithms SANITIZE address)
