find_library(RT_HTTPLIB cpp-httplib REQUIRED)
rt_test(unit_aws
    SOURCES aws_credential_chain_test.cc aws_sigv4_test.cc aws_xml_tree_test.cc
    DEPS rt_aws rt_run ${RT_HTTPLIB} OpenSSL::SSL SANITIZE address)
target_compile_definitions(unit_aws PRIVATE CPPHTTPLIB_OPENSSL_SUPPORT)
