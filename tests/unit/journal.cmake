rt_test(unit_journal SOURCES ${CMAKE_CURRENT_LIST_DIR}/journal_codec_test.cc
    DEPS rt_head_journal rt_store_proto SANITIZE address)
