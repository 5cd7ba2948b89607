find_library(RT_HTTPLIB cpp-httplib REQUIRED)
rt_test(unit_notice
    SOURCES notice_sources_test.cc notice_watch_test.cc
    DEPS rt_worker_notice rt_run ${RT_HTTPLIB} OpenSSL::SSL SANITIZE address)
target_compile_definitions(unit_notice PRIVATE CPPHTTPLIB_OPENSSL_SUPPORT)
