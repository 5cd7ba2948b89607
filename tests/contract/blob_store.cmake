rt_test(contract_blob_store SOURCES ${CMAKE_CURRENT_LIST_DIR}/blob_store_test.cc
    DEPS rt_remote_store rt_run)
rt_test(contract_pack_store SOURCES ${CMAKE_CURRENT_LIST_DIR}/pack_store_test.cc
    DEPS rt_cas SANITIZE address thread)
rt_test(contract_store_space SOURCES ${CMAKE_CURRENT_LIST_DIR}/store_space_test.cc
    DEPS rt_cas rt_run SANITIZE address thread)
