rt_test(unit_rpc SOURCES rpc_identity_test.cc rpc_channel_test.cc rpc_seal_test.cc DEPS rt_rpc rt_run)
rt_test(unit_port SOURCES port_bounds_test.cc port_listener_test.cc DEPS rt_rpc rt_run
    SANITIZE address thread)
# Without sanitizers: they have an allocator of their own, which keeps what is freed.
rt_test(unit_freed_memory SOURCES freed_memory_test.cc DEPS rt_rpc rt_run)
rt_test(unit_join SOURCES rpc_join_test.cc DEPS rt_join)
rt_test(unit_task_streams SOURCES task_streams_test.cc DEPS rt_task_stream rt_rpc rt_run SANITIZE thread)
if(RT_SANITIZE MATCHES thread)
  target_link_libraries(unit_task_streams PRIVATE rt_grpc_sync)  # tests/tsan
endif()
