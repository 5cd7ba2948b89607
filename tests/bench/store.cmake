# The blob store alone.
add_executable(bench_store store_bench.cc)
target_link_libraries(bench_store PRIVATE rt_flags rt_cas)
rt_use_pch(bench_store)
# What a transfer must do at least.
add_executable(bench_bare_transfer bare_transfer.cc)
target_link_libraries(bench_bare_transfer PRIVATE rt_flags rt_cas rt_rpc)
rt_use_pch(bench_bare_transfer)
# What a worker kept, restored there again.
add_executable(bench_clone clone_bench.cc)
target_link_libraries(bench_clone PRIVATE rt_flags rt_worker_loop rt_cas)
rt_use_pch(bench_clone)
