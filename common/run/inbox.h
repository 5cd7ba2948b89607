// Inbox<T>: a bounded queue from many threads to one. Push never blocks: it answers false when
// there is no room, and the caller tells its peer to come back later (RESOURCE_EXHAUSTED). Some
// room is reserved for control messages, which go on when the others flood. Thread-safe; one
// consumer.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <utility>
#include <vector>

namespace rt {

using SteadyTime = std::chrono::steady_clock::time_point;

template <class T>
class Inbox {
 public:
  // `capacity` items in all, of which the last `reserved` are for Push(…, true) only.
  explicit Inbox(size_t capacity, size_t reserved = 0)
      : capacity_(capacity), reserved_(std::min(reserved, capacity)) {}

  // False when there is no room or the inbox is closed; `item` is then left as it was.
  bool Push(T&& item, bool may_use_reserved = false) {
    {
      std::lock_guard lock(mutex_);
      size_t limit = may_use_reserved ? capacity_ : capacity_ - reserved_;
      if (closed_ || items_.size() >= limit) return false;
      items_.push_back(std::move(item));
    }
    not_empty_.notify_one();
    return true;
  }

  // Up to `max` items in order of arrival. Waits until there is one, the deadline passes, Wake or
  // Close; may then be empty.
  std::vector<T> PopBatch(size_t max, SteadyTime deadline) {
    std::unique_lock lock(mutex_);
    not_empty_.wait_until(lock, deadline, [&] { return !items_.empty() || closed_ || woken_; });
    woken_ = false;
    size_t count = std::min(max, items_.size());
    std::vector<T> batch;
    batch.reserve(count);
    for (size_t i = 0; i < count; ++i) {
      batch.push_back(std::move(items_.front()));
      items_.pop_front();
    }
    return batch;
  }

  // Ends the current or the next wait of PopBatch early.
  void Wake() {
    {
      std::lock_guard lock(mutex_);
      woken_ = true;
    }
    not_empty_.notify_one();
  }
  // Nothing more comes in; what is inside can still be popped.
  void Close() {
    {
      std::lock_guard lock(mutex_);
      closed_ = true;
    }
    not_empty_.notify_all();
  }
  bool closed() const {
    std::lock_guard lock(mutex_);
    return closed_;
  }
  size_t size() const {
    std::lock_guard lock(mutex_);
    return items_.size();
  }

 private:
  const size_t capacity_;
  const size_t reserved_;
  mutable std::mutex mutex_;
  std::condition_variable not_empty_;
  std::deque<T> items_;
  bool closed_ = false;
  bool woken_ = false;
};

}  // namespace rt
