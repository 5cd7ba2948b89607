# The blob store alone.
add_executable(bench_store store_bench.cc)
target_link_libraries(bench_store PRIVATE rt_flags rt_cas)
rt_use_pch(bench_store)
