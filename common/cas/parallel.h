// Runs `job(i)` for every i below `count` on at most `threads` threads, ours among them. The first
// error stops the taking of new ones and is returned when all have come back.
#pragma once

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/status/status.h"

namespace rt {

template <class Job>
absl::Status ForEachParallel(size_t count, size_t threads, Job&& job) {
  std::atomic<size_t> next{0};
  std::mutex mutex;
  absl::Status first;
  auto work = [&] {
    for (size_t i = next++; i < count; i = next++) {
      absl::Status status = job(i);
      if (status.ok()) continue;
      next = count;
      std::lock_guard lock(mutex);
      if (first.ok()) first = std::move(status);
    }
  };
  std::vector<std::thread> helpers;
  for (size_t i = 1; i < std::min(threads, count); ++i) helpers.emplace_back(work);
  work();
  for (std::thread& helper : helpers) helper.join();
  return first;
}

}  // namespace rt
