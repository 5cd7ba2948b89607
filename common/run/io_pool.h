// IoPool: a few threads for work that blocks (files, hashing, slow calls), with a bounded queue.
// Thread-safe. The destructor runs what is queued, then joins; jobs must not throw.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace rt {

class IoPool {
 public:
  IoPool(size_t threads, size_t queued_max);
  ~IoPool();
  IoPool(const IoPool&) = delete;
  IoPool& operator=(const IoPool&) = delete;

  // False when the queue is full or the pool stops.
  bool TrySubmit(std::function<void()> job);
  // Waits for room; false only when the pool stops. Never call it from a job of the same pool.
  bool Submit(std::function<void()> job);
  // Returns when nothing is queued or running.
  void Drain();
  // Takes nothing more, runs what is queued, joins. Idempotent; called by the destructor.
  void Stop();

 private:
  void Run();

  const size_t queued_max_;
  std::mutex mutex_;
  std::condition_variable work_;  // A job was queued, or the pool stops.
  std::condition_variable space_;  // A job was taken.
  std::condition_variable idle_;  // The last job is done.
  std::deque<std::function<void()>> queue_;
  size_t running_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace rt
