// The writing half of a journal with a thread of its own: batches are handed over without waiting,
// committed in order and in groups, and announced once each. After the first failure nothing is
// committed any more: memory is ahead of what is kept, and every later batch fails the same way.
// Push may be called from any thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "head/journal/journal.h"

namespace rt {

class AppendQueue {
 public:
  struct Work {
    Batch batch;
    Journal::Done done;
  };
  // Both run on the queue's thread. `commit` takes a group; `rest` follows each group that was
  // announced, and comes when nothing was to be done for `rest_after` (`is_idle`). An error of
  // either is the failure of all later batches.
  struct Options {
    std::function<absl::Status(const std::vector<Work>&)> commit;
    std::function<absl::Status(bool is_idle)> rest;
    std::chrono::milliseconds rest_after{1'000};
  };

  explicit AppendQueue(Options options) : options_(std::move(options)) {}
  ~AppendQueue() { Stop(); }  // Commits what waits.

  void Start();
  void Stop();
  void Push(Batch batch, Journal::Done done);

 private:
  void Run();
  absl::Status Commit(const std::vector<Work>& group);

  const Options options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> queue_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace rt
