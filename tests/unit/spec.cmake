rt_test(unit_spec SOURCES spec_test.cc spec_bounds_test.cc spec_policies_test.cc spec_ranges_test.cc spec_slips_test.cc
    experiment_plateau_test.cc journalled_spec_test.cc plateau_test.cc stop_expression_test.cc
    DEPS rt_spec SANITIZE address)
target_compile_definitions(unit_spec PRIVATE RT_RECORDED_SPECS="${CMAKE_SOURCE_DIR}/tests/data/specs"
    RT_RECORDED_NORMALS="${CMAKE_SOURCE_DIR}/tests/data/normal")
