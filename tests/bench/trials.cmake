# Trials in C++ for the end-to-end figures: they link nothing of ours, as anybody's program.
add_executable(bench_sleep_trial ${CMAKE_CURRENT_SOURCE_DIR}/sleep_trial.cc)
add_executable(bench_report_trial ${CMAKE_CURRENT_SOURCE_DIR}/report_trial.cc)
foreach(trial bench_sleep_trial bench_report_trial)
  target_link_libraries(${trial} PRIVATE rt_flags)
  if(NOT RT_SANITIZE)
    target_link_options(${trial} PRIVATE -static)
  endif()
endforeach()
