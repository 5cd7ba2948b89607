rt_test(contract_blob_store SOURCES ${CMAKE_CURRENT_LIST_DIR}/blob_store_test.cc
        ${CMAKE_CURRENT_LIST_DIR}/pack_store_test.cc
    DEPS rt_remote_store rt_run)
