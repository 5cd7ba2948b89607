# Many nodes in one process, over the real wire.
add_executable(bench_light_workers light_workers_main.cc light_worker.cc)
target_link_libraries(bench_light_workers PRIVATE rt_flags rt_worker_link)
rt_use_pch(bench_light_workers)
