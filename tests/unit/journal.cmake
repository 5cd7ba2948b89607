rt_test(unit_journal
    SOURCES ${CMAKE_CURRENT_LIST_DIR}/journal_codec_test.cc
        ${CMAKE_CURRENT_LIST_DIR}/journal_recorded_test.cc
    DEPS rt_head_journal rt_store_proto SANITIZE address)
target_compile_definitions(unit_journal
    PRIVATE RT_RECORDED_JOURNALS="${CMAKE_SOURCE_DIR}/tests/data/journals")
