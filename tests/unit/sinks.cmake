rt_test(unit_sinks SOURCES ${CMAKE_CURRENT_LIST_DIR}/sinks_test.cc DEPS rt_head_sinks)
