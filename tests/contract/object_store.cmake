rt_test(contract_object_store
    SOURCES ${CMAKE_CURRENT_LIST_DIR}/decorator_test.cc ${CMAKE_CURRENT_LIST_DIR}/object_store_test.cc
    DEPS rt_cas rt_run SANITIZE address thread)
