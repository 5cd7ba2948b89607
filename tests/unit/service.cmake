set(RT_PCH OFF)  # gRPC brings -pthread, which the precompiled header was made without.
rt_test(unit_service SOURCES service_test.cc DEPS rt_head_service rt_head_main)
unset(RT_PCH)
