rt_test(unit_wire SOURCES ${CMAKE_CURRENT_LIST_DIR}/wire_skew_test.cc
    DEPS rt_wire_proto rt_base rt_run)
target_compile_definitions(unit_wire PRIVATE RT_RECORDED_WIRE="${CMAKE_SOURCE_DIR}/tests/data/wire")
