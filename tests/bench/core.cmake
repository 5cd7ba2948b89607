# The core alone, and the head's restart from its journal.
add_executable(bench_core core_bench.cc fleet.cc)
target_link_libraries(bench_core PRIVATE rt_flags rt_head_core)
rt_use_pch(bench_core)
add_executable(bench_restart restart_bench.cc fleet.cc)
target_link_libraries(bench_restart PRIVATE rt_flags rt_head_loop rt_head_sinks rt_head_journal)
rt_use_pch(bench_restart)
