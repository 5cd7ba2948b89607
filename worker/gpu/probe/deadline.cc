#include "worker/gpu/probe/deadline.h"

#include <utility>

namespace rt::probe {

Deadline::Deadline(std::chrono::milliseconds after, std::function<void()> on_expiry)
    : thread_([this, after, on_expiry = std::move(on_expiry)] {
        std::unique_lock lock(mutex_);
        if (!met_.wait_for(lock, after, [this] { return is_met_; })) on_expiry();
      }) {}

Deadline::~Deadline() {
  {
    std::lock_guard lock(mutex_);
    is_met_ = true;
  }
  met_.notify_all();
  thread_.join();
}

}  // namespace rt::probe
