# EC2: moto and boto3 come from the Python environment of the tests.
add_executable(contract_ec2 ${CMAKE_CURRENT_LIST_DIR}/ec2_test.cc)
target_link_libraries(contract_ec2 PRIVATE rt_catch_main rt_provider rt_run)
add_test(NAME contract_ec2
    COMMAND ${CMAKE_SOURCE_DIR}/build/venv/bin/python ${CMAKE_CURRENT_LIST_DIR}/ec2.py
        ${CMAKE_BINARY_DIR}/bin)
set_tests_properties(contract_ec2 PROPERTIES FIXTURES_REQUIRED python_venv)
