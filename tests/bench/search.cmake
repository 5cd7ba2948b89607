# How good the searches of the head are, and how long a suggestion takes.
add_executable(bench_search search/search_bench.cc search/functions.cc)
target_link_libraries(bench_search PRIVATE rt_flags rt_algorithms)
target_include_directories(bench_search PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
rt_use_pch(bench_search)
