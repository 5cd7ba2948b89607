find_library(RT_HTTPLIB cpp-httplib REQUIRED)
rt_test(unit_provider
    SOURCES ec2_client_test.cc ec2_config_test.cc ec2_user_data_test.cc
    DEPS rt_provider rt_cas_pure rt_yaml rt_run ${RT_HTTPLIB} OpenSSL::SSL SANITIZE address)
target_compile_definitions(unit_provider PRIVATE CPPHTTPLIB_OPENSSL_SUPPORT)
