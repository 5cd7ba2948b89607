rt_test(contract_node_provider SOURCES ${CMAKE_CURRENT_LIST_DIR}/node_provider_test.cc
    DEPS rt_provider rt_run SANITIZE address thread)
