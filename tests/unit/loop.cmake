rt_test(unit_loop
    SOURCES ${CMAKE_CURRENT_LIST_DIR}/loop_test.cc ${CMAKE_CURRENT_LIST_DIR}/loop_limits_test.cc
        ${CMAKE_CURRENT_LIST_DIR}/loop_specs_test.cc
        ${CMAKE_CURRENT_LIST_DIR}/loop_members_test.cc ${CMAKE_CURRENT_LIST_DIR}/loop_lane_test.cc
    DEPS rt_head_loop rt_head_view SANITIZE address thread)
target_compile_definitions(unit_loop
    PRIVATE RT_RECORDED_SPECS="${CMAKE_SOURCE_DIR}/tests/data/specs")
# Its snapshots are written by a thread of low priority: on a busy machine they come late.
if(TEST unit_loop)
  set_tests_properties(unit_loop PROPERTIES RUN_SERIAL ON)
endif()
