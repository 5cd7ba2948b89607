# Workers that fetch from each other.
rt_test(contract_peers SOURCES ${CMAKE_CURRENT_LIST_DIR}/peers_test.cc
    DEPS rt_worker_link rt_head_service rt_remote_store rt_run)
