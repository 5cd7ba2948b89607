# Buckets: moto and botocore come from the Python environment of the tests.
add_executable(contract_s3 ${CMAKE_CURRENT_LIST_DIR}/s3_test.cc)
target_link_libraries(contract_s3 PRIVATE rt_catch_main rt_s3 rt_run)
add_executable(sign_lines ${CMAKE_CURRENT_LIST_DIR}/sign_lines.cc)
target_link_libraries(sign_lines PRIVATE rt_flags rt_s3)
add_test(NAME contract_s3
    COMMAND ${CMAKE_SOURCE_DIR}/build/venv/bin/python ${CMAKE_CURRENT_LIST_DIR}/s3.py
        ${CMAKE_BINARY_DIR}/bin)
set_tests_properties(contract_s3 PROPERTIES FIXTURES_REQUIRED python_venv)
