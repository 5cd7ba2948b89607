find_library(RT_HTTPLIB cpp-httplib REQUIRED)
rt_test(unit_s3
    SOURCES s3_client_test.cc s3_retry_test.cc
    DEPS rt_s3 rt_run ${RT_HTTPLIB} OpenSSL::SSL SANITIZE address)
target_compile_definitions(unit_s3 PRIVATE CPPHTTPLIB_OPENSSL_SUPPORT)
