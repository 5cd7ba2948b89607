rt_test(unit_algorithms SOURCES algorithms_test.cc ask_tell_test.cc DEPS rt_algorithms SANITIZE address)
target_compile_definitions(unit_algorithms PRIVATE
    RT_ALGORITHM_DOCS="${CMAKE_SOURCE_DIR}/docs/algorithms.md")
