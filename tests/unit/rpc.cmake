set(RT_PCH OFF)  # gRPC brings -pthread, which the precompiled header was made without.
rt_test(unit_rpc SOURCES rpc_identity_test.cc rpc_channel_test.cc DEPS rt_rpc rt_run)
unset(RT_PCH)
