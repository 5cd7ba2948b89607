// What happens when something does not come back in time: a thread of its own, because the one that
// waits may never get its thread back from a library.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace rt::probe {

class Deadline {
 public:
  // `on_expiry` is called once, on that thread, unless this is destroyed before.
  Deadline(std::chrono::milliseconds after, std::function<void()> on_expiry);
  ~Deadline();
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable met_;
  bool is_met_ = false;
  std::thread thread_;
};

}  // namespace rt::probe
