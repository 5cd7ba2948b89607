rt_test(unit_cas
    SOURCES cas_digest_test.cc cas_ignore_test.cc cas_manifest_test.cc cas_tree_test.cc
    DEPS rt_cas rt_run)
set(RT_PCH OFF)  # gRPC brings -pthread, which the precompiled header was made without.
rt_test(contract_blob_store SOURCES ${CMAKE_CURRENT_LIST_DIR}/../contract/blob_store_test.cc
    DEPS rt_remote_store rt_run)
unset(RT_PCH)
