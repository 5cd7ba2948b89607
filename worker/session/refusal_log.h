// When to log one of many refusals that a program can cause as fast as it writes: the first one,
// then at most one in kRefusalLogInterval, with the number since. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "worker/session/socket_limits.h"

namespace rt::worker {

class RefusalLog {
 public:
  // The refusals since the last line in the log, this one included; 0: no line now.
  uint64_t Note(Millis now) {
    ++count_;
    if (logged_at_ && now < *logged_at_ + limits::kRefusalLogInterval) return 0;
    logged_at_ = now;
    return std::exchange(count_, 0);
  }

 private:
  std::optional<Millis> logged_at_;
  uint64_t count_ = 0;
};

}  // namespace rt::worker
