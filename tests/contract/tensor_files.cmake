add_executable(store_trees ${CMAKE_CURRENT_LIST_DIR}/store_trees.cc)
target_link_libraries(store_trees PRIVATE rt_flags rt_cas)
add_test(NAME contract_tensor_files
    COMMAND ${CMAKE_SOURCE_DIR}/build/venv/bin/python ${CMAKE_CURRENT_LIST_DIR}/tensor_files.py
        ${CMAKE_BINARY_DIR}/bin)
set_tests_properties(contract_tensor_files PROPERTIES FIXTURES_REQUIRED python_venv
    FAIL_REGULAR_EXPRESSION "Ran 0 tests")
