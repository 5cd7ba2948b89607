// The lock on STATE_DIR/launch-lock: shared by this daemon and by the processes that may still
// begin a launch that it asked for after it was killed. These are the process that forks shims, a
// shim until it has written who it is, and a warm start's group until it starts nothing more. They
// inherit the descriptor, so the kernel releases the lock however they end. Thread-safe.
#pragma once

#include <mutex>
#include <string>

#include "absl/status/statusor.h"

namespace rt::worker {

class LaunchLock {
 public:
  explicit LaunchLock(std::string path) : path_(std::move(path)) {}
  ~LaunchLock();
  LaunchLock(const LaunchLock&) = delete;
  LaunchLock& operator=(const LaunchLock&) = delete;

  // Whether any process has the lock. Also true if there is no lock file, as after an upgrade from
  // a release without it.
  bool IsHeld() const;
  // To be inherited; taken at the first call.
  absl::StatusOr<int> Hold();

 private:
  const std::string path_;
  std::mutex mutex_;
  int fd_ = -1;
};

}  // namespace rt::worker
