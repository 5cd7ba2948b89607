# Trials in C++ for the end-to-end figures: they link nothing of ours, as anybody's program.
foreach(trial sleep_trial report_trial)
  add_executable(bench_${trial} ${CMAKE_CURRENT_SOURCE_DIR}/${trial}.cc)
  target_link_libraries(bench_${trial} PRIVATE rt_flags)
  if(NOT RT_SANITIZE)
    target_link_options(bench_${trial} PRIVATE -static)
  endif()
endforeach()
