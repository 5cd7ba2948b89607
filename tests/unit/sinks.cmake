rt_test(unit_sinks
    SOURCES ${CMAKE_CURRENT_LIST_DIR}/sinks_test.cc ${CMAKE_CURRENT_LIST_DIR}/sinks_queue_test.cc
        ${CMAKE_CURRENT_LIST_DIR}/sinks_policy_test.cc
        ${CMAKE_CURRENT_LIST_DIR}/sinks_restart_test.cc
        ${CMAKE_SOURCE_DIR}/tests/bench/fleet.cc
    DEPS rt_head_sinks SANITIZE address thread)
