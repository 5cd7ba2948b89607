# The core alone, and the head's restart from its journal.
add_executable(bench_core core_bench.cc fleet.cc)
target_link_libraries(bench_core PRIVATE rt_flags rt_head_core)
rt_use_pch(bench_core)
