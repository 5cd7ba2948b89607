// Held by a client that changes a cluster in a cloud, so that two commands under one RT_HOME do not
// start, change or end it at once. The second one says which process it waits for. A process that
// dies releases it.
#pragma once

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "cli/client/home.h"
#include "common/run/owned_fd.h"

namespace rt {

class ClusterLock {
 public:
  static absl::StatusOr<ClusterLock> Acquire(const Home& home, const std::string& cluster);

 private:
  explicit ClusterLock(OwnedFd fd) : fd_(std::move(fd)) {}
  OwnedFd fd_;
};

}  // namespace rt
