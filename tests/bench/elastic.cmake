# The elastic policy on published traces; one workload is a test.
add_executable(bench_elastic elastic_bench.cc tiresias.cc)
target_link_libraries(bench_elastic PRIVATE rt_flags rt_cli_trace rt_elastic rt_run)
target_compile_options(bench_elastic PRIVATE -ffp-contract=off)
add_test(NAME bench_elastic_one COMMAND bench_elastic --one ${CMAKE_SOURCE_DIR}/tests/data/elastic)
