# How good the searches of the head are, and how long a suggestion takes.
add_executable(bench_search search/search_bench.cc search/functions.cc)
target_link_libraries(bench_search PRIVATE rt_flags rt_algorithms)
target_include_directories(bench_search PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
rt_use_pch(bench_search)
add_executable(bench_fidelity search/fidelity_bench.cc search/fidelity_problems.cc search/functions.cc search/rung_race.cc)
target_link_libraries(bench_fidelity PRIVATE rt_flags rt_algorithms)
target_include_directories(bench_fidelity PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
rt_use_pch(bench_fidelity)
