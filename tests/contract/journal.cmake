rt_test(contract_journal SOURCES ${CMAKE_CURRENT_LIST_DIR}/journal_test.cc DEPS rt_head_journal
    SANITIZE address thread)
