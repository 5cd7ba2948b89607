rt_test(contract_journal SOURCES ${CMAKE_CURRENT_LIST_DIR}/journal_test.cc DEPS rt_head_journal
    SANITIZE address thread)
rt_test(contract_journal_postgres SOURCES ${CMAKE_CURRENT_LIST_DIR}/journal_postgres_test.cc
    DEPS rt_head_journal SANITIZE address)
rt_test(contract_journal_shipping SOURCES ${CMAKE_CURRENT_LIST_DIR}/journal_shipping_test.cc
    DEPS rt_head_journal SANITIZE address thread)
